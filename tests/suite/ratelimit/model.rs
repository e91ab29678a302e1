//! The scripts decide as the arithmetic in Rust does, at every instant that a real server gives.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use coord_ratelimit::{Level, Limit, Rule, wire};
use coord_tests::need;
use coord_tests::resp::{Connection, Resp};

use super::{Alone, gcra, name, quota};

/// A number from a seed that a failure prints.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        // Knuth's MMIX generator; its high bits are good enough for a schedule.
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// Runs the script of `rule` as the limiter does.
async fn run(
    connection: &mut Connection,
    rule: &Rule,
    key: &str,
    permits: i64,
) -> (bool, u64, Level) {
    let arguments = wire::arguments(rule, permits);
    let arguments: Vec<_> = arguments.map(|argument| argument.to_string()).collect();
    let mut words = vec!["EVAL", wire::source(rule), "1", key];
    words.extend(arguments.iter().map(String::as_str));
    let reply = connection.command(&words).await.expect("the script runs");
    let numbers: Vec<_> = reply.items().iter().map(Resp::int).collect();
    let number = |index: usize| u64::try_from(numbers[index].expect("a number")).expect("positive");
    let level = wire::level(rule, [number(2), number(3), number(4)]);
    (number(0) == 1, number(1), level)
}

#[tokio::test(flavor = "multi_thread")]
async fn on_random_schedules_the_scripts_and_the_model_agree_to_the_microsecond() {
    let stage = need!(Alone::new().await);
    let mut connection = stage.server.connect().await.expect("up");
    let seed = RandomState::new().hash_one("schedule");
    let mut random = Random(seed);
    let millis = Duration::from_millis;
    let limits = [
        gcra(5, millis(10)),
        // Sevenths and thirds of a microsecond.
        gcra(7, millis(10)),
        Limit::gcra(name("limit"), quota(3_000_000, Duration::from_secs(1)), 900).unwrap(),
        Limit::gcra(name("limit"), quota(999_983, Duration::from_secs(1)), 1).unwrap(),
        Limit::sliding_window(name("limit"), quota(5, millis(10))),
        Limit::sliding_window(name("limit"), quota(1_000_000_000, millis(3))),
        Limit::fixed_window(name("limit"), quota(5, millis(10))),
    ];
    let (mut taken, mut denied) = (0, 0);
    for (number, limit) in limits.iter().enumerate() {
        let (rule, key) = (limit.rule(), format!("model-{number}"));
        let mut state = None;
        for step in 0..600 {
            if random.below(20) == 0 {
                tokio::time::sleep(Duration::from_micros(random.below(15_000))).await;
            }
            let most = u64::from(limit.capacity());
            let permits = 1 + i64::try_from(random.below(most)).unwrap();
            let permits = if random.below(10) == 0 {
                -permits
            } else {
                permits
            };

            let (fits, now_us, level) = run(&mut connection, rule, &key, permits).await;
            let model = rule.take(state, now_us, permits);

            let what = format!("seed {seed}, limit {number}, step {step}: {permits} at {now_us}");
            assert_eq!(level, model.before, "{what}");
            assert_eq!(fits, model.fits, "{what}");
            state = model.state;
            if fits { taken += 1 } else { denied += 1 }
        }
    }
    assert!(
        taken > 500 && denied > 500,
        "{taken} taken, {denied} denied"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn products_beyond_the_exactness_of_luas_numbers_are_compared_exactly() {
    let stage = need!(Alone::new().await);
    let mut connection = stage.server.connect().await.expect("up");
    let mut random = Random(RandomState::new().hash_one("products"));
    let window_us = 366 * 86_400_000_000_u64;
    let period = Duration::from_micros(window_us);
    let limit = Limit::sliding_window(name("limit"), quota(1_000_000_000, period));
    let rule = limit.rule();

    for step in 0..300 {
        // The window before was full but for a little, and the current one is just so far that the
        // next permits are decided by the last digits.
        let time = connection.command(&["TIME"]).await.expect("up");
        let part = |index: usize| time.items()[index].text().parse::<u64>().expect("a number");
        let now_us = part(0) * 1_000_000 + part(1);
        let (previous, elapsed) = (1_000_000_000 - random.below(1000), random.below(window_us));
        let weighted =
            u128::from(previous) * u128::from(window_us - elapsed) / u128::from(window_us);
        let current = 1_000_000_000 - u64::try_from(weighted).unwrap() - 2;
        let stored = format!("{}:{previous}:{current}", now_us - elapsed);
        connection
            .command(&["SET", "wide", &stored, "PX", "60000"])
            .await
            .expect("up");

        for permits in [1, 2, 3] {
            let (fits, now_us, level) = run(&mut connection, rule, "wide", permits).await;
            let Level::Sliding(counts) = level else {
                panic!("another algorithm")
            };
            let room = i128::from(1_000_000_000 - counts.current) - i128::from(permits);
            let weight = i128::from(counts.previous) * i128::from(window_us - counts.elapsed_us);
            assert_eq!(
                fits,
                weight <= room * i128::from(window_us),
                "{step}: {stored} at {now_us}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_state_from_a_clock_that_was_ahead_denies_for_one_window_at_most() {
    let stage = need!(Alone::new().await);
    let mut connection = stage.server.connect().await.expect("up");
    let second = Duration::from_secs(1);
    let limits = [
        (gcra(10, second), "4000000000000000", 1_100_000),
        (gcra(7, second), "4000000000000000:3:7", 1_200_000),
        (
            Limit::sliding_window(name("limit"), quota(10, second)),
            "4000000000000000:10:10",
            2_000_000,
        ),
        (
            Limit::fixed_window(name("limit"), quota(10, second)),
            "4000000000000000:10",
            1_000_000,
        ),
    ];
    for (number, (limit, stored, bound_us)) in limits.into_iter().enumerate() {
        let key = format!("ahead-{number}");
        connection
            .command(&["SET", &key, stored, "PX", "3600000"])
            .await
            .expect("up");

        let (fits, _, level) = run(&mut connection, limit.rule(), &key, 1).await;

        assert!(!fits);
        let wait = limit.rule().retry_after(level, 1);
        assert!(wait <= Duration::from_micros(bound_us), "{wait:?}");
        // It was mended, so the time runs from here.
        let life = connection
            .command(&["PTTL", &key])
            .await
            .expect("up")
            .int()
            .unwrap();
        assert!(0 < life && life <= 2_001, "{life}");
        tokio::time::sleep(wait).await;
        let (fits, _, _) = run(&mut connection, limit.rule(), &key, 1).await;
        assert!(fits, "{limit:?}");
    }
}
