//! The cache behind sentinels and on a cluster.

use coord_cache::Cache;
use coord_core::Name;
use coord_tests::need;
use coord_tests::need::unique;
use coord_tests::recorder::recorder;
use coord_tests::servers::{Cluster, Sentinel};
use coord_tests::wait::eventually;

use super::{Loads, SOON, connect, name, near, options, text, users};

#[tokio::test(flavor = "multi_thread")]
async fn after_a_failover_a_near_cache_is_true_again() {
    recorder();
    let group = need!(Sentinel::start().await);
    let url = group.url();
    let prefix = unique("cache");
    let reader: Cache<String> = Cache::new(&connect(&url, &prefix).await, &users(), near());
    let writer: Cache<String> = Cache::new(&connect(&url, &prefix).await, &users(), options());
    writer.set(&name("1"), &"old".to_owned()).await.unwrap();
    eventually(SOON, "it is read", || async {
        reader
            .get(&name("1"))
            .await
            .is_ok_and(|value| value.is_some())
    })
    .await;

    group.kill_master().await;
    group.wait_for_failover().await;
    eventually(SOON, "the new master takes it", || async {
        writer.set(&name("1"), &"new".to_owned()).await.is_ok()
    })
    .await;

    eventually(SOON, "the change is seen", || async {
        let read = reader.get(&name("1")).await;
        read.is_ok_and(|value| value.is_some_and(|value| *value == "new"))
    })
    .await;
    let loads = Loads::default();
    assert_eq!(
        text(reader.get_or_fetch(&name("2"), loads.at_once("Ada")).await),
        "Ada"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn on_a_cluster_every_node_serves_and_tells_also_after_a_slot_has_moved() {
    recorder();
    let cluster = need!(Cluster::start(3).await);
    let hosts: Vec<_> = cluster
        .nodes()
        .iter()
        .map(|node| node.addr().to_string())
        .collect();
    let url = format!("redis+cluster://{}", hosts.join(","));
    let prefix = unique("cache");
    let reader: Cache<String> = Cache::new(&connect(&url, &prefix).await, &users(), near());
    let writer: Cache<String> = Cache::new(&connect(&url, &prefix).await, &users(), options());
    let names: Vec<Name> = (0..30).map(|n| name(&n.to_string())).collect();
    let values: Vec<_> = names
        .iter()
        .map(|name| (name.clone(), "old".to_owned()))
        .collect();

    writer.set_many(&values).await.unwrap();
    reads(&reader, &names, Some("old")).await;
    reads(&reader, &names, Some("old")).await;
    for (name, _) in &values {
        writer.set(name, &"new".to_owned()).await.unwrap();
    }
    reads(&reader, &names, Some("new")).await;
    let loads = Loads::default();
    let entry = name("loaded");
    assert_eq!(
        text(writer.get_or_fetch(&entry, loads.at_once("Ada")).await),
        "Ada"
    );
    assert_eq!(
        text(reader.get_or_fetch(&entry, loads.at_once("x")).await),
        "Ada"
    );
    assert_eq!(loads.begun(), 1);

    let keys = coord_core::KeySpace::new(&prefix).unwrap();
    let slot = cluster
        .slot_of(keys.key("cache", &[&users(), &names[0]]).as_str())
        .await
        .unwrap();
    let owner = cluster.node_of_slot(slot).await.unwrap();
    cluster.migrate_slot(slot, (owner + 1) % 3).await.unwrap();
    reads(&reader, &names, Some("new")).await;
    writer.set(&names[0], &"newer".to_owned()).await.unwrap();
    reads(&reader, &names[..1], Some("newer")).await;
    reads(&reader, &names[1..], Some("new")).await;

    assert_eq!(writer.delete_prefix("").await.unwrap(), 31);
    reads(&reader, &names, None).await;
}

/// Waits until all names have this value.
async fn reads(cache: &Cache<String>, names: &[Name], value: Option<&str>) {
    eventually(SOON, "all are seen", || async {
        let read = cache.get_many(names).await;
        let is_right = |read: &Option<std::sync::Arc<String>>| {
            read.as_ref().map(|read| read.as_str()) == value
        };
        read.is_ok_and(|read| read.iter().all(is_right))
    })
    .await;
}
