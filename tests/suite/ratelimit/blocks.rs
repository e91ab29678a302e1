//! Permits drawn in blocks.

use std::time::Duration;

use coord_core::ErrorKind;
use coord_ratelimit::{Blocks, By};
use coord_tests::need;
use tokio::task::JoinSet;

use super::{Alone, DAY, SOON, Stage, each_algorithm, gcra, subject};

/// Takes permits one by one until one is denied; says how many there were.
async fn all_of(blocks: &Blocks, name: &str) -> u32 {
    let mut taken = 0;
    while blocks
        .try_acquire(&subject(name), 1)
        .await
        .unwrap()
        .is_allowed()
    {
        taken += 1;
    }
    taken
}

#[tokio::test(flavor = "multi_thread")]
async fn a_block_is_one_round_trip() {
    let stage = need!(Alone::new().await);
    let blocks = stage.limiter([gcra(100, DAY)]).await.in_blocks(10).unwrap();
    let subject = subject("trips");
    let first = blocks.try_acquire(&subject, 1).await.unwrap();
    let monitor = stage.server.monitor().await.unwrap();

    for _ in 0..19 {
        assert!(blocks.try_acquire(&subject, 1).await.unwrap().is_allowed());
    }
    let last = blocks.try_acquire(&subject, 5).await.unwrap();

    assert_eq!(first.by(), Some(By::Redis));
    assert_eq!(monitor.lines_with("EVALSHA").await.unwrap().len(), 2);
    assert!(last.is_allowed());
}

#[tokio::test(flavor = "multi_thread")]
async fn several_processes_hand_out_all_permits_and_not_one_more() {
    let stage = need!(Stage::new().await);
    for limit in each_algorithm(95, DAY) {
        let mut taking = JoinSet::new();
        for _ in 0..3 {
            let blocks = stage.limiter([limit.clone()]).await.in_blocks(10).unwrap();
            for _ in 0..4 {
                let blocks = blocks.clone();
                taking.spawn(async move { all_of(&blocks, "all").await });
            }
        }

        assert_eq!(taking.join_all().await.iter().sum::<u32>(), 95);
    }
}

/// The bound: what is in stock when the window ends may pass in the next one, as long as it is
/// not older than the period.
#[tokio::test(flavor = "multi_thread")]
async fn a_later_span_sees_at_most_a_block_less_one_more_than_its_limit() {
    let stage = need!(Stage::new().await);
    let limiter = stage.limiter([gcra(50, DAY)]).await;
    let blocks = limiter.in_blocks(10).unwrap();
    assert!(
        blocks
            .try_acquire(&subject("span"), 1)
            .await
            .unwrap()
            .is_allowed()
    );

    // As if a day had passed.
    limiter.reset(&subject("span")).await.unwrap();
    let taken = all_of(&blocks, "span").await;

    assert_eq!(taken, 50 + 9);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stock_older_than_the_period_is_thrown_away() {
    let stage = need!(Stage::new().await);
    let period = Duration::from_millis(100);
    let blocks = stage
        .limiter([gcra(50, period)])
        .await
        .in_blocks(10)
        .unwrap();
    let subject = subject("old");
    assert!(blocks.try_acquire(&subject, 1).await.unwrap().is_allowed());

    tokio::time::sleep(period).await;
    let decision = blocks.try_acquire(&subject, 1).await.unwrap();

    assert_eq!(decision.by(), Some(By::Redis));
}

#[tokio::test(flavor = "multi_thread")]
async fn callers_of_one_subject_draw_one_block_together() {
    let stage = need!(Alone::new().await);
    let blocks = stage.limiter([gcra(100, DAY)]).await.in_blocks(50).unwrap();
    assert!(
        blocks
            .try_acquire(&subject("warm"), 1)
            .await
            .unwrap()
            .is_allowed()
    );
    let monitor = stage.server.monitor().await.unwrap();
    let mut taking = JoinSet::new();
    for _ in 0..50 {
        let blocks = blocks.clone();
        taking.spawn(async move { blocks.try_acquire(&subject("crowd"), 1).await.unwrap() });
    }

    let decisions = tokio::time::timeout(SOON, taking.join_all()).await.unwrap();

    assert!(decisions.iter().all(coord_ratelimit::Decision::is_allowed));
    assert_eq!(monitor.lines_with("EVALSHA").await.unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_block_that_never_fits_is_invalid() {
    let stage = need!(Stage::new().await);
    let limiter = stage.limiter([gcra(10, DAY)]).await;

    for block in [0, 1, 11] {
        let error = limiter.in_blocks(block).err().expect("refused");
        assert_eq!(error.kind(), ErrorKind::Invalid);
    }
    assert!(limiter.in_blocks(10).is_ok());
}
