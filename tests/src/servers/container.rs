//! A server as a container, for a machine with an engine and without a binary.
//!
//! What a container cannot do, [`limits`] says: its files and its neighbours are elsewhere.

use std::net::SocketAddr;
use std::time::Duration;

use testcontainers_modules::{
    redis::Redis,
    testcontainers::{
        ContainerAsync, ImageExt, TestcontainersError,
        core::{IntoContainerPort, error::ClientError},
        runners::AsyncRunner,
    },
};

use super::{RedisBuilder, admin::Admin, process::Failure};
use crate::{need::Missing, wait};

/// The oldest series that is still maintained and knows every option the harness gives.
const TAG: &str = "7.2-alpine";
/// A started container answers soon after; fetching its image comes before.
const ANSWERS_WITHIN: Duration = Duration::from_mins(1);
/// Enough for a server with nothing to save.
const GRACE_SECONDS: i32 = 10;

pub(super) struct Container {
    container: ContainerAsync<Redis>,
    admin: Admin,
}

impl Container {
    /// Creates and starts one that listens on the port of `admin`, inside and outside.
    pub(super) async fn new(admin: Admin, args: Vec<String>) -> Result<Self, Failure> {
        let port = admin.addr.port();
        let image = Redis::default()
            .with_tag(TAG)
            .with_mapped_port(port, port.tcp())
            .with_cmd(args)
            .with_startup_timeout(ANSWERS_WITHIN);
        let container = image.start().await.map_err(|error| failure(&error))?;
        let host = container
            .get_host()
            .await
            .map_err(|error| failure(&error))?;
        let addr = address(&host.to_string(), port).await?;
        let admin = Admin { addr, ..admin };
        Ok(Self { container, admin })
    }

    /// Where it answers, which is another machine than this one where the engine is.
    pub(super) fn admin(&self) -> &Admin {
        &self.admin
    }

    /// Starts it if it was stopped.
    pub(super) async fn launch(&self) -> Result<(), Failure> {
        if !self
            .container
            .is_running()
            .await
            .map_err(|error| failure(&error))?
        {
            self.container
                .start()
                .await
                .map_err(|error| failure(&error))?;
        }
        let up = wait::poll(ANSWERS_WITHIN, || async {
            self.admin.info("run_id").await.ok()
        });
        match up.await {
            Some(_) => Ok(()),
            None => Err(Failure::Refused(self.log().await)),
        }
    }

    /// As near to SIGKILL as an engine comes: it asks first, and does not wait for the answer.
    pub(super) async fn kill(&self) {
        if self
            .container
            .is_running()
            .await
            .expect("the engine answers")
        {
            self.container
                .stop_with_timeout(Some(0))
                .await
                .expect("a container can be killed");
        }
    }

    pub(super) async fn stop(&self) {
        let stopped = self.container.stop_with_timeout(Some(GRACE_SECONDS)).await;
        stopped.expect("a container that runs can be stopped");
    }

    pub(super) async fn pause(&self) {
        self.container
            .pause()
            .await
            .expect("a container that runs can be paused");
    }

    pub(super) async fn resume(&self) {
        self.container
            .unpause()
            .await
            .expect("a paused container can be resumed");
    }

    pub(super) async fn log(&self) -> String {
        let log = self.container.stdout_to_vec().await.unwrap_or_default();
        String::from_utf8_lossy(&log).into_owned()
    }
}

/// The engine's name may stand for the IPv6 address too, on which the port may be another one's.
async fn address(host: &str, port: u16) -> Result<SocketAddr, Failure> {
    let found = tokio::net::lookup_host((host, port)).await;
    let found = found.ok().and_then(|mut all| all.find(SocketAddr::is_ipv4));
    found.ok_or_else(|| Failure::Refused(format!("the engine's host {host} has no address")))
}

/// What a container cannot do of what `builder` asks for.
pub(super) fn limits(builder: &RedisBuilder) -> Result<(), Missing> {
    let beyond = [
        (!builder.tls_names.is_empty(), "Redis with TLS"),
        (builder.loads_for.is_some(), "a Redis that is loading"),
        (builder.master.is_some(), "a Redis replica"),
        (builder.bus, "a Redis Cluster"),
        (builder.sentinel.is_some(), "Redis Sentinel"),
    ];
    match beyond.iter().find(|(asked, _)| *asked) {
        None => Ok(()),
        Some((_, what)) => Err(Missing::new(
            *what,
            "a container does not share the files and the loopback addresses this takes, install \
             a redis-server or valkey-server",
        )),
    }
}

fn failure(error: &TestcontainersError) -> Failure {
    let text = format!("{error:?}");
    if matches!(error, TestcontainersError::Client(ClientError::Init(_))) {
        let remedy = "start one, or install a redis-server or valkey-server";
        Failure::Missing(Missing::new("a container engine that answers", remedy))
    } else if text.contains("already allocated") || text.contains("already in use") {
        Failure::PortTaken
    } else {
        Failure::Refused(text)
    }
}
