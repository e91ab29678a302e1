//! A server that carries hints, as a child process.

use std::{
    fs::{self, File},
    io,
    net::SocketAddr,
    path::PathBuf,
    process::{Command, Stdio},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::{child::Child, env, folder, need::Missing, ports, wait};

/// Losing this many races for a port in a row means that something else is wrong.
const PORT_TRIES: u32 = 8;
/// A loaded machine starts one in well under a second.
const START_WITHIN: Duration = Duration::from_secs(20);
/// A server on loopback answers at once, unless the machine is busy.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// What makes a program a server that can be started here.
pub(super) struct Kind {
    /// The program, in `PATH` or where systems put servers.
    pub(super) program: &'static str,
    /// The variable that names it.
    pub(super) variable: &'static str,
    /// What its package is called, and how it is missed.
    pub(super) missing: &'static str,
    /// Its arguments, for the port where it is to listen.
    pub(super) arguments: fn(u16) -> Vec<String>,
    /// What it is asked, and how its answer begins once it serves.
    pub(super) hello: (&'static str, &'static str),
}

/// A process that can be started again the way it was; dropping it kills it.
pub(super) struct Daemon {
    kind: &'static Kind,
    binary: PathBuf,
    addr: SocketAddr,
    folder: TempDir,
    child: Mutex<Option<Arc<Child>>>,
}

impl Daemon {
    pub(super) async fn start(kind: &'static Kind) -> Result<Self, Missing> {
        // Whatever a test emits, it does after it has a server.
        crate::recorder::recorder();
        let binary = find(kind)?;
        let mut log = String::new();
        for _ in 0..PORT_TRIES {
            let daemon = Self {
                kind,
                binary: binary.clone(),
                addr: ports::loopback(ports::free()),
                folder: folder::new(),
                child: Mutex::default(),
            };
            if daemon.launch().await {
                return Ok(daemon);
            }
            log = daemon.log();
        }
        panic!("{} does not come up:\n{log}", kind.program)
    }

    pub(super) fn addr(&self) -> SocketAddr {
        self.addr
    }

    async fn launch(&self) -> bool {
        let log = File::create(self.folder.path().join("log")).expect("an own folder");
        let mut command = Command::new(&self.binary);
        command
            .args((self.kind.arguments)(self.addr.port()))
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a file can be opened twice"))
            .stderr(log);
        let (child, _) = Child::spawn(command).expect("a program that was found starts");
        let child = Arc::new(child);
        *self.lock() = Some(Arc::clone(&child));
        let (question, answer) = self.kind.hello;
        let up = wait::poll(START_WITHIN, || async {
            if child.exit().is_some() {
                return Some(false);
            }
            let said = ask(self.addr, question.as_bytes()).await.ok()?;
            said.starts_with(answer).then_some(true)
        });
        up.await == Some(true) && child.exit().is_none()
    }

    /// Sends bytes over a connection of its own, and returns what it first says to them.
    pub(super) async fn say(&self, bytes: &[u8]) -> String {
        self.say_until(bytes, "").await
    }

    /// The same, with all that it says until `end` is in it.
    pub(super) async fn say_until(&self, bytes: &[u8], end: &str) -> String {
        let said = tokio::time::timeout(ANSWER_WITHIN, ask_until(self.addr, bytes, end)).await;
        said.expect("it answers").expect("it is there")
    }

    pub(super) async fn kill(&self) {
        let child = self.lock().take();
        if let Some(child) = child {
            child.kill().await;
        }
    }

    pub(super) async fn restart(&self) {
        assert!(
            self.launch().await,
            "it does not come back:\n{}",
            self.log()
        );
    }

    pub(super) async fn pause(&self) {
        self.running().pause().await;
    }

    pub(super) async fn resume(&self) {
        self.running().resume().await;
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    fn running(&self) -> Arc<Child> {
        self.lock()
            .clone()
            .expect("it was killed, and not restarted")
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Arc<Child>>> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn ask(addr: SocketAddr, question: &[u8]) -> io::Result<String> {
    ask_until(addr, question, "").await
}

async fn ask_until(addr: SocketAddr, question: &[u8], end: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect(addr).await?;
    stream.write_all(question).await?;
    let (mut said, mut part) = (String::new(), vec![0; 4096]);
    loop {
        let read = stream.read(&mut part).await?;
        said.push_str(&String::from_utf8_lossy(&part[..read]));
        if said.contains(end) {
            return Ok(said);
        }
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

/// The program that was named, or the one that is installed here.
fn find(kind: &Kind) -> Result<PathBuf, Missing> {
    let candidates = if let Some(named) = env::text(kind.variable) {
        vec![PathBuf::from(named)]
    } else {
        let places = ["/usr/sbin".into(), "/usr/local/bin".into()];
        let folders = env::path().into_iter().chain(places);
        folders.map(|folder| folder.join(kind.program)).collect()
    };
    let found = candidates.into_iter().find(|program| program.is_file());
    let remedy = format!("install one, or set {} to its path", kind.variable);
    found.ok_or_else(|| Missing::new(kind.missing, remedy))
}
