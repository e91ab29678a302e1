//! One own server.

use std::{net::SocketAddr, path::Path, time::Duration};

use super::{
    RedisBuilder,
    admin::Admin,
    binary::{self, Binary},
    monitor::Monitor,
    process::{Failure, Process},
    tls::{self, Tls},
};
use crate::{
    need::Missing,
    ports,
    resp::{Connection, Resp, Result},
    wait::{self, eventually},
};

/// Losing this many races for a port in a row means that something else is wrong.
const PORT_TRIES: u32 = 8;
/// What a test keeps in a server is loaded and replicated at once.
const USABLE_WITHIN: Duration = Duration::from_secs(20);
/// Enough for a delay of milliseconds each, which a server keeps to well.
const KEYS_TO_LOAD: u32 = 400;

/// An own Redis or Valkey server; dropping it kills it.
pub struct RedisServer {
    process: Process,
    tls: Option<Tls>,
    loads: bool,
    replicates: bool,
}

impl RedisServer {
    /// Starts a server with the defaults of [`RedisBuilder`].
    ///
    /// # Errors
    /// [`Missing`] when the machine has no server.
    ///
    /// # Cancel safety
    /// Safe: a server that nobody gets is killed.
    pub async fn start() -> std::result::Result<Self, Missing> {
        Self::builder().start().await
    }

    /// Describes a server that is not like the default one.
    pub fn builder() -> RedisBuilder {
        RedisBuilder::default()
    }

    pub(super) async fn from_builder(builder: RedisBuilder) -> std::result::Result<Self, Missing> {
        let binary = binary::find()?;
        for _ in 0..PORT_TRIES {
            let server = Self::prepare(&builder, binary);
            match server.launch(&builder).await {
                Ok(server) => return Ok(server),
                Err(Failure::PortTaken) => {}
                Err(Failure::Refused(log)) => {
                    panic!("{} does not come up:\n{log}", binary.path.display())
                }
            }
        }
        panic!(
            "no port for {} in {PORT_TRIES} tries",
            binary.path.display()
        )
    }

    fn prepare(builder: &RedisBuilder, binary: &Binary) -> Self {
        let folder = tempfile::Builder::new().prefix("coord-redis-").tempdir();
        let folder = folder.expect("the folder for temporary files can be written");
        let port = builder.port.unwrap_or_else(ports::free);
        let admin = Admin {
            addr: ports::loopback(port),
            password: builder.password.clone(),
        };
        let mut process = Process::new(binary.path.clone(), admin, folder);
        process.args = defaults(port, binary);
        if let Some(password) = &builder.password {
            process
                .args
                .extend(["--requirepass".to_owned(), password.clone()]);
        }
        if let Some(master) = &builder.master {
            process.args.extend(replication(master));
        }
        let tls = (!builder.tls_names.is_empty()).then(|| {
            let (tls, args) = tls::arguments(process.folder(), ports::free(), &builder.tls_names);
            process.args.extend(args);
            tls
        });
        process.args.extend(builder.args.iter().cloned());
        let replicates = builder.master.is_some();
        Self {
            process,
            tls,
            loads: builder.loads_for.is_some(),
            replicates,
        }
    }

    async fn launch(mut self, builder: &RedisBuilder) -> std::result::Result<Self, Failure> {
        self.process.launch().await?;
        if let Some(time) = builder.loads_for {
            self.fill().await.expect("a fresh server takes data");
            self.process.stop().await;
            self.process.args.extend(slow_loading(time));
            self.process.launch().await?;
        }
        self.usable().await;
        Ok(self)
    }

    /// Where the server listens.
    pub fn addr(&self) -> SocketAddr {
        self.admin().addr
    }

    /// The port of [`addr`](Self::addr).
    pub fn port(&self) -> u16 {
        self.addr().port()
    }

    /// `redis://127.0.0.1:port`, with the password of the default user if it has one.
    pub fn url(&self) -> String {
        match &self.admin().password {
            Some(password) => self.url_as("", password),
            None => format!("redis://{}", self.addr()),
        }
    }

    /// The URL for a user of [`RedisBuilder::user`]. Nothing in it is escaped.
    pub fn url_as(&self, user: &str, password: &str) -> String {
        format!("redis://{user}:{password}@{}", self.addr())
    }

    /// `rediss://localhost:port` of a server with [`RedisBuilder::tls`].
    pub fn tls_url(&self) -> String {
        let user = self
            .admin()
            .password
            .as_ref()
            .map(|password| format!(":{password}@"));
        format!(
            "rediss://{}localhost:{}",
            user.unwrap_or_default(),
            self.tls_port()
        )
    }

    /// The port that speaks TLS.
    pub fn tls_port(&self) -> u16 {
        self.with_tls().port
    }

    /// The certificate (PEM) of the authority that vouches for [`tls_url`](Self::tls_url).
    pub fn ca_path(&self) -> &Path {
        &self.with_tls().ca
    }

    fn with_tls(&self) -> &Tls {
        self.tls.as_ref().expect("the server was built with `tls`")
    }

    /// The id of the running process.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// What the server wrote to its log since it was last started.
    pub fn log(&self) -> String {
        self.process.log()
    }

    /// A connection of the default user for commands that belong together.
    ///
    /// # Errors
    /// When nobody answers.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn connect(&self) -> Result<Connection> {
        self.admin().connect().await
    }

    /// Sends one command as the default user, on a connection of its own.
    ///
    /// # Errors
    /// When the server refuses it, or does not answer within ten seconds.
    ///
    /// # Cancel safety
    /// A dropped command may have been executed.
    pub async fn command(&self, words: &[&str]) -> Result<Resp> {
        self.admin().command(words).await
    }

    /// One field of `INFO everything`.
    ///
    /// # Errors
    /// When the server does not answer, or has no such field.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn info(&self, field: &str) -> Result<String> {
        self.admin().info(field).await
    }

    /// Starts to collect what the server is asked.
    ///
    /// # Errors
    /// When the server does not answer.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn monitor(&self) -> Result<Monitor> {
        Monitor::start(self.admin()).await
    }

    /// SIGKILL. The process has ended, and its port refuses, when this returns.
    ///
    /// # Cancel safety
    /// Safe: the signal has been sent.
    pub async fn kill(&self) {
        self.process.kill().await;
    }

    /// SIGTERM, on which a server says farewell to its clients and replicas.
    ///
    /// # Panics
    /// When the server is not running, or paused.
    ///
    /// # Cancel safety
    /// Safe: the signal has been sent.
    pub async fn stop(&self) {
        self.process.stop().await;
    }

    /// Starts the server on the same port in the same way, after killing the one that runs.
    ///
    /// Its data is gone unless it is [`RedisBuilder::durable`].
    ///
    /// # Panics
    /// When it does not come up.
    ///
    /// # Cancel safety
    /// The server may be down or up; another call brings it up.
    pub async fn restart(&self) {
        self.process.kill().await;
        let up = wait::poll(USABLE_WITHIN, || async {
            match self.process.launch().await {
                Ok(()) => Some(()),
                Err(Failure::PortTaken) => None,
                Err(Failure::Refused(log)) => panic!("the server does not come up again:\n{log}"),
            }
        });
        up.await.expect("the server's own port becomes free");
        self.usable().await;
    }

    /// SIGSTOP: the kernel goes on accepting connections and bytes, nobody answers.
    ///
    /// # Cancel safety
    /// Safe: the signal has been sent.
    pub async fn pause(&self) {
        self.process.pause().await;
    }

    /// SIGCONT.
    ///
    /// # Cancel safety
    /// Safe: the signal has been sent.
    pub async fn resume(&self) {
        self.process.resume().await;
    }

    /// Has a server of [`RedisBuilder::loading_for`] load the rest without delay, and waits for it.
    ///
    /// # Errors
    /// When the server does not answer.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn finish_loading(&self) -> Result<()> {
        self.command(&["CONFIG", "SET", "key-load-delay", "0"])
            .await?;
        self.info_becomes("loading", "0").await;
        Ok(())
    }

    pub(super) fn admin(&self) -> &Admin {
        &self.process.admin
    }

    async fn usable(&self) {
        if !self.loads {
            self.info_becomes("loading", "0").await;
        }
        if self.replicates {
            self.info_becomes("master_link_status", "up").await;
        }
    }

    async fn info_becomes(&self, field: &str, value: &str) {
        eventually(USABLE_WITHIN, &format!("{field} is {value}"), || async {
            self.info(field).await.is_ok_and(|now| now == value)
        })
        .await;
    }

    /// Leaves a dump that takes a while to load.
    async fn fill(&self) -> Result<()> {
        const SCRIPT: &str = "for i = 1, tonumber(ARGV[1]) do \
            redis.call('SET', 'loaded-' .. i, string.rep('x', 2048)) end";
        self.command(&["EVAL", SCRIPT, "0", &KEYS_TO_LOAD.to_string()])
            .await?;
        self.command(&["SAVE"]).await?;
        Ok(())
    }
}

fn defaults(port: u16, binary: &Binary) -> Vec<String> {
    let port = port.to_string();
    let mut args = vec![
        "--bind",
        "127.0.0.1",
        "--port",
        &port,
        "--save",
        "",
        "--appendonly",
        "no",
    ];
    // A replica is in sync at once, and the dump for `loading_for` is as long as its data.
    args.extend(["--repl-diskless-sync-delay", "0", "--rdbcompression", "no"]);
    // Older servers do not know the option and always have DEBUG.
    if binary.major >= 7 {
        args.extend(["--enable-debug-command", "local"]);
    }
    args.into_iter().map(str::to_owned).collect()
}

fn replication(master: &Admin) -> Vec<String> {
    let (ip, port) = (master.addr.ip().to_string(), master.addr.port().to_string());
    let mut args = vec!["--replicaof".to_owned(), ip, port];
    if let Some(password) = &master.password {
        args.extend(["--masterauth".to_owned(), password.clone()]);
    }
    args
}

fn slow_loading(time: Duration) -> Vec<String> {
    let micros = (time / KEYS_TO_LOAD).as_micros().to_string();
    // Between any two keys the server looks at its connections, and says that it is loading.
    [
        "--key-load-delay",
        &micros,
        "--loading-process-events-interval-bytes",
        "1024",
    ]
    .map(str::to_owned)
    .to_vec()
}

#[cfg(test)]
mod tests;
