//! What of it is wrong: pure.

use std::time::Duration;

use super::{Finding, Offset};
use crate::health::{Category, Status};
use crate::store::{Examination, Long, Pooler};
use crate::wake::Health;

/// From when on two clocks differ by more than people who read logs side by side expect.
const APART: Duration = Duration::from_secs(1);
/// From when on certificates and tokens of other systems begin to fail as well.
const FAR_APART: Duration = Duration::from_secs(30);

fn finding(name: &'static str, status: Status, found: impl Into<String>) -> Finding {
    Finding {
        name,
        category: Category::Correctness,
        status,
        found: found.into(),
        remedy: "",
    }
}

fn advised(name: &'static str, status: Status, found: String, remedy: &'static str) -> Finding {
    Finding {
        remedy,
        ..finding(name, status, found)
    }
}

pub(super) fn unanswered(why: &str) -> Finding {
    advised(
        "database",
        Status::Error,
        format!("the database does not answer: {why}"),
        "see that it runs, that this process reaches it as DATABASE_URL or DB_* say, and that its user may read the engine's tables",
    )
}

pub(super) fn examined(it: &Examination) -> Vec<Finding> {
    vec![
        server(it),
        migrations(it),
        isolation(it),
        durability(it),
        indexes(it),
        claim(it),
        pooler(it),
        transactions(it),
    ]
}

fn server(it: &Examination) -> Finding {
    match &it.too_old {
        None => finding("server_version", Status::Ok, it.server.clone()),
        Some(rule) => advised(
            "server_version",
            Status::Error,
            format!("{}: {rule}", it.server),
            "move to a newer server: what the engine asks of it is not there",
        ),
    }
}

fn migrations(it: &Examination) -> Finding {
    let (there, ours) = it.schema;
    let found = format!("the schema is at version {there}, this program brings {ours}");
    if there < ours {
        let remedy = "run `coord migrate`, or start an engine of this version";
        return advised("migrations", Status::Error, found, remedy);
    }
    if there > ours {
        let found = format!("{found}: a newer program has been here, and leaves this one working");
        return finding("migrations", Status::Info, found);
    }
    finding("migrations", Status::Ok, found)
}

fn isolation(it: &Examination) -> Finding {
    match it.isolation.as_deref() {
        None => finding("isolation_level", Status::Ok, "one writer at a time"),
        Some("read committed") => finding(
            "isolation_level",
            Status::Ok,
            "writes run at read committed",
        ),
        Some(other) => advised(
            "isolation_level",
            Status::Error,
            format!("writes run at {other}, though each session asks for read committed"),
            "see what stands in between: a pooler or proxy that sets the level of its sessions itself",
        ),
    }
}

fn durability(it: &Examination) -> Finding {
    if it.risks.is_empty() {
        return finding("durability", Status::Ok, "what is confirmed stays");
    }
    let risks = it.risks.iter();
    let risks: Vec<_> = risks
        .map(|risk| format!("{}: {}", risk.setting, risk.danger))
        .collect();
    advised(
        "durability",
        Status::Warning,
        risks.join("; "),
        "set it back to the default of the server, unless losing the last runs is agreed on",
    )
}

fn indexes(it: &Examination) -> Finding {
    if it.missing_indexes.is_empty() {
        return finding("missing_indexes", Status::Ok, "all indexes are there");
    }
    advised(
        "missing_indexes",
        Status::Error,
        format!("not there, or not valid: {}", it.missing_indexes.join(", ")),
        "create them again as the migrations of the engine do; without them tables are walked, and claims may fail",
    )
}

fn claim(it: &Examination) -> Finding {
    if it.claim.is_indexed {
        let found = "claims go by the index workflow_tasks_claim";
        return finding("claim_plan", Status::Ok, found);
    }
    advised(
        "claim_plan",
        Status::Error,
        format!(
            "claims do not go by the index workflow_tasks_claim: {}",
            it.claim.told
        ),
        "see that the index is there, and let the database gather its statistics anew (ANALYZE)",
    )
}

fn pooler(it: &Examination) -> Finding {
    match it.pooler {
        Pooler::None => finding(
            "pooler",
            Status::Ok,
            "each connection has a session of its own",
        ),
        Pooler::Told => Finding {
            category: Category::Acceleration,
            remedy: "for hints by LISTEN and NOTIFY reach the server directly; CACHE_DRIVER=database or redis works through a pooler",
            ..finding(
                "pooler",
                Status::Info,
                "a pooler gives each transaction another session, as this process was told: LISTEN does not work through it",
            )
        },
        Pooler::Untold => advised(
            "pooler",
            Status::Warning,
            "a pooler gives each transaction another session, and this process was not told: \
             statements with names work only if the pooler follows them, and LISTEN does not"
                .to_owned(),
            "set COORD_ENGINE_POOLER=true, or let PgBouncer 1.21 or newer follow statements with max_prepared_statements, or give the engine a pool in session mode",
        ),
    }
}

fn transactions(it: &Examination) -> Finding {
    const NAME: &str = "long_transactions";
    match it.long {
        Long::Seen(0, _) | Long::Pages(0) => {
            finding(NAME, Status::Ok, "no transaction is under way for long")
        }
        Long::Seen(count, oldest) => advised(
            NAME,
            Status::Warning,
            format!("{count} transactions are under way for long, the oldest for {oldest:?}"),
            "end them: what they could still see is not cleaned up, and claims slow down with what gathers",
        ),
        Long::Pages(pages) => advised(
            NAME,
            Status::Warning,
            format!("{pages} pages of the log wait for somebody who still reads what was before"),
            "end that reader: the log grows until it is gone, and reads slow down with it",
        ),
        Long::Hidden => advised(
            NAME,
            Status::Info,
            "this user may not see the transactions of others".to_owned(),
            "to see them, grant pg_read_all_stats (PostgreSQL) or PROCESS (MySQL, MariaDB)",
        ),
    }
}

pub(super) fn clock(offset: Offset) -> Finding {
    const NAME: &str = "clock_offset";
    let sure = offset.ahead_us.unsigned_abs();
    let sure = Duration::from_micros(sure.saturating_sub(offset.unsure_us.unsigned_abs()));
    let way = if offset.ahead_us < 0 {
        "behind"
    } else {
        "ahead"
    };
    let found = format!("the clock of the database is {sure:?} {way} of the one of this machine");
    let remedy = "let both follow the same time service; the engine goes by that of the database alone, logs and certificates do not";
    if sure >= FAR_APART {
        advised(NAME, Status::Warning, found, remedy)
    } else if sure >= APART {
        advised(NAME, Status::Info, found, remedy)
    } else {
        finding(
            NAME,
            Status::Ok,
            "the clocks of the database and this machine agree",
        )
    }
}

pub(super) fn hints(wake: Health) -> Finding {
    let (status, found, remedy) = match wake {
        Health::Healthy => (Status::Ok, "hints pass between processes", ""),
        Health::Alone => (
            Status::Info,
            "nothing carries hints between processes: each looks once a second",
            "set CACHE_DRIVER where several processes work",
        ),
        Health::Degraded => (
            Status::Warning,
            "hints do not pass between processes: each looks once a second",
            "see that what CACHE_DRIVER names runs and is reached",
        ),
    };
    Finding {
        category: Category::Acceleration,
        remedy,
        ..finding("wake", status, found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Timestamp;
    use crate::store::{Plan, Risk};

    fn fine() -> Examination {
        Examination {
            now: Timestamp::default(),
            server: "PostgreSQL 15.1".to_owned(),
            too_old: None,
            schema: (3, 3),
            isolation: Some("read committed".to_owned()),
            risks: Vec::new(),
            missing_indexes: Vec::new(),
            claim: Plan {
                is_indexed: true,
                told: String::new(),
            },
            pooler: Pooler::None,
            long: Long::Seen(0, Duration::ZERO),
        }
    }

    #[test]
    fn nothing_is_found_where_nothing_is_wrong() {
        let findings = examined(&fine());

        assert!(
            findings.iter().all(|it| it.status == Status::Ok),
            "{findings:?}"
        );
        assert!(findings.iter().all(|it| it.remedy.is_empty()));
    }

    #[test]
    fn each_thing_that_is_wrong_has_its_finding_and_its_remedy() {
        type Change = fn(&mut Examination);
        let wrong: [(&str, Status, Change); 9] = [
            ("server_version", Status::Error, |it| {
                it.too_old = Some("too old".to_owned());
            }),
            ("migrations", Status::Error, |it| it.schema = (2, 3)),
            ("isolation_level", Status::Error, |it| {
                it.isolation = Some("serializable".to_owned());
            }),
            ("durability", Status::Warning, |it| {
                it.risks = vec![Risk {
                    setting: "fsync = off".to_owned(),
                    danger: "lost",
                }];
            }),
            ("missing_indexes", Status::Error, |it| {
                it.missing_indexes = vec!["some_index".to_owned()];
            }),
            ("claim_plan", Status::Error, |it| {
                it.claim.is_indexed = false;
            }),
            ("pooler", Status::Warning, |it| it.pooler = Pooler::Untold),
            ("pooler", Status::Info, |it| it.pooler = Pooler::Told),
            ("long_transactions", Status::Warning, |it| {
                it.long = Long::Seen(1, Duration::from_secs(61));
            }),
        ];
        for (name, status, change) in wrong {
            let mut examination = fine();
            change(&mut examination);

            let findings = examined(&examination);

            let bad: Vec<_> = findings
                .iter()
                .filter(|it| it.status != Status::Ok)
                .collect();
            assert_eq!(bad.len(), 1, "{bad:?}");
            assert_eq!((bad[0].name, bad[0].status), (name, status));
            assert!(!bad[0].remedy.is_empty(), "{bad:?}");
        }
    }

    #[test]
    fn clocks_are_apart_only_as_far_as_that_is_sure() {
        let status = |ahead_ms: i64, unsure_ms: i64| {
            let (ahead_us, unsure_us) = (ahead_ms * 1000, unsure_ms * 1000);
            clock(Offset {
                ahead_us,
                unsure_us,
            })
            .status
        };

        assert_eq!(status(999, 0), Status::Ok);
        assert_eq!(status(1000, 0), Status::Info);
        assert_eq!(status(1000, 1), Status::Ok);
        assert_eq!(status(-29_999, 0), Status::Info);
        assert_eq!(status(-30_000, 0), Status::Warning);
    }
}
