//! What each crate says when the server refuses: in one line what it wanted, of which server, why it
//! was not to be had, and what to do about it.

use std::time::Duration;

use coord_broadcast::{Broadcast, Topic};
use coord_cache::{Cache, CacheOptions};
use coord_core::{Error, ErrorKind, Name, Ttl};
use coord_fanout::{Message, Queue, QueueOptions, StreamQueue};
use coord_lease::{Leases, Owner};
use coord_lock::{LockOptions, Locks};
use coord_ratelimit::{Limit, Limiter, Quota, Subject, WithoutRedis};
use coord_redis::{Config, Redis};
use coord_tests::need;
use coord_tests::need::{Missing, unique};
use coord_tests::recorder::recorder;
use coord_tests::servers::{RedisBuilder, RedisServer};
use coord_tests::stage;

/// What nothing here takes.
const SOON: Duration = Duration::from_secs(10);

fn name(text: &str) -> Name {
    Name::new(text).expect("a valid name")
}

/// One client, and each crate on it.
struct Services {
    locks: Locks,
    leases: Leases,
    queue: StreamQueue,
    cache: Cache<String>,
    broadcast: Broadcast,
    limiter: Limiter,
}

impl Services {
    async fn connect(url: &str, deadline: Duration) -> Self {
        recorder();
        let config = stage::config(url, &unique("refusals")).deadline(deadline);
        let redis = stage::connect(config).await;
        let quota = Quota::new(10, Duration::from_hours(1)).expect("in range");
        let limit = Limit::gcra(name("limit"), quota, 10).expect("in range");
        Self {
            locks: Locks::new(&redis),
            leases: Leases::new(&redis),
            queue: StreamQueue::new(&redis, name("queue"), QueueOptions::default()),
            cache: Cache::new(&redis, &name("cache"), CacheOptions::default()),
            broadcast: Broadcast::new(&redis),
            limiter: Limiter::new(&redis, [limit], WithoutRedis::Deny).expect("a limiter"),
        }
    }

    /// A write of each, none of which comes about.
    async fn refusals(&self) -> [(&'static str, Error); 5] {
        let ttl = Ttl::new(Duration::from_secs(30)).expect("in range");
        let owner = Owner::new(name("owner"));
        let topic = Topic::<u64>::new(name("topic"));
        let message = Message::new(name("1"), "1");
        let (name_of_lock, options) = (name("lock"), LockOptions::default());
        let lock = self.locks.try_acquire(&name_of_lock, &options).await;
        [
            ("lock", lock.expect_err("refused")),
            (
                "lease",
                self.leases
                    .claim(&name("lease"), &owner, ttl)
                    .await
                    .expect_err("refused"),
            ),
            (
                "queue",
                self.queue.enqueue(&[message]).await.expect_err("refused"),
            ),
            (
                "cache",
                self.cache
                    .set(&name("1"), &"Ada".to_owned())
                    .await
                    .expect_err("refused"),
            ),
            (
                "broadcast",
                self.broadcast
                    .publish(&topic, &1)
                    .await
                    .expect_err("refused"),
            ),
        ]
    }
}

/// Each of the five says this much, in one line, with the kind; `place` is where the server is.
fn say(refusals: [(&'static str, Error); 5], kind: ErrorKind, place: &str, words: &str) {
    for (service, error) in refusals {
        let line = format!("{error:#}");
        assert_eq!(error.kind(), kind, "{service}: {line}");
        for part in [place, words] {
            assert!(line.contains(part), "{service} says {part}: {line}");
        }
        assert!(!line.contains('\n'), "{service}: {line}");
    }
}

async fn served(builder: RedisBuilder) -> Result<(RedisServer, Services, String), Missing> {
    let server = builder.start().await?;
    let services = Services::connect(&server.url(), SOON).await;
    let place = server.addr().to_string();
    Ok((server, services, place))
}

fn subject() -> Subject {
    Subject::new(&name("subject"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_memory_is_named_with_its_remedy_by_each_crate() {
    let memory = RedisServer::builder().max_memory(100 << 20, "noeviction");
    let (server, services, place) = need!(served(memory).await);
    let full = ["CONFIG", "SET", "maxmemory", "1"];
    server.command(&full).await.expect("permitted");

    let refusals = services.refusals().await;

    say(refusals, ErrorKind::Unavailable, &place, "raise maxmemory");
    let decision = services.limiter.try_acquire(&subject(), 1).await;
    assert!(decision.expect("by policy").is_degraded());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_cannot_save_is_named_with_its_remedy_by_each_crate() {
    let (server, services, place) = need!(served(RedisServer::builder()).await);
    need!(server.lose_disk().await);

    let refusals = services.refusals().await;

    say(refusals, ErrorKind::Unavailable, &place, "look at its disk");
    let decision = services.limiter.try_acquire(&subject(), 1).await;
    assert!(decision.expect("by policy").is_degraded());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_right_that_the_user_lacks_is_named_by_each_crate() {
    let rules = [
        "on",
        ">secret",
        "~*",
        "&*",
        "+@all",
        "-@scripting",
        "-@write",
    ];
    let server = need!(RedisServer::builder().user("app", &rules).start().await);
    let services = Services::connect(&server.url_as("app", "secret"), SOON).await;

    let refusals = services.refusals().await;

    let place = server.addr().to_string();
    say(refusals, ErrorKind::Invalid, &place, "ACL user");
    let error = services.limiter.try_acquire(&subject(), 1).await;
    let line = format!(
        "{:#}",
        error.expect_err("no policy for what is set up wrongly")
    );
    assert!(line.contains(&place) && line.contains("ACL user"), "{line}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_the_user_lacks_inside_a_script_is_named_by_each_crate() {
    let rules = ["on", ">secret", "~*", "&*", "+@all", "-set"];
    let server = need!(RedisServer::builder().user("app", &rules).start().await);
    let services = Services::connect(&server.url_as("app", "secret"), SOON).await;

    let refusals = services.refusals().await;

    let place = server.addr().to_string();
    say(refusals, ErrorKind::Invalid, &place, "ACL user");
    let error = services.limiter.try_acquire(&subject(), 1).await;
    let error = error.expect_err("no policy for what is set up wrongly");
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_who_may_not_ask_for_the_time_is_told_so_by_each_crate_that_grants() {
    let rules = ["on", ">secret", "~*", "&*", "+@all", "-time"];
    let server = need!(RedisServer::builder().user("app", &rules).start().await);
    let services = Services::connect(&server.url_as("app", "secret"), SOON).await;
    let (lease, owner) = (name("lease"), Owner::new(name("owner")));
    let (lock, options) = (name("lock"), LockOptions::default());

    let lock = services.locks.acquire(&lock, SOON, &options).await;
    let lease = services.leases.claim(&lease, &owner, Ttl::DEFAULT).await;
    let permit = services.limiter.try_acquire(&subject(), 1).await;

    let refusals = [lock.err(), lease.err(), permit.err()];
    for error in refusals.map(|error| error.expect("refused")) {
        let line = format!("{error:#}");
        assert_eq!(error.kind(), ErrorKind::Invalid, "{line}");
        assert!(line.contains("ACL user"), "{line}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_gone_is_named_with_the_reason_by_each_crate() {
    let server = need!(RedisServer::builder().start().await);
    let services = Services::connect(&server.url(), Duration::from_millis(300)).await;
    server.kill().await;
    // The first calls may still find the old connections.
    coord_tests::wait::eventually(SOON, "its end is known", || async {
        let gone = services.limiter.peek(&subject()).await;
        gone.is_err_and(|error| error.kind() == ErrorKind::Unavailable)
    })
    .await;

    let refusals = services.refusals().await;

    let place = server.addr().to_string();
    say(refusals, ErrorKind::Unavailable, &place, "refused");
}

/// Why a client cannot be had, in one line.
async fn unconnected(url: &str) -> (ErrorKind, String) {
    let config = Config::from_url(url).expect("a valid URL");
    let error = Redis::connect(config.deadline(Duration::from_secs(3))).await;
    let error = error.expect_err("nobody lets it in");
    (error.kind(), format!("{error:#}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_not_let_in_is_told_where_and_what_to_mend() {
    let server = need!(RedisServer::builder().password("right").start().await);
    let place = server.addr().to_string();

    for (url, words) in [
        (format!("redis://{place}"), "wants a user or password"),
        (
            format!("redis://:wrong@{place}"),
            "refuses the user or password",
        ),
        (
            format!("redis://nobody:right@{place}"),
            "refuses the user or password",
        ),
    ] {
        let (kind, line) = unconnected(&url).await;

        assert_eq!(kind, ErrorKind::Invalid, "{line}");
        assert!(line.contains(&place) && line.contains(words), "{line}");
        assert!(!line.contains("right") && !line.contains("wrong"), "{line}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_mistakes_a_port_for_one_with_tls_or_without_is_told_so() {
    let server = need!(RedisServer::builder().tls().start().await);
    let secure = server.tls_url();
    let secure = secure.strip_prefix("rediss://").expect("with TLS");

    let (_, line) = unconnected(&format!("redis://{secure}")).await;
    assert!(line.contains("TLS wants a rediss:// URL"), "{line}");
    let (_, line) = unconnected(&format!("rediss://{secure}")).await;
    assert!(line.contains("give its authority as CA file"), "{line}");
    let (_, line) = unconnected(&format!("rediss://{}", server.addr())).await;
    assert!(line.contains("over TLS"), "{line}");
}
