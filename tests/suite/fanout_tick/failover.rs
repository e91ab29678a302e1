//! Ticks behind sentinels whose master dies.

use coord_fanout::FirstRun;
use coord_tests::need;
use coord_tests::recorder::recorder;
use coord_tests::servers::Sentinel;

use super::*;

/// A job that runs at once and then not for a long time.
fn once(job: &str) -> Vec<Job> {
    let job = Job::message(name(job), rarely(), |_, _| Vec::new());
    vec![job.first_run(FirstRun::AtOnce)]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tick_whose_end_a_failover_lost_is_repeated_once_and_under_its_id() {
    let group = need!(Sentinel::start().await);
    let (book, prefix, job) = (Book::default(), prefix(), unique("repeated"));
    let finished = async |times| {
        let job = [("job_type", job.as_str())];
        recorder()
            .events("fanout.tick.finished", &job, times, SOON)
            .await;
    };
    let redis = connect(&group.url(), &prefix).await;
    group.detach_replicas().await;
    let mut nodes = Nodes::new();
    nodes.start(&redis, &book, once(&job), orgs(1));
    finished(1).await;
    // Nobody is left who could remember it.
    nodes.stop().await;

    group.fail_over().await;
    let mut nodes = Nodes::new();
    let other = connect(&group.url(), &prefix).await;
    nodes.start(&redis, &book, once(&job), orgs(1));
    nodes.start(&other, &book, once(&job), orgs(1));
    finished(2).await;
    nodes.stop().await;

    let ids = book.ids();
    assert_eq!(ids.len(), 2, "{ids:?}");
    assert_eq!(ids[0], ids[1]);
}
