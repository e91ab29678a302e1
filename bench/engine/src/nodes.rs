//! Nodes that can be killed: this program again, each a process of its own.
//!
//! Their one workflow tells of each of its steps, as soon as the step begins, by a datagram to the
//! process that measures, so that all instants are of one clock.

use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use coord_bench_measure::Result;
use coord_engine::Engine;
use coord_engine::client::{Client, Handle};
use coord_engine::flow::{Context, Workflow};
use coord_engine::model::{Failure, Ids, Namespace, Queue, WorkflowId};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::UdpSocket;
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinSet;

/// The first argument of such a process.
pub(crate) const NODE: &str = "node";
const JOB: Workflow<Job, u16> = Workflow::new("bench.job");
/// For what takes no time to speak of.
const PATIENCE: Duration = Duration::from_secs(30);

/// What a run is asked to do.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) number: u16,
    pub(crate) steps: u16,
    /// Whom to tell of each.
    pub(crate) port: u16,
}

/// A process with an engine. It is killed when this goes.
pub(crate) struct Node {
    child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl Node {
    /// One on the database at `url`, each of whose steps lasts for `hold`. It does no work yet.
    pub(crate) async fn start(url: &str, hold: Duration) -> Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args([NODE, url, &hold.as_millis().to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        let (input, output) = pipes.ok_or("it has no pipes")?;
        let output = BufReader::new(output).lines();
        let mut node = Self {
            child,
            input,
            output,
        };
        node.answers("ready").await?;
        Ok(node)
    }

    /// Has it work.
    pub(crate) async fn work(&mut self) -> Result<()> {
        self.ask("work").await?;
        self.answers("working").await
    }

    /// Has it end as a service ends, with no time for what is under way; without waiting for it.
    pub(crate) async fn ask_to_stop(&mut self) -> Result<()> {
        self.ask("stop").await
    }

    /// Ends it as a crash does.
    pub(crate) async fn kill(mut self) -> Result<()> {
        Ok(self.child.kill().await?)
    }

    async fn ask(&mut self, what: &str) -> Result<()> {
        self.input.write_all(format!("{what}\n").as_bytes()).await?;
        Ok(self.input.flush().await?)
    }

    async fn answers(&mut self, wanted: &str) -> Result<()> {
        let line = tokio::time::timeout(PATIENCE, self.output.next_line()).await;
        match line.map_err(|_| format!("a node is not {wanted}"))?? {
            Some(line) if line == wanted => Ok(()),
            other => Err(format!("a node answers {other:?} where it should be {wanted}").into()),
        }
    }
}

/// What such a process does, until it is killed or asked to stop.
pub(crate) async fn serve(arguments: &[String]) -> Result<()> {
    let [url, hold] = arguments else {
        return Err("a node takes a url and for how many milliseconds a step lasts".into());
    };
    let hold = Duration::from_millis(hold.parse()?);
    let engine = Engine::builder_at(url)?.start().await?;
    println!("ready");
    let mut worker = None;
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = lines.next_line().await? {
        match line.as_str() {
            "work" => {
                let begun = engine.worker(Namespace::default(), Queue::default());
                let run = move |ctx: Context, job: Job| run(ctx, job, hold);
                worker = Some(begun.workflow(JOB, run).start());
                println!("working");
            }
            "stop" => break,
            other => return Err(format!("a node cannot {other}").into()),
        }
    }
    if let Some(worker) = worker {
        worker.shutdown(Duration::ZERO).await;
    }
    Ok(engine.shutdown().await?)
}

async fn run(ctx: Context, job: Job, hold: Duration) -> Result<u16, Failure> {
    for step in 0..job.steps {
        let told = ctx.step("tell", async || {
            tell(&job, step).map_err(|error| Failure::new(error.to_string()))?;
            tokio::time::sleep(hold).await;
            Ok::<_, Failure>(step)
        });
        told.await?;
    }
    Ok(job.number)
}

fn tell(job: &Job, step: u16) -> std::io::Result<()> {
    let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
    let [a, b] = job.number.to_be_bytes();
    let [c, d] = step.to_be_bytes();
    socket
        .send_to(&[a, b, c, d], ("127.0.0.1", job.port))
        .map(drop)
}

/// A step that began.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Begun {
    pub(crate) at: Instant,
    pub(crate) number: u16,
}

/// What hears of the steps of all nodes.
pub(crate) struct Ears {
    port: u16,
    heard: Mutex<mpsc::UnboundedReceiver<Begun>>,
    _listening: JoinSet<()>,
}

impl Ears {
    /// Listens from now on, so that nothing is lost while nobody asks.
    pub(crate) async fn open() -> Result<Self> {
        let socket = UdpSocket::bind("127.0.0.1:0").await?;
        let port = socket.local_addr()?.port();
        let (hears, heard) = mpsc::unbounded_channel();
        let mut listening = JoinSet::new();
        listening.spawn(async move {
            let mut told = [0; 4];
            while socket.recv(&mut told).await.is_ok() {
                let begun = Begun {
                    at: Instant::now(),
                    number: u16::from_be_bytes([told[0], told[1]]),
                };
                if hears.send(begun).is_err() {
                    return;
                }
            }
        });
        Ok(Self {
            port,
            heard: Mutex::new(heard),
            _listening: listening,
        })
    }

    /// The next step that begins, if one does within `time`.
    pub(crate) async fn next(&self, time: Duration) -> Option<Begun> {
        let mut heard = self.heard.lock().await;
        tokio::time::timeout(time, heard.recv()).await.ok()?
    }
}

/// The process that measures, as somebody who looks on: it starts runs, and reads what became of them.
pub(crate) struct Stage {
    _engine: Engine,
    client: Client,
    ids: Arc<Ids>,
}

impl Stage {
    /// On the database at `url`.
    pub(crate) async fn at(url: &str) -> Result<Self> {
        let engine = Engine::builder_at(url)?.visit().await?;
        Ok(Self {
            client: engine.client(Namespace::default(), Queue::default()),
            _engine: engine,
            ids: Arc::new(Ids::random()),
        })
    }

    /// Starts a run that tells `ears` of its steps, through whatever keeps the database away.
    pub(crate) async fn start(&self, ears: &Ears, number: u16, steps: u16) -> Result<Handle<u16>> {
        let job = Job {
            number,
            steps,
            port: ears.port,
        };
        let id = self.ids.workflow();
        let until = Instant::now() + PATIENCE;
        loop {
            let start = self.client.start(JOB, id.clone(), &job).or_existing();
            match start.await {
                Ok(started) => return Ok(started.handle),
                Err(error) if Instant::now() > until => return Err(error.into()),
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        }
    }

    /// The run that was started as `id`.
    pub(crate) fn run(&self, id: WorkflowId) -> Handle<u16> {
        self.client.handle(JOB, id)
    }
}

/// What became of runs.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Ends {
    /// They have the result that they should have.
    pub(crate) right: usize,
    /// Steps that their histories have more than once, and runs that ended more than once.
    pub(crate) duplicates: usize,
}

/// Waits for `runs` for at most `patience` altogether.
pub(crate) async fn ends(runs: &[(u16, Handle<u16>)], patience: Duration) -> Result<Ends> {
    let until = Instant::now() + patience;
    let mut ends = Ends::default();
    for (number, run) in runs {
        let left = until.saturating_duration_since(Instant::now());
        match run.result(left).await? {
            Some(Ok(result)) if result == *number => ends.right += 1,
            Some(other) => return Err(format!("run {number} ended with {other:?}").into()),
            None => {
                // What a reader of the table will want to know.
                if let Some(why) = run.explain().await? {
                    eprintln!("bench: run {number} has no result: {why:?}");
                }
                continue;
            }
        }
        let mut told = std::collections::HashSet::new();
        for event in run.history().await? {
            let what = (event.kind.name().to_owned(), event.step);
            ends.duplicates += usize::from(!told.insert(what));
        }
    }
    Ok(ends)
}
