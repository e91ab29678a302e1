use proptest::prelude::*;

use super::*;

fn share(key: &str, weight: i16, served: Option<i64>) -> Share {
    Share {
        fairness_key: key.to_owned(),
        priority: 5,
        due: 0,
        fairness_weight: Some(weight),
        served,
    }
}

/// Claims of `limit` from shares that never run dry; how many each gave.
fn served(weights: &[i16], limits: &[u32]) -> Vec<i64> {
    let mut shares: Vec<_> = weights
        .iter()
        .enumerate()
        .map(|(index, weight)| share(&format!("k{index:04}"), *weight, None))
        .collect();
    let mut counts = vec![0; shares.len()];
    for limit in limits {
        let mut left = i64::from(*limit);
        let mut taken = Vec::new();
        for portion in portions(&shares, 1, *limit) {
            let count = portion.most.min(left);
            left -= count;
            taken.extend((0..count).map(|_| portion.fairness_key.clone()));
        }
        assert_eq!(left, 0, "a claim is as large as it may be");
        let weight = |key: &str| weights[key[1..].parse::<usize>().expect("a number")];
        let tasks = taken.iter().map(|key| (key.as_str(), 5, weight(key)));
        for charge in charges(&shares, tasks) {
            let is_it = |share: &&mut Share| share.fairness_key == charge.fairness_key;
            let share = shares.iter_mut().find(is_it).expect("a share");
            let before = share
                .served
                .map_or(charge.start, |served| served.max(charge.start));
            share.served = Some(before + charge.cost);
        }
        for key in taken {
            counts[key[1..].parse::<usize>().expect("a number")] += 1;
        }
    }
    counts
}

#[test]
fn three_times_the_weight_is_three_times_the_tasks_whatever_the_size_of_claims() {
    assert_eq!(served(&[3, 1], &[100]), [75, 25]);
    let one_by_one = served(&[3, 1], &[1; 100]);
    assert!((74..=76).contains(&one_by_one[0]), "{one_by_one:?}");
    assert_eq!(served(&[1000, 1], &[7; 143]), [1000, 1]);
}

#[test]
fn a_share_that_comes_back_is_ahead_by_no_more_than_a_claim() {
    let busy = share("busy", 1, Some(5_000 * COST));
    let back = share("back", 1, Some(3 * COST));
    let new = share("new", 1, None);

    let taken = portions(&[busy, back, new], 1, 250);

    let most = |key: &str| {
        taken
            .iter()
            .find(|it| it.fairness_key == key)
            .map(|it| it.most)
    };
    assert_eq!((most("back"), most("new")), (Some(117), Some(116)));
    assert_eq!(most("busy"), Some(17));
}

#[test]
fn what_a_better_priority_lacks_comes_from_the_others() {
    let first = Share {
        priority: 0,
        ..share("a", 1, None)
    };
    let other = share("b", 1, None);
    let later = Share {
        due: 2,
        ..share("c", 1, None)
    };

    let taken = portions(&[other, first, later], 1, 10);

    let seen: Vec<_> = taken
        .iter()
        .map(|it| (it.fairness_key.as_str(), it.most, it.beyond))
        .collect();
    assert_eq!(seen, [("a", 10, 0), ("b", 10, 0)]);
}

#[test]
fn what_one_share_lacks_the_other_makes_up_for_without_taking_a_task_twice() {
    let taken = portions(&[share("a", 1, None), share("b", 1, None)], 1, 10);

    let seen: Vec<_> = taken
        .iter()
        .map(|it| (it.fairness_key.as_str(), it.most, it.beyond))
        .collect();
    assert_eq!(seen, [("a", 5, 0), ("b", 5, 0), ("a", 10, 5), ("b", 10, 5)]);
}

fn claim() -> Claim {
    Claim {
        namespace: Namespace::default(),
        queue: Queue::default(),
        wanted: Vec::new(),
        only: None,
        fingerprints: None,
        builds: None,
        quotas: Vec::new(),
        owner: crate::model::OwnerId::new("o").expect("an owner"),
        ttl: std::time::Duration::from_secs(1),
    }
}

/// One look at `all`, which are in their order.
fn look(tours: &Tours, all: &[Share], now: i64) -> (Vec<Share>, usize) {
    let mut tour = tours.begin(&claim(), TaskKind::Workflow);
    let mut pages = 0;
    while let Some(after) = tour.after() {
        let rest = all.iter().filter(|share| share.fairness_key > after);
        tour.add(rest.take(COMPARED as usize).cloned().collect(), now);
        pages += 1;
    }
    (tours.end(tour), pages)
}

#[test]
fn few_shares_are_compared_in_each_claim() {
    let all: Vec<_> = (0..100)
        .map(|it| share(&format!("{it:03}"), 1, None))
        .collect();
    let tours = Tours::default();

    for _ in 0..3 {
        let (seen, pages) = look(&tours, &all, 1);
        assert_eq!((seen.len(), pages), (100, 1));
    }
}

proptest! {
    #[test]
    fn every_due_share_is_compared_within_a_round(
        count in 1_usize..700,
        due in 0_usize..700,
    ) {
        let due = due % count;
        let all: Vec<_> = (0..count)
            .map(|it| Share {
                due: i64::from(it != due) * 10,
                ..share(&format!("{it:04}"), 1, None)
            })
            .collect();
        let tours = Tours::default();
        // Wherever the tour is, the only one that is due is found at once.
        for _ in 0..10 {
            let (seen, _) = look(&tours, &all, 1);
            prop_assert_eq!(seen.len(), 1);
        }
        // With all of them due, a claim compares a page, and a round compares them all.
        let mut met = std::collections::BTreeSet::new();
        for _ in 0..=(2 * count / (COMPARED as usize / 2)) + 2 {
            let (seen, pages) = look(&tours, &all, 10);
            prop_assert!(pages <= 2, "{}", pages);
            met.extend(seen.into_iter().map(|share| share.fairness_key));
        }
        prop_assert_eq!(met.len(), count);
    }

    #[test]
    fn shares_are_in_proportion_over_any_claims(
        weights in prop::collection::vec(1_i16..=20, 1..6),
        limits in prop::collection::vec(1_u32..=100, 1..60),
    ) {
        let counts = served(&weights, &limits);
        let all: i64 = counts.iter().sum();
        let weight: i64 = weights.iter().map(|it| i64::from(*it)).sum();
        for (count, own) in counts.iter().zip(&weights) {
            let fair = all * i64::from(*own) / weight;
            prop_assert!((count - fair).abs() <= i64::from(*own) + i64::try_from(weights.len()).expect("a few"), "{counts:?} of {weights:?}");
        }
    }
}
