//! Code and its history, without a database.

mod conditions;
mod guard;
mod replay;

use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use super::*;
use crate::limits::Limits;
use crate::model::{
    Event, EventKind, Failure, Ids, Message, Namespace, Payload, Priority, Queue, RequestId, RunId,
    Timestamp, TypeName, WorkflowId, events,
};
use crate::transition::{Draft, Identity, RunState};

const DOUBLE: Activity<u32, u32> = Activity::new("double");
const HALVE: Activity<u32, u32> = Activity::new("halve");
const GO: Signal<()> = Signal::new("go");

fn identity() -> Identity {
    Identity {
        namespace: Namespace::new("tests").expect("a name"),
        workflow: WorkflowId::new("work").expect("an id"),
        run: RunId::new("run").expect("an id"),
    }
}

fn started() -> Event {
    Event {
        seq: 1,
        at: Timestamp::from_micros(1_000_000),
        step: None,
        kind: EventKind::Started(events::Started {
            name: TypeName::new("work").expect("a name"),
            workflow: identity().workflow,
            number: 1,
            queue: Queue::new("q").expect("a name"),
            priority: Priority::default(),
            fairness: None,
            build: None,
            seed: 7,
            parent: None,
            continued_from: None,
            occurrence: None,
            execution_deadline_at: None,
            memo: serde_json::Map::new(),
            attributes: crate::model::Attributes::new(),
            trace: None,
        }),
        payload: None,
    }
}

fn function<F, R>(code: F) -> Box<Function>
where
    F: Fn(Context) -> R + Send + Sync + 'static,
    R: Future<Output = Result<u32, Failure>> + Send + 'static,
{
    Box::new(move |context, _| {
        let running = code(context);
        Box::pin(async move { Ok(encode(running.await?)) })
    })
}

fn encode(value: u32) -> Payload {
    Payload::json(&value).expect("json")
}

fn means() -> Means {
    (Arc::new(Ids::random()), Arc::default())
}

/// Replays and goes on: the history with what the code asks for at its end.
fn go_on(events: &[Event], function: &Function) -> Result<(Vec<Event>, Progress), Problem> {
    let replayed = Code::replay(identity(), means(), events, function).expect("a history");
    let (code, state, progress) = replayed?;
    if state.is_closed() {
        return Ok((events.to_vec(), progress));
    }
    let draft = Draft::new(identity(), state, 0, Limits::default());
    carry_on(events.to_vec(), (code, draft, progress))
}

fn carry_on(
    mut events: Vec<Event>,
    (mut code, mut draft, mut progress): (Code, Draft, Progress),
) -> Result<(Vec<Event>, Progress), Problem> {
    loop {
        draft.begin_batch();
        for command in code.take_commands() {
            draft.carry_out(command).expect("carried out");
        }
        let Some(fed) = draft.next_fed() else {
            return Ok((events, progress));
        };
        events.push(fed.event.clone());
        if let Progress::Ended(_) = progress {
            continue;
        }
        code.see(&fed.event, fed.outcome);
        progress = code.poll(Waker::noop(), !draft.is_pending())?;
    }
}

/// A history after its end.
fn closed(mut events: Vec<Event>) -> Vec<Event> {
    let end = Message {
        at: Timestamp::from_micros(9_000_000),
        step: None,
        kind: EventKind::Completed(events::Nothing {}),
        payload: None,
    };
    events.push(end.event(events.len() as u64 + 1));
    events
}

/// A history after the result of the activity of `step`.
fn completed(mut events: Vec<Event>, step: u64, result: u32) -> Vec<Event> {
    let completed = events::ActivityCompleted {
        attempt: crate::model::AttemptId::new("a").expect("an id"),
        number: 1,
    };
    let message = Message {
        at: Timestamp::from_micros(2_000_000),
        step: Some(step),
        kind: EventKind::ActivityCompleted(completed),
        payload: Some(encode(result)),
    };
    let seq = events.len() as u64 + 1;
    events.push(message.event(seq));
    events
}

fn diverged(result: Result<(Vec<Event>, Progress), Problem>) -> (u64, String, String) {
    match result.expect_err("it diverges") {
        Problem::Diverged {
            step,
            expected,
            got,
        } => (step, expected, got),
        other => panic!("{other}"),
    }
}

async fn twice(ctx: Context) -> Result<u32, Failure> {
    let once = ctx.activity(DOUBLE, &1).await?;
    ctx.activity(DOUBLE, &once).await
}
