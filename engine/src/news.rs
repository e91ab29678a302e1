//! What this process has committed of runs, for those who want to hear of it.
//!
//! News are told after the commit and wait for nobody: who is too slow for them misses the oldest,
//! and hears how many. They are for people who look; what has to happen stands in the database.

use tokio::sync::broadcast;

use crate::Engine;
use crate::model::{Namespace, Queue, RunId, Timestamp, TypeName, Wait, WorkflowId};
use crate::store::{
    Applied, BlockedReason, Closing, Deliver, Outcome, PutBackHow, Start, Target, Then, Turn, Write,
};

/// How many news wait for whoever listens.
const KEPT: usize = 4096;

/// Something that happened to a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct News {
    /// The run. One that is said to have started as a child or by a schedule, without what it is
    /// [`about`](Self::about), is not there when its workflow id was in use.
    pub run: RunId,
    /// The database's clock at the commit.
    pub at: Timestamp,
    /// What happened.
    pub what: What,
    /// What run it is, where what was written says so: at a start that certainly happened.
    pub about: Option<About>,
}

/// Which run news are of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct About {
    /// The tenant.
    pub namespace: Namespace,
    /// The instance.
    pub workflow: WorkflowId,
    /// The type of the workflow.
    pub name: TypeName,
    /// Where its workflow tasks wait.
    pub queue: Queue,
}

/// What happened to a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    /// It is there.
    Started,
    /// Its code has gone on, and waits.
    Waiting(Option<Wait>),
    /// It was sent a signal.
    Signalled,
    /// It was asked to end.
    CancelRequested,
    /// It is closed; the word is that of [`Closed::reason`](crate::model::Closed::reason).
    Closed(&'static str),
    /// A task of it is set aside until somebody resumes it.
    Blocked(BlockedReason),
    /// What was set aside goes on.
    Resumed,
}

/// The news of a process from when it was asked for.
#[derive(Debug)]
pub struct Feed {
    news: broadcast::Receiver<News>,
}

/// What a [`Feed`] has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Heard {
    /// News.
    News(News),
    /// So many were missed, since whoever listens was too slow for them.
    Missed(u64),
}

impl Feed {
    /// The next news; `None` once nothing of the engine is left.
    ///
    /// # Cancel safety
    /// Safe: nothing is lost.
    pub async fn next(&mut self) -> Option<Heard> {
        match self.news.recv().await {
            Ok(news) => Some(Heard::News(news)),
            Err(broadcast::error::RecvError::Lagged(missed)) => Some(Heard::Missed(missed)),
            Err(broadcast::error::RecvError::Closed) => None,
        }
    }
}

impl Engine {
    /// What this process commits of runs from now on, through whatever client or worker, each after
    /// its commit. Without anybody who listens nothing is kept.
    pub fn follow_runs(&self) -> Feed {
        self.core.newsroom.listen()
    }
}

/// Where commits are told.
#[derive(Debug)]
pub(crate) struct Newsroom {
    news: broadcast::Sender<News>,
}

impl Default for Newsroom {
    fn default() -> Self {
        Self {
            news: broadcast::Sender::new(KEPT),
        }
    }
}

impl Newsroom {
    fn listen(&self) -> Feed {
        Feed {
            news: self.news.subscribe(),
        }
    }

    /// What is there to tell of `writes`, which came to `applied`; nothing if nobody listens.
    pub(crate) fn of(&self, writes: &[Write], applied: &Applied) -> Vec<News> {
        if self.news.receiver_count() == 0 {
            return Vec::new();
        }
        let mut found = Found {
            at: applied.now,
            news: Vec::new(),
        };
        for (write, outcome) in writes.iter().zip(&applied.outcomes) {
            found.add(write, outcome);
        }
        found.news
    }

    /// Tells them.
    pub(crate) fn tell(&self, news: impl IntoIterator<Item = News>) {
        for news in news {
            // Nobody may listen any more.
            _ = self.news.send(news);
        }
    }
}

/// What a transaction has to tell.
struct Found {
    at: Timestamp,
    news: Vec<News>,
}

impl Found {
    fn add(&mut self, write: &Write, outcome: &Outcome) {
        match (write, outcome) {
            (Write::Start(start), Outcome::Started { created: true, .. }) => self.start(start),
            (Write::Turn(turn), Outcome::Done { .. } | Outcome::Taken { .. }) => self.turn(turn),
            (Write::Deliver(deliver), Outcome::Done { run, .. }) => self.message(run, deliver),
            (Write::Terminate(terminate), Outcome::Done { run, .. }) => {
                self.end(run, &terminate.closing);
            }
            (Write::PutBack(put_back), Outcome::Done { run, .. }) => {
                if let PutBackHow::Blocked { reason, .. } = put_back.how {
                    self.tell(run, What::Blocked(reason));
                }
            }
            (Write::Resume(_), Outcome::Done { run, .. }) => self.tell(run, What::Resumed),
            (Write::Schedule(schedule), Outcome::Scheduled { .. }) => {
                for fire in &schedule.fires {
                    self.tell(&fire.start.run, What::Started);
                }
            }
            _ => {}
        }
    }

    fn turn(&mut self, turn: &Turn) {
        for child in &turn.children {
            self.tell(&child.run, What::Started);
        }
        for deliver in &turn.deliveries {
            if let Target::Run(run) = &deliver.target {
                self.message(run, deliver);
            }
        }
        match &turn.then {
            Then::Wait { wait, .. } => self.tell(&turn.run, What::Waiting(*wait)),
            Then::Close(closing) => self.end(&turn.run, closing),
            Then::Keep | Then::Take(_) => {}
        }
    }

    fn message(&mut self, run: &RunId, deliver: &Deliver) {
        if let Some(what) = sent(deliver) {
            self.tell(run, what);
        }
    }

    fn end(&mut self, run: &RunId, closing: &Closing) {
        self.tell(run, What::Closed(closing.closed.reason()));
        if let Some(next) = &closing.next {
            self.start(next);
        }
    }

    fn start(&mut self, start: &Start) {
        self.tell(&start.run, What::Started);
        if let Some(told) = self.news.last_mut() {
            told.about = Some(About {
                namespace: start.namespace.clone(),
                workflow: start.workflow.clone(),
                name: start.name.clone(),
                queue: start.queue.clone(),
            });
        }
    }

    fn tell(&mut self, run: &RunId, what: What) {
        self.news.push(News {
            run: run.clone(),
            at: self.at,
            what,
            about: None,
        });
    }
}

/// What a message is to the run that gets it; nothing for what only its code has to know.
fn sent(deliver: &Deliver) -> Option<What> {
    match deliver.record.kind.as_str() {
        "SignalReceived" => Some(What::Signalled),
        "CancelRequested" => Some(What::CancelRequested),
        _ => None,
    }
}

#[cfg(all(test, feature = "sqlite"))]
mod tests {
    use std::time::Duration;

    use coord_core::Result;

    use super::*;
    use crate::flow::{Context, Signal, Workflow};
    use crate::model::Failure;
    use crate::store::Sqlite;

    const ORDER: Workflow<(), String> = Workflow::new("tests.order");
    const APPROVE: Signal<String> = Signal::new("approve");
    /// Far above what anything here takes.
    const SOON: Duration = Duration::from_mins(1);

    async fn order(ctx: Context, (): ()) -> Result<String, Failure> {
        ctx.signal(APPROVE).recv().await
    }

    async fn next(feed: &mut Feed) -> News {
        let heard = tokio::time::timeout(SOON, feed.next()).await.expect("soon");
        match heard.expect("it goes on") {
            Heard::News(news) => news,
            Heard::Missed(missed) => panic!("{missed} missed"),
        }
    }

    #[tokio::test]
    async fn a_run_is_told_of_from_its_start_to_its_end() -> Result<()> {
        let engine = Engine::start(Sqlite::memory()).await?;
        let mut feed = engine.follow_runs();
        let client = engine.client(Namespace::default(), Queue::default());
        let id = WorkflowId::new("a")?;
        let started = client.start(ORDER, id, &()).await?.handle;
        let run = started.run().expect("it is there").clone();
        let first = next(&mut feed).await;
        let worker = engine.worker(Namespace::default(), Queue::default());
        let worker = worker.workflow(ORDER, order).start();
        let second = next(&mut feed).await;

        started.signal(APPROVE, &"yes".to_owned()).await?;
        let third = next(&mut feed).await;
        let fourth = next(&mut feed).await;

        worker.shutdown(SOON).await;
        let about = first.about.as_ref().expect("a start says it");
        assert_eq!(about.name.as_str(), "tests.order");
        let all = [first.clone(), second, third, fourth];
        assert!(all.iter().all(|news| news.run == run), "{all:?}");
        assert!(all.is_sorted_by_key(|news| news.at), "{all:?}");
        let what = all.map(|news| news.what);
        let expected = [
            What::Started,
            What::Waiting(Some(Wait::Signal)),
            What::Signalled,
            What::Closed("completed"),
        ];
        assert_eq!(what, expected);
        Ok(())
    }

    #[tokio::test]
    async fn who_is_too_slow_hears_how_much_it_missed_and_holds_nobody_up() {
        let newsroom = Newsroom::default();
        let mut feed = newsroom.listen();
        let news = |number: usize| News {
            run: RunId::new(format!("run-{number}")).expect("an id"),
            at: Timestamp::default(),
            what: What::Started,
            about: None,
        };

        newsroom.tell((0..KEPT + 2).map(news));

        assert_eq!(feed.next().await, Some(Heard::Missed(2)));
        assert_eq!(feed.next().await, Some(Heard::News(news(2))));
    }

    #[tokio::test]
    async fn what_did_not_happen_is_no_news() -> Result<()> {
        let engine = Engine::start(Sqlite::memory()).await?;
        let client = engine.client(Namespace::default(), Queue::default());
        let id = WorkflowId::new("a")?;
        let handle = client.start(ORDER, id.clone(), &()).await?.handle;
        let mut feed = engine.follow_runs();

        let again = client.start(ORDER, id, &()).or_existing().await?;
        assert!(!again.was_created);
        handle.terminate("enough").await?;

        assert_eq!(next(&mut feed).await.what, What::Closed("terminated"));
        Ok(())
    }
}
