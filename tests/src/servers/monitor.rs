//! What a server was asked, in its own words.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::task::JoinSet;

use super::admin::Admin;
use crate::{
    need::unique,
    resp::{Connection, Resp, Result},
    wait,
};

/// The server writes to its monitors before it answers.
const SEEN_WITHIN: Duration = Duration::from_secs(10);

/// Collects the lines of `MONITOR` from the moment [`RedisServer::monitor`] returned.
///
/// [`RedisServer::monitor`]: super::RedisServer::monitor
pub struct Monitor {
    admin: Admin,
    lines: Arc<Mutex<Vec<String>>>,
    // Ends the collecting when the handle goes.
    _collector: JoinSet<()>,
}

impl Monitor {
    pub(super) async fn start(admin: &Admin) -> Result<Self> {
        let mut connection = admin.connect().await?;
        connection.command(&["MONITOR"]).await?;
        let lines = Arc::default();
        let mut collector = JoinSet::new();
        collector.spawn(collect(connection, Arc::clone(&lines)));
        Ok(Self {
            admin: admin.clone(),
            lines,
            _collector: collector,
        })
    }

    /// Everything the server executed until now, in order, as
    /// `1339518083.107412 [0 127.0.0.1:60866] "keys" "*"`.
    ///
    /// Commands that this handle itself sends are left out.
    ///
    /// # Errors
    /// When the server does not answer.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn lines(&self) -> Result<Vec<String>> {
        let mark = unique("monitor-mark");
        self.admin.command(&["ECHO", &mark]).await?;
        wait::eventually(SEEN_WITHIN, "the monitor sees its own mark", || async {
            self.so_far().iter().any(|line| line.contains(&mark))
        })
        .await;
        let mut lines = self.so_far();
        lines.retain(|line| !line.contains("monitor-mark") && !line.contains("\"AUTH\""));
        Ok(lines)
    }

    /// The [`lines`](Self::lines) that contain `text`.
    ///
    /// # Errors
    /// When the server does not answer.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn lines_with(&self, text: &str) -> Result<Vec<String>> {
        let mut lines = self.lines().await?;
        lines.retain(|line| line.contains(text));
        Ok(lines)
    }

    fn so_far(&self) -> Vec<String> {
        self.lines
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

async fn collect(mut connection: Connection, lines: Arc<Mutex<Vec<String>>>) {
    while let Ok(Resp::Simple(line)) = connection.next().await {
        lines
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(line);
    }
}
