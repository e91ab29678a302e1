//! Group reads: what runs of a process want to know at one time is read in one transaction.
//!
//! A question that finds few others under way goes to the database at once. Others gather while
//! those are there, and go together, as many runs do when a queue is worked off or after a restart.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use coord_core::{Error, ErrorKind, Result};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::clock::Clock;
use crate::store::{Load, LoadedRun, Store};

/// How many runs are read together at most.
const MOST: usize = 16;
/// How many reads are under way at most: they leave connections to others.
const DEPTH: usize = 3;
/// How many questions may wait; then those who ask wait.
const QUEUE: usize = 4096;

/// The one reader of a process. Dropping it ends what waits.
pub(crate) struct Reader {
    questions: mpsc::Sender<Question>,
    _reading: Mutex<JoinSet<()>>,
}

/// Where is read.
#[derive(Clone)]
struct Database {
    store: Arc<dyn Store>,
    clock: Arc<Clock>,
}

struct Question {
    wanted: Load,
    reply: oneshot::Sender<Result<Option<LoadedRun>>>,
}

impl Reader {
    pub(crate) fn new(store: Arc<dyn Store>, clock: Arc<Clock>) -> Self {
        let (questions, waiting) = mpsc::channel(QUEUE);
        let mut reading = JoinSet::new();
        reading.spawn(read_all(Database { store, clock }, waiting));
        Self {
            questions,
            _reading: Mutex::new(reading),
        }
    }

    /// Reads a run, along with others; `None` if there is none.
    ///
    /// # Errors
    /// Those of [`Store::load`].
    ///
    /// # Cancel safety
    /// Safe.
    pub(crate) async fn load(&self, wanted: Load) -> Result<Option<LoadedRun>> {
        let ended = || Error::unavailable("reading a run: this process is shutting down");
        let (reply, answer) = oneshot::channel();
        let asked = self.questions.send(Question { wanted, reply }).await;
        asked.map_err(|_| ended())?;
        answer.await.unwrap_or_else(|_| Err(ended()))
    }
}

async fn read_all(database: Database, mut more: mpsc::Receiver<Question>) {
    let depth = Arc::new(Semaphore::new(DEPTH));
    let mut reads = JoinSet::new();
    let mut waiting = Vec::new();
    while !waiting.is_empty() || more.recv_many(&mut waiting, MOST).await > 0 {
        let permit = Arc::clone(&depth).acquire_owned().await;
        let permit = permit.expect("nobody closes the semaphore");
        while waiting.len() < MOST {
            let Ok(question) = more.try_recv() else { break };
            waiting.push(question);
        }
        while reads.try_join_next().is_some() {}
        let (database, questions) = (database.clone(), together(&mut waiting));
        reads.spawn(async move {
            database.read(questions).await;
            drop(permit);
        });
    }
    while reads.join_next().await.is_some() {}
}

/// Those of `waiting` that go together. An answer has each run once: who asks for it as well stays,
/// and comes with the next ones.
fn together(waiting: &mut Vec<Question>) -> Vec<Question> {
    let mut met = HashSet::new();
    let is_first = |question: &Question| met.insert(question.wanted.run.clone());
    let (together, others) = std::mem::take(waiting).into_iter().partition(is_first);
    *waiting = others;
    together
}

impl Database {
    /// Answers everybody. What does not read is found by itself, and keeps nobody from the others.
    async fn read(&self, questions: Vec<Question>) {
        let wanted: Vec<_> = questions.iter().map(|one| one.wanted.clone()).collect();
        match self.load(&wanted).await {
            Ok(runs) => {
                let mut runs = runs.into_iter();
                for question in questions {
                    // Who no longer waits for it has no use for it.
                    _ = question.reply.send(runs.next().ok_or_else(unanswered));
                }
            }
            Err(error) if error.kind() == ErrorKind::Corrupt && questions.len() > 1 => {
                for question in questions {
                    let one = self.load(std::slice::from_ref(&question.wanted)).await;
                    let one = one.and_then(|mut runs| runs.pop().ok_or_else(unanswered));
                    _ = question.reply.send(one);
                }
            }
            Err(error) => {
                let mut questions = questions.into_iter();
                let first = questions.next();
                for question in questions {
                    let error = Error::new(error.kind(), error.to_string());
                    _ = question.reply.send(Err(error));
                }
                if let Some(question) = first {
                    _ = question.reply.send(Err(error));
                }
            }
        }
    }

    async fn load(&self, wanted: &[Load]) -> Result<Vec<Option<LoadedRun>>> {
        let sent = Instant::now();
        let loaded = self.store.load(wanted).await?;
        self.clock.observe(loaded.now, sent);
        Ok(loaded.runs)
    }
}

fn unanswered() -> Error {
    Error::corrupt("reading runs: the store answered fewer than it was asked for")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Engine;
    use crate::client::Client;
    use crate::flow::Workflow;
    use crate::memory::Memory;
    use crate::model::{Ids, Namespace, Queue, RunId};

    const WORK: Workflow<u32, ()> = Workflow::new("tests.work");

    fn whole(run: &RunId) -> Load {
        Load {
            run: run.clone(),
            after: 0,
            limit: 100,
        }
    }

    async fn started(client: &Client, count: usize) -> Vec<RunId> {
        let ids = Ids::random();
        let mut runs = Vec::new();
        for _ in 0..count {
            let started = client.start(WORK, ids.workflow(), &1).await;
            let handle = started.expect("started").handle;
            runs.push(handle.run().expect("it is known").clone());
        }
        runs
    }

    #[tokio::test]
    async fn each_of_many_who_ask_at_once_is_answered_its_own_run_also_when_it_is_asked_for_twice()
    {
        let engine = Engine::start(Memory::new()).await.expect("an engine");
        let client = engine.client(Namespace::default(), Queue::default());
        let runs = started(&client, 3 * MOST).await;
        let reader = &engine.core.reader;
        let asked: Vec<_> = runs.iter().chain(&runs).collect();

        let mut answers = JoinSet::new();
        for (place, run) in asked.iter().enumerate() {
            let (core, wanted) = (Arc::clone(&engine.core), whole(run));
            answers.spawn(async move { (place, core.reader.load(wanted).await) });
        }
        let nobody = reader.load(whole(&Ids::random().run())).await;

        assert_eq!(nobody.expect("an answer"), None);
        while let Some(answer) = answers.join_next().await {
            let (place, loaded) = answer.expect("no panic");
            let loaded = loaded.expect("an answer").expect("there");
            assert_eq!(&loaded.run.run, asked[place]);
            assert_eq!(loaded.events.len(), 1, "{loaded:?}");
        }
    }

    #[test]
    fn a_run_is_read_once_at_a_time_and_others_along_with_it() {
        let ids = Ids::random();
        let (one, other) = (ids.run(), ids.run());
        let question = |run: &RunId| Question {
            wanted: whole(run),
            reply: oneshot::channel().0,
        };
        let mut waiting = [&one, &other, &one].map(question).into();
        let runs = |questions: &[Question]| -> Vec<_> {
            let runs = questions.iter().map(|question| &question.wanted.run);
            runs.cloned().collect()
        };

        let together = together(&mut waiting);

        assert_eq!(runs(&together), [one.clone(), other]);
        assert_eq!(runs(&waiting), [one]);
    }
}
