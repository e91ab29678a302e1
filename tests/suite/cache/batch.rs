//! Many entries at once.

use coord_core::{ErrorKind, Name};
use coord_tests::need;

use super::{Stage, name, near, options};

fn names(count: usize) -> Vec<Name> {
    (0..count).map(|n| name(&n.to_string())).collect()
}

fn values(count: usize) -> Vec<(Name, String)> {
    let names = names(count).into_iter();
    names
        .map(|name| (name.clone(), format!("value {name}")))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn many_are_set_and_got_in_their_order_in_one_call_each() {
    let stage = need!(Stage::new().await);
    for (kind, verb) in [(options(), "MGET"), (near(), "EVALSHA")] {
        let cache = stage.cache(kind).await;
        cache.set_many(&values(3)).await.unwrap();
        cache.get_many(&names(3)).await.unwrap();
        let monitor = stage.server.monitor().await.unwrap();

        cache.set_many(&values(100)).await.unwrap();
        let mut asked = names(100);
        asked.insert(50, name("missing"));
        let got = cache.get_many(&asked).await.unwrap();

        assert_eq!(got[50], None);
        for (name, value) in asked
            .iter()
            .zip(&got)
            .filter(|(name, _)| name.as_str() != "missing")
        {
            let value = value.as_ref().expect("it was set");
            assert_eq!(**value, format!("value {name}"));
        }
        let sent = monitor.lines_with(stage.key("99").as_str()).await.unwrap();
        let sent: Vec<_> = sent.iter().filter(|line| !line.contains(" lua]")).collect();
        assert_eq!(sent.len(), 2);
        assert!(
            sent[0].contains("EVALSHA") && sent[1].contains(verb),
            "{sent:?}"
        );
        for name in names(100) {
            assert!(stage.pttl(name.as_str()).await > 0);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn more_than_a_call_may_carry_go_in_several() {
    let stage = need!(Stage::new().await);
    let cache = stage.cache(options()).await;

    cache.set_many(&values(1000)).await.unwrap();

    let got = cache.get_many(&names(1000)).await.unwrap();
    assert!(got.iter().all(Option::is_some));
    assert!(cache.get_many(&[]).await.unwrap().is_empty());
    cache.set_many(&[]).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn one_value_that_is_too_large_keeps_all_from_being_set() {
    let stage = need!(Stage::new().await);
    let cache = stage.cache(options().max_bytes(50)).await;
    let mut values = values(3);
    values[1].1 = "long ".repeat(20);

    let error = cache.set_many(&values).await.unwrap_err();

    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(
        cache
            .get_many(&names(3))
            .await
            .unwrap()
            .iter()
            .all(Option::is_none)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prefix_is_deleted_in_steps_and_takes_nothing_else_along() {
    let stage = need!(Stage::new().await);
    let cache = stage.cache(options()).await;
    let teams = coord_cache::Cache::<String>::new(&stage.redis().await, &name("teams"), options());
    let many: Vec<_> = (0..3000)
        .map(|n| (name(&format!("eu:*{n}")), "x".to_owned()))
        .collect();
    cache.set_many(&many).await.unwrap();
    let kept = ["us:1", "eu", "eu:x"].map(name);
    for name in &kept {
        cache.set(name, &"kept".to_owned()).await.unwrap();
    }
    teams.set(&name("eu:*1"), &"kept".to_owned()).await.unwrap();
    let monitor = stage.server.monitor().await.unwrap();

    let removed = cache.delete_prefix("eu:*").await.unwrap();

    assert_eq!(removed, 3000);
    assert!(
        cache
            .get_many(&kept)
            .await
            .unwrap()
            .iter()
            .all(Option::is_some)
    );
    assert!(teams.get(&name("eu:*1")).await.unwrap().is_some());
    let calls = monitor.lines_with("\"UNLINK\"").await.unwrap().len();
    let steps = monitor.lines_with("\"SCAN\"").await.unwrap().len();
    assert!(
        calls <= steps && steps >= 3,
        "{calls} calls in {steps} steps"
    );
    assert!(monitor.lines_with("\"KEYS\"").await.unwrap().is_empty());
}
