//! Many at once, in the same rows.

use coord_engine::model::TaskKind;
use coord_engine::store::{Renewal, RenewalItem, Start, Store, Sweep, Turn, Write};

use crate::stage::{LONG, Stage, held, owner, queue};
use crate::writes::join_all;

/// Turns, activities, signals, renewals and sweeps of many runs, whose writers meet in the same
/// rows in every order.
pub(crate) async fn many_writers_and_claimers_see_no_deadlock(stage: Stage) {
    const RUNS: usize = 12;
    let mut runs = Vec::new();
    for number in 0..RUNS {
        let start = Start {
            queue: queue("q"),
            ..stage.new_run(&format!("w{number}"))
        };
        runs.push(start.run.clone());
        stage.apply(start).await;
    }
    let (stage, runs) = (&stage, &runs);
    let write = async |store: &dyn Store, seed: usize| {
        for round in 0..12 {
            // Batches of the same runs in other orders.
            let signals: Vec<_> = (0..6)
                .map(|place| &runs[(seed * 5 + round + place * (seed + 1)) % RUNS])
                .map(|run| Write::Deliver(Box::new(crate::stage::signal(run))))
                .collect();
            store.apply(&signals).await.expect("delivered");
        }
    };
    let work = async |store: &dyn Store| {
        for _ in 0..12 {
            let claim = stage.claim_of(TaskKind::Workflow, "q", 5);
            let tasks = store.claim(&claim).await.expect("claimed").tasks;
            let items = tasks.iter().map(held).map(|held| RenewalItem {
                task: held.task,
                epoch: held.epoch,
                beat: None,
            });
            let renewal = Renewal {
                owner: owner("a"),
                ttl: LONG,
                items: items.collect(),
            };
            store.renew(&renewal).await.expect("renewed");
            let turns: Vec<_> = tasks
                .iter()
                .rev()
                .map(|task| {
                    Write::Turn(Box::new(Turn {
                        deliveries: vec![
                            crate::stage::signal(&runs[0]),
                            crate::stage::signal(&runs[RUNS - 1]),
                        ],
                        ..crate::stage::turn(task)
                    }))
                })
                .collect();
            store.apply(&turns).await.expect("turned");
            let sweep = Sweep {
                limit: 100,
                poison_after: 100,
            };
            store.sweep(&sweep).await.expect("swept");
        }
    };

    tokio::join!(
        join_all((0..3).map(|seed| write(&*stage.store, seed)).collect()),
        join_all((3..5).map(|seed| write(&*stage.other, seed)).collect()),
        join_all((0..2).map(|_| work(&*stage.store)).collect()),
        join_all((0..2).map(|_| work(&*stage.other)).collect()),
    );

    for run in runs {
        let loaded = stage.load(run).await;
        assert_eq!(
            loaded.inbox.len() as u64,
            loaded.run.inbox_seq,
            "dense and whole"
        );
        assert!(stage.describe(run).await.tasks.len() <= 1);
    }
}
