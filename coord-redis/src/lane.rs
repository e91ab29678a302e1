//! Sending commands: to the right node, within a deadline, and ending in one of the six kinds.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use coord_core::signals::Detail;
use coord_core::{Backoff, Error, ErrorKind, Result};
use redis::{RedisError, Value};
use tokio::runtime::Handle;
use tokio::time::Instant;

use crate::cluster::Cluster;
use crate::command::{Command, Receipt, Reply};
use crate::config::{Address, Config, Topology};
use crate::dial::Target;
use crate::error::{Failure, failure, final_error, passes, refused};
use crate::link::{Link, Live};
use crate::signals::{Loss, Purpose, Refusal, Signal};

/// Between two attempts at a node that refuses for the moment.
const RETRY: Backoff = Backoff::new(Duration::from_millis(10), Duration::from_millis(250));

/// Auto-pipelined connections that never subscribe: one to a server, one to each master of a
/// cluster.
#[derive(Clone)]
pub(crate) struct Lane {
    config: Arc<Config>,
    purpose: Purpose,
    route: Route,
}

#[derive(Clone)]
enum Route {
    Single(Link),
    Cluster(Cluster),
}

impl Lane {
    pub(crate) fn start(config: &Arc<Config>, purpose: Purpose, runtime: &Handle) -> Self {
        let route = match &config.topology {
            Topology::Cluster(seeds) => Route::Cluster(Cluster::start(
                Arc::clone(config),
                seeds.clone(),
                purpose,
                runtime,
            )),
            Topology::Standalone(_) | Topology::Sentinel { .. } => Route::Single(Link::start(
                Arc::clone(config),
                Target::Master,
                purpose,
                runtime,
            )),
        };
        Self {
            config: Arc::clone(config),
            purpose,
            route,
        }
    }

    /// Runs `command` and gives its reply, by `deadline`.
    pub(crate) async fn run(&self, command: &Command, deadline: Instant) -> Result<Reply> {
        let mut call = Call::new(self, command, deadline);
        loop {
            let (link, live) = call.ready().await?;
            match call.send(&link, &live).await? {
                Step::Done(reply) => return Ok(reply),
                Step::Again => {}
            }
        }
    }

    /// Runs `command` on the connection that carried `receipt`'s command, hence after it; the
    /// second value says whether it did, so that the reply settles what became of the other.
    pub(crate) async fn run_behind(
        &self,
        command: Command,
        receipt: &Receipt,
        deadline: Instant,
    ) -> Result<(Reply, bool)> {
        let own = Receipt::default();
        let reply = self.run(&command.receipt(&own), deadline).await?;
        Ok((reply, receipt.precedes(&own)))
    }

    /// Runs `command` on one master.
    pub(crate) async fn run_on(
        &self,
        link: &Link,
        command: &Command,
        deadline: Instant,
    ) -> Result<Reply> {
        let mut call = Call::new(self, command, deadline);
        loop {
            let live = link.ready(command.name, deadline).await?;
            match call.send(link, &live).await? {
                Step::Done(reply) => return Ok(reply),
                Step::Again => {}
            }
        }
    }

    /// The links to all masters, once they are known.
    pub(crate) async fn links(&self, command: &Command, deadline: Instant) -> Result<Vec<Link>> {
        match &self.route {
            Route::Single(link) => Ok(vec![link.clone()]),
            Route::Cluster(cluster) => {
                cluster.ready(None, command.name, deadline).await?;
                Ok(cluster.links())
            }
        }
    }

    /// The node that serves `slot` now, once it is connected.
    #[cfg(feature = "blocking")]
    pub(crate) async fn address(&self, slot: Option<u16>, deadline: Instant) -> Result<Address> {
        let what = "finding the node";
        Ok(match &self.route {
            Route::Single(link) => link.ready(what, deadline).await?.address.as_ref().clone(),
            Route::Cluster(cluster) => {
                let (_, live) = cluster.ready(slot, what, deadline).await?;
                live.address.as_ref().clone()
            }
        })
    }

    /// The node that a single link is connected to now; nothing on a cluster.
    pub(crate) fn current(&self) -> Option<Arc<Address>> {
        match &self.route {
            Route::Single(link) => link.live().map(|live| live.address),
            Route::Cluster(_) => None,
        }
    }

    /// The cluster behind this lane, if it is one.
    pub(crate) fn cluster(&self) -> Option<&Cluster> {
        match &self.route {
            Route::Single(_) => None,
            Route::Cluster(cluster) => Some(cluster),
        }
    }

    /// Closes all connections; calls under way end.
    pub(crate) fn close(&self) {
        match &self.route {
            Route::Single(link) => link.close(),
            Route::Cluster(cluster) => cluster.close(),
        }
    }
}

enum Step {
    Done(Reply),
    Again,
}

/// One call on its way: what has been tried, and whether it may have been executed already.
struct Call<'a> {
    lane: &'a Lane,
    command: &'a Command,
    deadline: Instant,
    attempt: u32,
    /// Send the script whole.
    whole: bool,
    /// The node that an `ASK` named, for the next attempt only.
    ask: Option<Address>,
    /// An earlier attempt may have been executed.
    unknown: bool,
}

impl<'a> Call<'a> {
    fn new(lane: &'a Lane, command: &'a Command, deadline: Instant) -> Self {
        Self {
            lane,
            command,
            deadline,
            attempt: 0,
            whole: false,
            ask: None,
            unknown: false,
        }
    }

    async fn ready(&self) -> Result<(Cow<'a, Link>, Live)> {
        let what = self.command.name;
        let ready = match &self.lane.route {
            Route::Single(link) => {
                let live = link.ready(what, self.deadline).await;
                live.map(|live| (Cow::Borrowed(link), live))
            }
            Route::Cluster(cluster) => {
                let ready = match &self.ask {
                    Some(address) => {
                        let link = cluster.node(address);
                        let live = link.ready(what, self.deadline).await;
                        live.map(|live| (link, live))
                    }
                    None => cluster.ready(self.command.slot, what, self.deadline).await,
                };
                ready.map(|(link, live)| (Cow::Owned(link), live))
            }
        };
        ready.map_err(|error| self.settled(error))
    }

    /// Sends once. An error is final; `Again` says that the call may be tried anew.
    async fn send(&mut self, link: &Link, live: &Live) -> Result<Step> {
        if !live.is_open() {
            return Ok(Step::Again);
        }
        if let Some(receipt) = &self.command.receipt {
            receipt.note(live.number);
        }
        let asking = self.ask.take().is_some();
        let sending = self.transmit(live, asking);
        let Ok(answer) = tokio::time::timeout_at(self.deadline, sending).await else {
            return Err(self.unanswered(link, live));
        };
        let error = match answer.and_then(Reply::from_value) {
            Ok(reply) => return Ok(Step::Done(reply)),
            Err(error) => error,
        };
        match failure(&error, self.command.script.is_some()) {
            Failure::Unanswered => Err(self.unanswered(link, live)),
            Failure::UnknownScript if !self.whole => {
                Signal::ScriptSent {
                    script: Detail::new(self.command.name),
                }
                .emit();
                self.whole = true;
                Ok(Step::Again)
            }
            Failure::Refused(Refusal::NotPermitted)
                if self.command.script.is_some() && !self.whole =>
            {
                // The ACL may know EVAL only.
                self.whole = true;
                Ok(Step::Again)
            }
            Failure::Elsewhere { address, once, .. } => {
                let Some(cluster) = self.lane.cluster() else {
                    let at = self.at(&live.address);
                    let message =
                        format!("{at}: it is part of a cluster; give a redis+cluster:// URL");
                    return Err(Error::invalid(message).with_source(error));
                };
                if once {
                    self.ask = Some(address);
                } else {
                    cluster.moved(self.command.slot, &address);
                }
                self.pause_for(error, &live.address, Refusal::ClusterDown)
                    .await
            }
            Failure::Refused(refusal) => {
                if refusal == Refusal::ReadOnly {
                    link.report(live.number, Loss::ReadOnly);
                }
                if let Some(cluster) = self.lane.cluster() {
                    cluster.refresh();
                }
                if self.attempt == 0 {
                    let command = Detail::new(self.command.name);
                    let address = Detail::new(&live.address);
                    Signal::CommandRefused {
                        cause: refusal,
                        command,
                        address,
                    }
                    .emit();
                }
                self.pause_for(error, &live.address, refusal).await
            }
            Failure::Dropped if self.command.idempotent => {
                self.unknown = true;
                self.pause(error, |call, error| call.dropped(&live.address, error))
                    .await
            }
            Failure::Dropped => Err(self.dropped(&live.address, error)),
            Failure::UnknownScript => {
                Err(Error::unavailable(self.at(&live.address)).with_source(error))
            }
            Failure::Final(kind) => {
                Err(self.settled(final_error(kind, self.at(&live.address), error)))
            }
        }
    }

    async fn transmit(&self, live: &Live, asking: bool) -> Result<Value, RedisError> {
        let mut connection = live.connection.clone();
        let whole = match self.command.script {
            Some(script) if self.whole => Some(self.command.with_source(script)),
            _ => None,
        };
        let cmd = whole.as_ref().unwrap_or(&self.command.cmd);
        if !asking {
            return connection.send_packed_command(cmd).await;
        }
        let mut pipeline = redis::pipe();
        pipeline.cmd("ASKING").ignore().add_command(cmd.clone());
        let mut replies = connection.send_packed_commands(&pipeline, 1, 1).await?;
        Ok(replies.pop().unwrap_or_default())
    }

    async fn pause_for(
        &mut self,
        error: RedisError,
        address: &Address,
        refusal: Refusal,
    ) -> Result<Step> {
        if !passes(refusal) {
            return Err(self.settled(refused(refusal, self.command.name, address, error)));
        }
        self.pause(error, |call, error| {
            call.settled(refused(refusal, call.command.name, address, error))
        })
        .await
    }

    /// Waits before the next attempt; gives up with `error` when the deadline is nearer.
    async fn pause(
        &mut self,
        error: RedisError,
        give_up: impl FnOnce(&Self, RedisError) -> Error,
    ) -> Result<Step> {
        let delay = RETRY.jittered(self.attempt);
        self.attempt += 1;
        if Instant::now() + delay >= self.deadline {
            return Err(give_up(self, error));
        }
        tokio::time::sleep(delay).await;
        Ok(Step::Again)
    }

    fn unanswered(&self, link: &Link, live: &Live) -> Error {
        let (purpose, command) = (self.lane.purpose, Detail::new(self.command.name));
        Signal::CommandTimeout { purpose, command }.emit();
        if matches!(self.lane.config.topology, Topology::Sentinel { .. }) {
            // A master that was paused may have been replaced; what it still acknowledges is lost.
            link.report(live.number, Loss::Silent);
        }
        Error::timeout(format!(
            "{}: no answer within the deadline",
            self.at(&live.address)
        ))
    }

    fn dropped(&self, address: &Address, source: RedisError) -> Error {
        Error::timeout(format!(
            "{}: the connection ended before the reply",
            self.at(address)
        ))
        .with_source(source)
    }

    /// What was refused or never sent is still unknown when an earlier attempt may have run.
    fn settled(&self, error: Error) -> Error {
        if self.unknown && error.kind() == ErrorKind::Unavailable {
            return Error::timeout(format!(
                "{}: an earlier attempt may have been executed",
                self.command.name
            ))
            .with_source(error);
        }
        error
    }

    fn at(&self, address: &Address) -> String {
        format!("{} at {address}", self.command.name)
    }
}
