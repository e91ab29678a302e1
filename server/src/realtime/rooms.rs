//! What clients ask to hear of.

use coord_engine::model::{Namespace, Queue, RunId};
use serde::Deserialize;

use super::event::RunEvent;

/// What a client sends with `join` and `leave`: a run, a task queue or a whole namespace.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Asked {
    namespace: Option<String>,
    task_queue: Option<String>,
    run_id: Option<String>,
}

/// Whose news a client hears.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Room {
    pub(super) namespace: Namespace,
    pub(super) of: Of,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Of {
    Run(RunId),
    Queue(Queue),
    Namespace,
}

impl Room {
    /// The room that `asked` names; `None` when it names none, or several.
    pub(super) fn read(asked: Asked) -> Option<Self> {
        let namespace = match asked.namespace {
            Some(named) => Namespace::new(named).ok()?,
            None => Namespace::default(),
        };
        let of = match (asked.run_id, asked.task_queue) {
            (Some(run), None) => Of::Run(RunId::new(run).ok()?),
            (None, Some(queue)) => Of::Queue(Queue::new(queue).ok()?),
            (None, None) => Of::Namespace,
            (Some(_), Some(_)) => return None,
        };
        Some(Self { namespace, of })
    }

    /// What it is called between Socket.IO and us: no two are called the same.
    pub(super) fn name(&self) -> String {
        let Self { namespace, of } = self;
        let (kind, id) = match of {
            Of::Run(run) => ("run", run.as_str()),
            Of::Queue(queue) => ("queue", queue.as_str()),
            Of::Namespace => ("namespace", ""),
        };
        // The length tells where the one name ends and the other begins.
        format!("{kind}:{}:{namespace}{id}", namespace.as_str().len())
    }

    /// The rooms in which `event` is heard.
    pub(super) fn of_event(event: &RunEvent) -> [String; 3] {
        let all = [
            Of::Run(event.run_id.clone()),
            Of::Queue(event.task_queue.clone()),
            Of::Namespace,
        ];
        all.map(|of| {
            let namespace = event.namespace.clone();
            Self { namespace, of }.name()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<Room> {
        Room::read(serde_json::from_str(text).ok()?)
    }

    #[test]
    fn what_is_asked_for_is_one_room() {
        let room = |text| read(text).map(|room| room.name());

        assert_eq!(room("{}").as_deref(), Some("namespace:7:default"));
        let run = room(r#"{"namespace": "shop", "run_id": "r"}"#);
        assert_eq!(run.as_deref(), Some("run:4:shopr"));
        let queue = room(r#"{"namespace": "shop", "task_queue": "q"}"#);
        assert_eq!(queue.as_deref(), Some("queue:4:shopq"));
        for none in [
            r#"{"run_id": "r", "task_queue": "q"}"#,
            r#"{"run": "r"}"#,
            r#"{"run_id": ""}"#,
            r#"{"namespace": ""}"#,
            "[]",
        ] {
            assert_eq!(room(none), None, "{none}");
        }
    }

    #[test]
    fn no_two_rooms_are_called_the_same() {
        let one = read(r#"{"namespace": "a", "task_queue": "bc"}"#).expect("a room");
        let other = read(r#"{"namespace": "ab", "task_queue": "c"}"#).expect("a room");

        assert_ne!(one.name(), other.name());
    }
}
