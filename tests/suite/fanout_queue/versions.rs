//! Messages that another version of this crate has put into the queue.

use std::time::Duration;

use coord_fanout::Queue;
use coord_tests::need;
use coord_tests::servers::Deployment;

use super::{connect, drain, open, visibility};

const LONG: Duration = Duration::from_mins(1);

#[tokio::test]
async fn messages_of_an_earlier_version_are_handed_out_wherever_they_wait() {
    let server = need!(Deployment::shared().await);
    let redis = connect(&server.url()).await;
    let queue = open(&redis, visibility(LONG));
    let stream = redis.keys().key("queue", &[queue.name()]);
    // As it wrote them: without a trace.
    let ready = ["i", "a", "g", "", "n", "0", "b", "a"];
    let add = ["XADD", stream.as_str(), "*"].into_iter().chain(ready);
    server
        .command(&add.collect::<Vec<_>>())
        .await
        .expect("added");
    let delayed = stream.part("delayed");
    let pack = "return redis.call('ZADD', KEYS[1], 1, cmsgpack.pack('b', '', 1, 'b', '1-1'))";
    let add = ["EVAL", pack, "1", delayed.as_str()];
    server.command(&add).await.expect("added");

    let mut handed_out = drain(&queue, 2).await;

    handed_out.sort();
    assert_eq!(handed_out, ["a", "b"]);
}
