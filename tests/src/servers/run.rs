//! How a server runs: as a child process, or as a container where there is no binary.

use std::fs;

#[cfg(feature = "docker")]
use super::container::Container;
use super::process::{Failure, Process};
use crate::need::Missing;

pub(super) enum Run {
    Process(Process),
    #[cfg(feature = "docker")]
    Container(Box<Container>),
}

impl Run {
    /// Starts it, again in the same way, and waits until it answers.
    pub(super) async fn launch(&self) -> Result<(), Failure> {
        match self {
            Self::Process(process) => process.launch().await,
            #[cfg(feature = "docker")]
            Self::Container(container) => container.launch().await,
        }
    }

    pub(super) async fn kill(&self) {
        match self {
            Self::Process(process) => process.kill().await,
            #[cfg(feature = "docker")]
            Self::Container(container) => container.kill().await,
        }
    }

    pub(super) async fn stop(&self) {
        match self {
            Self::Process(process) => process.stop().await,
            #[cfg(feature = "docker")]
            Self::Container(container) => container.stop().await,
        }
    }

    pub(super) async fn pause(&self) {
        match self {
            Self::Process(process) => process.pause().await,
            #[cfg(feature = "docker")]
            Self::Container(container) => container.pause().await,
        }
    }

    pub(super) async fn resume(&self) {
        match self {
            Self::Process(process) => process.resume().await,
            #[cfg(feature = "docker")]
            Self::Container(container) => container.resume().await,
        }
    }

    /// Takes its folder away, with all that it would write there.
    #[cfg_attr(
        not(feature = "docker"),
        expect(
            clippy::unnecessary_wraps,
            reason = "the folder of a container is out of reach"
        )
    )]
    pub(super) fn lose_folder(&self) -> Result<(), Missing> {
        match self {
            Self::Process(process) => {
                fs::remove_dir_all(process.folder()).expect("an own folder can be removed");
                Ok(())
            }
            #[cfg(feature = "docker")]
            Self::Container(_) => Err(Missing::new(
                "a Redis whose folder can be taken away",
                "a container keeps its own, install a redis-server or valkey-server",
            )),
        }
    }

    #[cfg_attr(
        not(feature = "docker"),
        expect(
            clippy::unused_async,
            reason = "an engine is asked for the log of a container"
        )
    )]
    pub(super) async fn log(&self) -> String {
        match self {
            Self::Process(process) => process.log(),
            #[cfg(feature = "docker")]
            Self::Container(container) => container.log().await,
        }
    }
}
