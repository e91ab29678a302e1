use std::collections::BTreeSet;
use std::time::Duration;

use coord_core::{Env, ErrorKind, Source};

use super::hints::Mode;
use super::variables::{self, VARIABLES};
use super::{EngineConfig, LogLevel};

const MEMORY: [(&str, &str); 2] = [("DB_CONNECTION", "sqlite"), ("DB_DATABASE", ":memory:")];

fn read(pairs: &[(&str, &str)]) -> coord_core::Result<EngineConfig> {
    let pairs = MEMORY.iter().chain(pairs).copied();
    EngineConfig::from_env(&Env::from_pairs(pairs))
}

fn refused(pairs: &[(&str, &str)]) -> String {
    let error = read(pairs).expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::Invalid);
    error.message().to_owned()
}

fn drivers(pairs: &[(&str, &str)]) -> Vec<&'static str> {
    let config = read(pairs).expect("valid");
    config
        .drivers
        .iter()
        .map(|driver| driver.as_str())
        .collect()
}

#[test]
fn what_is_documented_is_what_holds() {
    let config = read(&[]).expect("valid");
    let documented = |variable: &coord_core::Variable| variable.default.to_owned();

    let recovery = config.recovery;
    for (variable, holds) in [
        (&variables::NAMESPACE, config.namespace.to_string()),
        (&variables::QUEUE, config.queue.to_string()),
        (&variables::TASK_LEASE, config.lease.as_secs().to_string()),
        (&variables::STICKY_CAPACITY, config.cached_runs.to_string()),
        (
            &variables::UPDATE_WAIT,
            config.update_wait.as_secs().to_string(),
        ),
        (
            &variables::REPAIR_EVERY,
            recovery.every.as_secs().to_string(),
        ),
        (&variables::TTL, format!("{:?}", recovery.ttl)),
        (&variables::HEARTBEAT, format!("{:?}", recovery.heartbeat)),
        (&variables::TERM, format!("{:?}", recovery.term)),
        (&variables::LOG_LEVEL, config.log_level.as_str().to_owned()),
    ] {
        assert_eq!(documented(variable), holds, "{}", variable.name);
    }
    assert_eq!(config.retention, Duration::from_hours(30 * 24));
    assert_eq!(config.archive, None);
    assert!(config.recovers);
    assert_eq!(config.local_lease, None);
}

#[test]
fn histories_go_where_and_when_the_environment_says() {
    let week = Duration::from_hours(7 * 24);
    let folder = ("COORD_ENGINE_ARCHIVE", "/var/archive");
    let after = ("COORD_ENGINE_ARCHIVE_AFTER", "36h");

    let archive = |pairs: &[_]| read(pairs).expect("valid").archive;
    assert_eq!(archive(&[folder]), Some(("/var/archive".into(), week)));
    let (_, set) = archive(&[folder, after]).expect("set");
    assert_eq!(set, Duration::from_hours(36));
    assert_eq!(archive(&[after]), None);
    let message = refused(&[("COORD_ENGINE_ARCHIVE_AFTER", "soon")]);
    assert!(message.contains("COORD_ENGINE_ARCHIVE_AFTER"), "{message}");
}

#[test]
fn the_part_of_a_process_in_its_fleet_is_as_it_says() {
    const LEASE: &str = "WORKFLOW_INLINE_OWNERSHIP_LEASE_SECONDS";
    let config = read(&[("WORKFLOW_SKIP_BOOT_RECOVERY", "1"), (LEASE, "7")]).expect("valid");

    assert!(!config.recovers);
    assert_eq!(config.local_lease, Some(Duration::from_secs(7)));
    assert!(refused(&[(LEASE, "0")]).contains(LEASE));
    let skip = "WORKFLOW_SKIP_BOOT_RECOVERY";
    assert!(refused(&[(skip, "perhaps")]).contains(skip));
}

#[test]
fn each_name_is_in_the_table_once_and_the_old_one_leads_to_the_new_one() {
    let mut names = BTreeSet::new();
    for variable in VARIABLES {
        assert!(names.insert(variable.name), "{} twice", variable.name);
        let rest = variable.name.strip_prefix("DW_V2_");
        let old = rest.map(|rest| format!("WORKFLOW_V2_{rest}"));
        assert_eq!(
            variable.fallback.map(str::to_owned),
            old,
            "{}",
            variable.name
        );
    }
}

#[test]
fn what_is_set_holds_under_the_new_name_and_the_old_one() {
    let config = read(&[
        ("WORKFLOW_V2_NAMESPACE", "shop"),
        ("DW_V2_QUEUE", "orders"),
        ("WORKFLOW_V2_QUEUE", "old"),
        ("APP_NAME", "node 1"),
        ("DW_V2_WORKFLOW_TASK_LEASE_SECONDS", "90"),
        ("DW_V2_LIMIT_PENDING_TIMERS", "7"),
        ("DW_V2_TASK_REPAIR_LOOP_THROTTLE_SECONDS", "2"),
        ("COORD_ENGINE_TTL", "20s"),
        ("COORD_ENGINE_RETENTION", "7days"),
        ("DW_V2_STICKY_EXECUTION_ENABLED", "false"),
        ("LOG_LEVEL", "warning"),
    ])
    .expect("valid");

    assert_eq!(config.namespace.as_str(), "shop");
    assert_eq!(config.queue.as_str(), "orders");
    assert_eq!(config.node.as_ref().expect("named").as_str(), "node 1");
    assert_eq!(config.lease, Duration::from_secs(90));
    assert_eq!(config.limits.pending_timers, 7);
    assert_eq!(config.recovery.every, Duration::from_secs(2));
    assert_eq!(config.recovery.ttl, Duration::from_secs(20));
    assert_eq!(config.retention, Duration::from_hours(7 * 24));
    assert_eq!(config.cached_runs, 0);
    assert_eq!(config.log_level, LogLevel::Warn);
}

#[test]
fn a_bad_value_is_refused_with_its_name_and_the_rule_that_it_breaks() {
    for (name, value, rule) in [
        ("DW_V2_NAMESPACE", "a\tb", "control character"),
        (
            "WORKFLOW_V2_WORKFLOW_TASK_LEASE_SECONDS",
            "0",
            "seconds from 1",
        ),
        (
            "DW_V2_UPDATE_WAIT_COMPLETION_TIMEOUT_SECONDS",
            "10s",
            "seconds from 1",
        ),
        ("DW_V2_LIMIT_PENDING_TIMERS", "many", "a whole number"),
        ("DW_V2_MULTI_NODE", "perhaps", "true or false"),
        (
            "DW_V2_CACHE_VALIDATION_MODE",
            "loud",
            "fail, warn or silent",
        ),
        ("COORD_ENGINE_RETENTION", "30", "a duration with its unit"),
        ("LOG_LEVEL", "chatty", "off, error"),
        (
            "CACHE_DRIVER",
            "redis,carrier-pigeon",
            "one or more of redis",
        ),
        ("CACHE_DRIVER", "notify", "not PostgreSQL"),
        ("CACHE_DRIVER", "pg-notify", "not PostgreSQL"),
    ] {
        let message = refused(&[(name, value)]);

        assert!(message.contains(name), "{message}");
        assert!(message.contains(&format!("{value:?}")), "{message}");
        assert!(message.contains(rule), "{message}");
    }
}

#[test]
fn times_that_would_take_the_living_for_dead_are_refused_with_all_of_them() {
    let message = refused(&[("COORD_ENGINE_TTL", "6s")]);

    assert!(message.contains("three heartbeats"), "{message}");
    assert!(message.contains("COORD_ENGINE_TTL 6s"), "{message}");
    assert!(message.contains("COORD_ENGINE_HEARTBEAT 5s"), "{message}");
}

#[test]
fn a_database_that_nobody_names_is_asked_for() {
    let missing = |pairs: &[(&str, &str)]| {
        let env = Env::from_pairs(pairs.iter().copied());
        EngineConfig::from_env(&env)
            .expect_err("refused")
            .to_string()
    };

    assert!(missing(&[("DB_HOST", "db")]).contains("set DATABASE_URL, or DB_CONNECTION"));
    assert!(missing(&[("DB_CONNECTION", "pgsql")]).contains("DB_DATABASE is not"));
    let message = missing(&[("DB_CONNECTION", "sqlsrv"), ("DB_DATABASE", "engine")]);
    assert!(message.contains("\"sqlsrv\", but must be pgsql, mysql, mariadb or sqlite"));
}

#[test]
fn a_secret_is_shown_nowhere() {
    let env = Env::from_pairs([
        ("DATABASE_URL", "postgres://app:s3cret@db/engine"),
        ("DB_CONNECTION", "mysql"),
        ("DB_PASSWORD", "s3cret"),
        ("REDIS_PASSWORD", "s3cret"),
        ("REDIS_URL", "redis://:s3cret@cache"),
        ("NATS_URL", "nats://app:s3cret@nats,nats://app:s3cret@other"),
        ("NATS_PASSWORD", "s3cret"),
        ("NATS_TOKEN", "s3cret"),
        ("DW_V2_HISTORY_EXPORT_SIGNING_KEY", "s3cret"),
    ]);

    let config = EngineConfig::from_env(&env).expect("valid");

    let effective = format!("{:?}", config.effective());
    assert!(effective.contains("postgres://app:(hidden)@db/engine"));
    assert!(!effective.contains("s3cret"), "{effective}");
}

#[test]
fn what_is_overruled_says_by_what() {
    let env = Env::from_pairs([
        ("DATABASE_URL", "sqlite::memory:"),
        ("DB_HOST", "db"),
        ("DW_V2_GUARDRAILS_BOOT", "throw"),
        ("DW_V2_STICKY_EXECUTION_ENABLED", "off"),
        ("DW_V2_STICKY_EXECUTION_DEFAULT_CACHE_CAPACITY", "5"),
    ]);
    let rows = EngineConfig::from_env(&env).expect("valid").effective();
    let reason = |name: &str| {
        let row = rows
            .iter()
            .find(|row| row.name == name)
            .expect("in the table");
        row.without_effect.as_deref()
    };

    assert_eq!(reason("DB_HOST"), Some("DATABASE_URL wins"));
    assert_eq!(reason("DB_PORT"), None, "nobody set it");
    assert!(reason("DW_V2_GUARDRAILS_BOOT").is_some());
    let capacity = reason("DW_V2_STICKY_EXECUTION_DEFAULT_CACHE_CAPACITY");
    assert_eq!(capacity, Some("no run is kept in memory"));
    assert_eq!(reason("DW_V2_QUEUE"), None);
}

#[test]
fn hints_go_as_they_are_told_or_as_suits_what_is_there() {
    assert_eq!(drivers(&[]), ["database"]);
    #[cfg(feature = "redis")]
    assert_eq!(drivers(&[("REDIS_HOST", "cache")]), ["redis"]);
    let two = drivers(&[("CACHE_DRIVER", "Database, redis,database")]);
    assert_eq!(two, ["database", "redis"]);
    let alone = drivers(&[("REDIS_HOST", "cache"), ("CACHE_DRIVER", "array")]);
    assert_eq!(alone, ["array"]);

    let config = read(&[]).expect("valid");
    let row = config.effective();
    let row = row
        .iter()
        .find(|row| row.name == "CACHE_DRIVER")
        .expect("in the table");
    assert_eq!(
        (row.value.as_str(), row.source),
        ("database", Source::Default)
    );
}

#[test]
fn each_driver_is_known_by_its_names() {
    for (word, driver) in [
        ("redis", "redis"),
        ("Memcached", "memcached"),
        ("nats", "nats"),
        ("database", "database"),
        ("file", "file"),
        ("array", "array"),
        ("null", "none"),
    ] {
        assert_eq!(drivers(&[("CACHE_DRIVER", word)]), [driver]);
    }
    let postgres = [
        ("DATABASE_URL", "postgres://db/engine"),
        ("CACHE_DRIVER", "pg-notify,nats"),
    ];
    assert_eq!(drivers(&postgres), ["notify", "nats"]);
}

#[test]
fn tasks_are_handed_over_where_redis_is_unless_it_is_said_otherwise() {
    const NAME: &str = "DW_V2_TASK_DISPATCH_MODE";
    let of = |pairs: &[(&'static str, &'static str)]| {
        let memory = [("DATABASE_URL", "sqlite::memory:")];
        let pairs = memory.iter().chain(pairs).copied();
        EngineConfig::from_env(&Env::from_pairs(pairs))
    };
    let row = |config: &EngineConfig| {
        let rows = config.effective().into_iter();
        let row = rows.into_iter().find(|row| row.name == NAME);
        row.expect("a row")
    };
    let there = of(&[("CACHE_DRIVER", "redis")]).expect("a driver");
    assert_eq!(there.mode, Mode::Queue);
    assert_eq!(row(&there).value, "queue");
    let polls = of(&[
        ("CACHE_DRIVER", "redis"),
        ("WORKFLOW_V2_TASK_DISPATCH_MODE", "poll"),
    ]);
    assert_eq!(polls.expect("a mode").mode, Mode::Poll);
    let without = of(&[("CACHE_DRIVER", "database"), (NAME, "queue")]).expect("a mode");
    let without = row(&without);
    assert_eq!(without.value, "poll");
    let why = without.without_effect.expect("a reason");
    assert!(why.contains("CACHE_DRIVER"), "{why}");
    let wrong = of(&[(NAME, "push")]).expect_err("no mode").to_string();
    assert!(
        wrong.contains(NAME) && wrong.contains("poll or queue"),
        "{wrong}"
    );
}

#[cfg(all(feature = "memcached", feature = "nats"))]
#[test]
fn a_place_of_hints_that_cannot_be_is_refused_where_it_is_used() {
    for (driver, name, value, rule) in [
        (
            "memcached",
            "MEMCACHED_PORT",
            "many",
            "the number of a port",
        ),
        ("memcached", "CACHE_PREFIX", "a b", "letters, digits"),
        ("nats", "NATS_URL", "http://nats", "nats://host:port"),
        (
            "nats",
            "NATS_URL",
            "nats://t0ken@nats",
            "NATS_TOKEN is for it",
        ),
        ("nats", "CACHE_PREFIX", "a.*", "letters, digits"),
        ("nats,redis", "CACHE_PREFIX", "a..b", "letters, digits"),
    ] {
        let message = refused(&[("CACHE_DRIVER", driver), (name, value)]);

        assert!(message.contains(name), "{message}");
        assert!(message.contains(rule), "{message}");
        assert!(!message.contains("t0ken"), "{message}");
        assert!(read(&[(name, value)]).is_ok(), "nobody reads it");
    }
    let two = [("NATS_USER", "app"), ("NATS_TOKEN", "t0ken")];
    let two: Vec<_> = [("CACHE_DRIVER", "nats")].into_iter().chain(two).collect();
    assert!(refused(&two).contains("NATS_TOKEN are both set"));
}

#[cfg(not(feature = "memcached"))]
#[test]
fn a_driver_that_was_not_built_in_is_named() {
    let config = read(&[("CACHE_DRIVER", "memcached")]).expect("valid");

    let refused = config.builder().err().expect("refused");

    assert_eq!(refused.kind(), ErrorKind::Invalid);
    assert!(
        refused.message().contains("feature `memcached`"),
        "{refused}"
    );
}

#[test]
fn several_nodes_without_hints_are_told_so_unless_they_do_not_want_to_know() {
    let failed = |more: &[(&str, &str)]| {
        let pairs = [("CACHE_DRIVER", "file"), ("DW_V2_MULTI_NODE", "true")];
        let pairs: Vec<_> = pairs.iter().chain(more).copied().collect();
        let config = read(&pairs).expect("it never keeps a node from its work");
        config.validation.failed(&config.drivers)
    };

    assert_eq!(failed(&[]).as_deref(), Some("file"));
    assert!(failed(&[("DW_V2_CACHE_VALIDATION_MODE", "fail")]).is_some());
    assert!(failed(&[("DW_V2_CACHE_VALIDATION_MODE", "silent")]).is_none());
    assert!(failed(&[("DW_V2_VALIDATE_CACHE_BACKEND", "false")]).is_none());
    assert!(failed(&[("DW_V2_MULTI_NODE", "false")]).is_none());
    assert!(failed(&[("CACHE_DRIVER", "array,database")]).is_none());
}
