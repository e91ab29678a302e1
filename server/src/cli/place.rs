//! Where commands find what they look at.

use std::path::Path;

use coord_core::{Env, Result};
use coord_engine::client::Client;
use coord_engine::model::{Namespace, Queue};
use coord_engine::{Engine, EngineConfig};

use super::Common;
use super::exit::Failure;

/// An engine that looks and commands, and takes no part in the work.
pub(super) struct Visit {
    engine: Engine,
    config: EngineConfig,
}

/// The environment, with what the flags say in its place.
pub(super) fn env(common: &Common) -> Env {
    let mut env = Env::process();
    if let Some(url) = &common.database {
        env = env.with("DATABASE_URL", url);
    }
    if let Some(namespace) = &common.namespace {
        env = env.with("DW_V2_NAMESPACE", namespace.as_str());
    }
    env
}

/// What the environment and the flags say; the flags win.
pub(super) fn config(common: &Common) -> Result<EngineConfig> {
    EngineConfig::from_env(&env(common))
}

impl Visit {
    pub(super) async fn begin(common: &Common) -> Result<Self, Failure> {
        let config = config(common)?;
        if let Some(file) = missing_file(&config) {
            return Err(Failure::Missing(format!(
                "there is no database at {file}: `coord migrate` makes one"
            )));
        }
        let engine = config.builder()?.visit().await?;
        Ok(Self { engine, config })
    }

    pub(super) const fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The client of the namespace, for `queue` or the one that the environment says.
    pub(super) fn client(&self, queue: Option<&Queue>) -> Client {
        let queue = queue.unwrap_or(&self.config.queue).clone();
        self.engine.client(self.config.namespace.clone(), queue)
    }

    /// The namespace that the flags or the environment say.
    pub(super) const fn namespace(&self) -> &Namespace {
        &self.config.namespace
    }

    /// The queue that the environment says.
    pub(super) const fn queue(&self) -> &Queue {
        &self.config.queue
    }

    /// Ends, once what others should know was told.
    pub(super) async fn end(self) -> Result<()> {
        self.engine.shutdown().await
    }
}

/// The file of a database that would be made by looking for it.
fn missing_file(config: &EngineConfig) -> Option<String> {
    let effective = config.effective();
    let value = |name: &str| {
        let row = effective
            .iter()
            .find(|row| row.name == name && row.is_set());
        row.map(|row| row.value.as_str())
    };
    let place = match value("DATABASE_URL") {
        Some(url) => url.strip_prefix("sqlite:")?,
        None if value("DB_CONNECTION") == Some("sqlite") => value("DB_DATABASE")?,
        None => return None,
    };
    let file = place.strip_prefix("//").unwrap_or(place);
    let file = file.split_once('?').map_or(file, |(file, _)| file);
    let is_missing = file != ":memory:" && !Path::new(file).exists();
    is_missing.then(|| file.to_owned())
}
