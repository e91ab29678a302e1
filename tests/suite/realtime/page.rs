//! What the page on news says.

use std::time::Duration;

use coord_tests::need;
use coord_tests::socket;
use serde_json::{Value, json};

use super::{ADMIN, SOON, Stage};

const PAGE: &str = include_str!("../../../docs/realtime.md");
/// What the client of the page leaves to whoever copies it.
const AROUND: &str = r#"
const [token, run] = process.argv.slice(2);
const show = (what) => console.log(`shown ${JSON.stringify(what)}`);
const look = async (run) => ({ event: "looked", run_id: run });
"#;

#[tokio::test]
async fn the_client_of_the_page_looks_and_then_hears_what_happens() {
    let stage = need!(Stage::new().await);
    let node = stage.node(Duration::ZERO).await;
    let run = stage.start(&node, "records.wait", "a", json!([])).await;
    let (_, rest) = PAGE.split_once("```js\n").expect("a client");
    let (client, _) = rest.split_once("```").expect("its end");
    assert!(client.contains("https://coord.example"));
    let client = client.replace("https://coord.example", &node.url);

    let script = socket::script("page.mjs", format!("{AROUND}{client}"), &[ADMIN, &run]).await;
    let mut client = need!(script);

    let mut shown = async || {
        let line = client.line_starting("shown ", SOON).await;
        let shown: Value = serde_json::from_str(&line["shown ".len()..]).expect("JSON");
        assert_eq!(shown["run_id"], json!(run));
        shown["event"].as_str().expect("a word").to_owned()
    };
    assert_eq!(shown().await, "looked");
    stage.go(&node, "a").await;
    let mut heard = vec![shown().await];
    while heard.last().is_some_and(|last| last != "closed") {
        heard.push(shown().await);
    }
    // It may have been about to wait when it was looked at.
    heard.retain(|event| event != "waiting");
    assert_eq!(heard, ["signalled", "closed"]);
}
