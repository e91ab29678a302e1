//! Where the workspace and its target folder are, and how cargo is called in it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use cargo_metadata::MetadataCommand;

use crate::env;
use crate::error::{Failure, Result};

/// The workspace that the current folder belongs to.
pub(crate) struct Workspace {
    /// The folder of the root `Cargo.toml`.
    pub(crate) root: PathBuf,
    /// The folder that cargo builds into.
    pub(crate) target: PathBuf,
}

impl Workspace {
    /// Asks cargo for the workspace around the current folder.
    ///
    /// # Errors
    /// `Missing` if cargo finds none, or cannot read its manifests.
    pub(crate) fn find() -> Result<Self> {
        let metadata = MetadataCommand::new().no_deps().exec().map_err(|cause| {
            Failure::Missing(format!("cargo cannot read this workspace: {cause}"))
        })?;
        Ok(Self {
            root: metadata.workspace_root.into(),
            target: metadata.target_directory.into(),
        })
    }

    /// A call of the cargo that runs this task, from the root of the workspace.
    pub(crate) fn cargo(&self) -> Command {
        // Cargo names itself to what it runs; so the toolchain stays the same one all the way.
        let cargo = env::value("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(cargo);
        command.current_dir(&self.root);
        for name in env::package_description() {
            command.env_remove(name);
        }
        command
    }

    /// A folder under the target folder, there and empty afterwards.
    ///
    /// # Errors
    /// `Missing` if it cannot be emptied or made.
    pub(crate) fn emptied(&self, name: &str) -> Result<PathBuf> {
        let folder = self.target.join(name);
        match fs::remove_dir_all(&folder) {
            Err(cause) if cause.kind() != io::ErrorKind::NotFound => {
                return Err(Failure::file("empty the folder", &folder, &cause));
            }
            _ => {}
        }
        self.folder(name)
    }

    /// A folder under the target folder, made if it is not there.
    ///
    /// # Errors
    /// `Missing` if it cannot be made.
    pub(crate) fn folder(&self, name: &str) -> Result<PathBuf> {
        let folder = self.target.join(name);
        fs::create_dir_all(&folder)
            .map_err(|cause| Failure::file("make the folder", &folder, &cause))?;
        Ok(folder)
    }

    /// A path as it reads from the root of the workspace.
    pub(crate) fn relative<'path>(&self, path: &'path Path) -> &'path Path {
        path.strip_prefix(&self.root).unwrap_or(path)
    }
}
