//! A dialect may carry out a batch of plain writes by a shorter way. Both ways must do the same.

use std::time::Duration;

use coord_engine::model::{Closed, Due, Failure, RunId, TaskKind, Timeouts, Timestamp, Wait};
use coord_engine::store::{
    Append, ClaimedTask, Fence, Lease, NewActivity, Outcome, Start, Target, Then, Turn, Write,
};

use crate::stage::{
    IntoWrite, LONG, Stage, activity, closing, completed, held, owner, record, signal, turn,
};

/// What a run has behind it when the write comes.
#[derive(Clone, Copy, Debug)]
enum Before {
    /// Nothing: the write starts it.
    Nothing,
    /// Its task is claimed.
    Claimed,
    /// As before, and a message waits.
    Signalled,
    /// An activity of it is claimed.
    Activity,
    /// Two of its activities are.
    Activities,
}

fn lease() -> Lease {
    Lease {
        owner: owner("a"),
        ttl: LONG,
    }
}

fn on_activities(task: &ClaimedTask, tasks: &[ClaimedTask]) -> Turn {
    Turn {
        fence: Fence::Activities(tasks.iter().map(held).collect()),
        history_length: 1 + tasks.len() as u64,
        records: vec![record("ActivityCompleted", 2 + tasks.len() as u64)],
        ..turn(task)
    }
}

fn later() -> Then {
    Then::Wait {
        due: Some(Due::After(LONG)),
        wait: Some(Wait::Timer),
    }
}

fn close(closed: Closed) -> Then {
    Then::Close(Box::new(closing(closed)))
}

/// Every sort of plain write, in a run called `name`, of which `tasks` are claimed.
fn write(case: usize, stage: &Stage, name: &str, tasks: &[ClaimedTask]) -> Option<Write> {
    let timeouts = Timeouts {
        schedule_to_start: Some(Duration::from_secs(200)),
        schedule_to_close: Some(Duration::from_mins(5)),
        start_to_close: Some(Duration::from_secs(400)),
        heartbeat: Some(Duration::from_secs(500)),
    };
    let eager = |step| NewActivity {
        lease: Some((lease(), stage.attempt())),
        timeouts,
        ..activity(step, name)
    };
    let queued = |step| NewActivity {
        timeouts,
        ..activity(step, name)
    };
    let Some(task) = tasks.first() else {
        let start = stage.new_run(name);
        let due = Due::After(LONG);
        let starts = [
            start.clone(),
            Start {
                due,
                ..start.clone()
            },
            Start {
                lease: Some(lease()),
                ..start
            },
        ];
        return starts.into_iter().nth(case).map(IntoWrite::into_write);
    };
    let records = vec![record("Step", 2)];
    let append = Append {
        held: held(task),
        run: task.task.run.clone(),
        records: records.clone(),
    };
    let is_turn = task.task.kind == TaskKind::Workflow;
    let turn = if is_turn {
        Turn {
            records,
            ..turn(task)
        }
    } else {
        on_activities(task, tasks)
    };
    let go_on = if is_turn {
        Then::Keep
    } else {
        Then::Take(lease())
    };
    let failed = Closed::Failed(Failure::new("no"));
    let turns = [
        turn.clone(),
        Turn {
            then: go_on,
            activities: vec![eager(2), queued(3)],
            ..turn.clone()
        },
        Turn {
            activities: vec![eager(2)],
            ..turn.clone()
        },
        Turn {
            then: later(),
            activities: vec![queued(2)],
            ..turn.clone()
        },
        Turn {
            drained: 1,
            ..turn.clone()
        },
        Turn {
            then: close(completed()),
            ..turn.clone()
        },
        Turn {
            then: close(failed),
            drained: 1,
            ..turn.clone()
        },
    ];
    let appends = is_turn.then(|| append.into_write());
    let turns = turns.into_iter().map(IntoWrite::into_write);
    appends.into_iter().chain(turns).nth(case)
}

/// The run and its tasks, with their names and instants blurred.
async fn picture(stage: &Stage, name: &str, run: &RunId) -> String {
    let now = stage.now().await;
    let described = stage.describe(run).await;
    let loaded = stage.load(run).await;
    let mut text = format!("{:?} {:?} {loaded:?}", described.run, described.tasks);
    for kind in [TaskKind::Workflow, TaskKind::Activity] {
        let claimed = stage.claim(&stage.claim_of(kind, name, 9)).await;
        text.extend([format!(
            " {:?} {:?}",
            claimed.tasks,
            claimed.next_due.is_some()
        )]);
    }
    let text = text
        .replace(run.as_str(), "RUN")
        .replace(&format!("\"{name}\""), "NAME");
    blurred(&text, now)
}

fn blurred(text: &str, now: Timestamp) -> String {
    const STAMP: &str = "Timestamp(";
    let mut parts = text.split(STAMP);
    let mut blurred = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (number, rest) = part.split_once(')').expect("as it is derived");
        let instant: i64 = number.parse().expect("a number");
        let when = match Timestamp::from_micros(instant) {
            Timestamp::NEVER => "never".to_owned(),
            // Rounded to 100 s, which no two of the test's spans are within.
            later if later > now => format!("in {:?}", (later.since(now).as_secs() + 50) / 100),
            _ => "past".to_owned(),
        };
        blurred.extend([STAMP, &when, ")", rest]);
    }
    // Each attempt has an id of its own.
    let ids = blurred
        .split("attempt_id: Some(")
        .map(|part| match part.split_once(')') {
            Some((id, rest)) if id.starts_with('"') => rest,
            _ => part,
        });
    ids.collect::<Vec<_>>().join("attempt_id: ")
}

async fn carried_out(
    stage: &Stage,
    before: Before,
    case: usize,
    among_others: bool,
) -> Option<String> {
    let name = format!("{before:?}-{case}-{among_others}").to_lowercase();
    let tasks = match before {
        Before::Nothing => Vec::new(),
        Before::Claimed | Before::Signalled => {
            stage.start(&name).await;
            let task = stage.claim_workflow(&name).await;
            if matches!(before, Before::Signalled) {
                stage.apply(signal(&task.task.run)).await;
            }
            vec![task]
        }
        Before::Activity => {
            stage.start_with_activity(&name, Timeouts::default()).await;
            vec![stage.claim_activity(&name).await]
        }
        Before::Activities => {
            stage.start_with_activities(&name, [8, 9]).await;
            let claim = stage.claim_of(TaskKind::Activity, &name, 2);
            stage.claim(&claim).await.tasks
        }
    };
    let write = write(case, stage, &name, &tasks)?;
    let run = match (tasks.first(), &write) {
        (Some(task), _) => task.task.run.clone(),
        (None, Write::Start(start)) => start.run.clone(),
        (None, other) => panic!("{other:?} starts nothing"),
    };
    let mut writes = vec![write];
    if among_others {
        writes.push(Write::Resume(Target::Run(stage.ids.run())));
    }
    let outcome: Outcome = stage.batch(writes).await.swap_remove(0);
    let outcome = format!("{outcome:?}").replace(run.as_str(), "RUN");
    Some(format!(
        "{outcome} {}",
        picture(stage, &name, &run).await.replace(&name, "NAME")
    ))
}

pub(crate) async fn a_write_does_the_same_alone_and_among_others(stage: Stage) {
    for before in [
        Before::Nothing,
        Before::Claimed,
        Before::Signalled,
        Before::Activity,
        Before::Activities,
    ] {
        let mut cases = 0;
        while let Some(alone) = carried_out(&stage, before, cases, false).await {
            let among_others = carried_out(&stage, before, cases, true).await;

            assert_eq!(Some(alone), among_others, "{before:?}, case {cases}");
            cases += 1;
        }
        assert!(cases >= 3, "{before:?} has {cases} cases");
    }
}
