//! Connections that break at the worst moment.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use coord_core::ErrorKind;
use coord_engine::Engine;
use coord_engine::flow::{Signal, Workflow};
use coord_engine::model::{Queue, WorkflowId};
use coord_engine::store::{Outcome, Start, Target, Write};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::stage::{Stage, namespace, record, request};

/// Where a connection breaks: when the client has said one of `words`, after or before the server
/// hears it.
#[derive(Clone, Copy)]
struct Break {
    words: &'static [&'static [u8]],
    heard: bool,
    /// What its connection must have said before.
    after: &'static [u8],
    /// How many connections break.
    times: u32,
}

/// A way to the server that breaks. It ends with its value.
struct Way {
    server: String,
    left: Arc<AtomicU32>,
    _running: JoinSet<()>,
}

impl Way {
    /// `None` where there is no server.
    async fn to(stage: &Stage, at: Break) -> Option<Self> {
        if !stage.database.locks_rows() {
            return None;
        }
        let server = stage.database.server();
        let address = server.rsplit('@').next().expect("an address").to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let (scheme, user) = server
            .strip_suffix(&address)
            .and_then(|head| head.split_once("://"))
            .expect("a url");
        let through = format!("{scheme}://{user}127.0.0.1:{port}");
        let mut running = JoinSet::new();
        let left = Arc::new(AtomicU32::new(at.times));
        let shown = Arc::clone(&left);
        running.spawn(async move {
            let mut pairs = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                let (address, left) = (address.clone(), Arc::clone(&left));
                pairs.spawn(async move {
                    if let Ok(server) = TcpStream::connect(address).await {
                        // Either end may go at any time; that is what this is for.
                        _ = carry(client, server, at, &left).await;
                    }
                });
            }
        });
        Some(Self {
            server: through,
            left: shown,
            _running: running,
        })
    }
}

async fn carry(
    mut client: TcpStream,
    mut server: TcpStream,
    at: Break,
    left: &AtomicU32,
) -> std::io::Result<()> {
    let mut is_due = at.after.is_empty();
    let (mut said, mut answered) = (vec![0; 65_536], vec![0; 65_536]);
    loop {
        tokio::select! {
            count = client.read(&mut said) => {
                let said = &said[..count?];
                if said.is_empty() {
                    return Ok(());
                }
                let says = |word: &&[u8]| said.windows(word.len()).any(|window| window == *word);
                is_due = is_due || says(&at.after);
                let breaks = is_due && at.words.iter().any(says) && take_one(left);
                if !breaks || at.heard {
                    server.write_all(said).await?;
                }
                if breaks {
                    // The server answers into the void.
                    drop(client);
                    _ = server.read(&mut answered).await;
                    return Ok(());
                }
            }
            count = server.read(&mut answered) => {
                let count = count?;
                if count == 0 {
                    return Ok(());
                }
                client.write_all(&answered[..count]).await?;
            }
        }
    }
}

/// A start beside a write that reaches nobody: with it the batch is decided row by row, and its
/// commit is a message of its own.
fn beside_another(stage: &Stage, start: &Start) -> [Write; 2] {
    let nobody = Target::Run(stage.ids.run());
    [Write::Start(Box::new(start.clone())), Write::Resume(nobody)]
}

fn take_one(left: &AtomicU32) -> bool {
    let taken = left.fetch_update(Ordering::AcqRel, Ordering::Acquire, |left| {
        left.checked_sub(1)
    });
    taken.is_ok()
}

pub(crate) async fn a_commit_without_an_answer_is_a_timeout(stage: Stage) {
    let at = Break {
        // As each of the two protocols frames it.
        words: &[b"COMMIT\0", b"\x03COMMIT"],
        heard: true,
        after: b"",
        times: u32::MAX,
    };
    let Some(way) = Way::to(&stage, at).await else {
        return;
    };
    let start = stage.new_run("w");
    let writes = beside_another(&stage, &start);
    let far = stage.database.open_at(&way.server);

    let error = far.apply(&writes).await.expect_err("no answer");

    assert_eq!(error.kind(), ErrorKind::Timeout, "{error:?}");
    // It happened, and its repetition says so.
    let created = Outcome::Started {
        run: start.run.clone(),
        created: true,
    };
    assert_eq!(stage.apply(start.clone()).await, created);
    assert_eq!(stage.load(&start.run).await.events, [record("Started", 1)]);
}

pub(crate) async fn a_connection_that_breaks_before_the_commit_leaves_nothing(stage: Stage) {
    let at = Break {
        words: &[b"workflow_history"],
        heard: true,
        after: b"",
        times: u32::MAX,
    };
    let Some(way) = Way::to(&stage, at).await else {
        return;
    };
    let start = stage.new_run("w");
    let writes = beside_another(&stage, &start);
    let far = stage.database.open_at(&way.server);

    let error = far.apply(&writes).await.expect_err("broken");

    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
    // The id is free; whoever held it is gone.
    stage.start("w").await;
}

pub(crate) async fn a_statement_without_an_answer_is_a_timeout(stage: Stage) {
    let at = Break {
        // What a start binds; its statement is prepared before.
        words: &[b"Begun"],
        heard: true,
        after: b"",
        times: u32::MAX,
    };
    let Some(way) = Way::to(&stage, at).await else {
        return;
    };
    let start = Start {
        records: vec![record("Begun", 1)],
        ..stage.new_run("w")
    };
    let write = Write::Start(Box::new(start.clone()));
    let far = stage.database.open_at(&way.server);

    let error = far.apply(&[write]).await.expect_err("no answer");

    assert_eq!(error.kind(), ErrorKind::Timeout, "{error:?}");
    let created = Outcome::Started {
        run: start.run.clone(),
        created: true,
    };
    assert_eq!(stage.apply(start.clone()).await, created);
    assert_eq!(stage.load(&start.run).await.events, [record("Begun", 1)]);
}

pub(crate) async fn a_server_that_is_not_there_is_unavailable(stage: Stage) {
    if !stage.database.locks_rows() {
        return;
    }
    let at = Break {
        words: &[],
        heard: false,
        after: b"",
        times: u32::MAX,
    };
    let gone = Way::to(&stage, at).await.expect("a way").server;
    let far = stage.database.open_at(&gone);

    let error = far.load(&[]).await.expect_err("nobody there");

    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
    let error = Engine::connect(&format!("{gone}/engine")).await;
    assert_eq!(
        error.err().map(|it| it.kind()),
        Some(ErrorKind::Unavailable)
    );
}

const ECHO: Workflow<String, String> = Workflow::new("tests.echo");
const NEWS: Signal<String> = Signal::new("tests.lost_signal");

pub(crate) async fn a_start_whose_answer_was_lost_is_answered_all_the_same(stage: Stage) {
    let at = Break {
        words: &[b"COMMIT\0", b"\x03COMMIT"],
        heard: true,
        after: b"lost-start",
        times: 1,
    };
    let way = Way::to(&stage, at).await.expect("a server");
    let engine = stage.database.engine_at(&way.server).await;
    let client = engine.client(namespace(), Queue::default());
    let id = WorkflowId::new("lost-start").expect("an id");

    // With a request, so that its commit is a message of its own.
    let start = client.start(ECHO, id.clone(), &String::new());
    let started = start.request(request("one")).await;

    // Its own first try has created it.
    let started = started.expect("started");
    assert!(started.was_created);
    assert_eq!(way.left.load(Ordering::Acquire), 0, "an answer was lost");
    let handle = stage.database.engine().await;
    let handle = handle
        .client(namespace(), Queue::default())
        .handle(ECHO, id);
    let run = handle
        .describe()
        .await
        .expect("an answer")
        .expect("there")
        .run;
    assert_eq!(Some(&run.run), started.handle.run());
}

pub(crate) async fn a_signal_whose_answer_was_lost_is_sent_once(stage: Stage) {
    let at = Break {
        words: &[b"COMMIT\0", b"\x03COMMIT"],
        heard: true,
        after: b"tests.lost_signal",
        times: 1,
    };
    let way = Way::to(&stage, at).await.expect("a server");
    let engine = stage.database.engine_at(&way.server).await;
    let client = engine.client(namespace(), Queue::default());
    let id = WorkflowId::new("w").expect("an id");
    let handle = client
        .start(ECHO, id, &String::new())
        .await
        .expect("started")
        .handle;

    handle.signal(NEWS, &String::new()).await.expect("sent");

    assert_eq!(way.left.load(Ordering::Acquire), 0, "an answer was lost");
    let run = handle
        .describe()
        .await
        .expect("an answer")
        .expect("there")
        .run;
    assert_eq!(run.inbox_seq, 1);
}
