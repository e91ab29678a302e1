//! What shows single processes another time: libfaketime, for tests of nodes whose clocks differ.

use std::path::{Path, PathBuf};

use super::{Gap, Provided};
use crate::apt;
use crate::env;
use crate::error::{Failure, Result};
use crate::interrupt::Interrupts;
use crate::workspace::Workspace;

/// Where the tests find it.
const LIBRARY: &str = "COORD_TEST_FAKETIME";

pub(super) const VARIABLES: &[&str] = &[LIBRARY];

const PACKAGE: &str = "libfaketime";

/// Below a folder of libraries, which Debian has one of for each kind of processor.
const PLACE: &str = "faketime/libfaketime.so.1";

const FOLDERS: [&str; 3] = ["/usr/lib", "/usr/lib64", "/usr/local/lib"];

const WAYS: &[&str] = &[
    "install libfaketime (Debian and Ubuntu: apt-get install libfaketime)",
    "set COORD_TEST_FAKETIME to the path of libfaketime.so.1",
];

/// Finds libfaketime, or installs it.
///
/// # Errors
/// `Interrupted`, or a variable that does not read. Without the library the tests that need it skip
/// themselves.
pub(super) fn provide(workspace: &Workspace, interrupts: &mut Interrupts) -> Result<Provided> {
    let mut provided = Provided::default();
    let mut tried = Vec::new();
    if let Some(named) = env::text(LIBRARY)? {
        return Ok(found(provided, Path::new(&named), "where you said"));
    }
    if let Some(library) = library() {
        return Ok(found(provided, &library, "installed here"));
    }
    tried.push(format!("no {PLACE} below {}", FOLDERS.join(", ")));
    let got = match apt::available() {
        Ok(()) => apt::install(PACKAGE, workspace, interrupts),
        Err(reason) => Err(Failure::Missing(reason.to_owned())),
    };
    match got {
        Ok(()) => match library() {
            Some(library) => return Ok(found(provided, &library, "installed for it")),
            None => tried.push(format!("the package {PACKAGE} has no {PLACE}")),
        },
        Err(Failure::Missing(reason)) => tried.push(reason),
        Err(failure) => return Err(failure),
    }
    provided.partial.push(Gap {
        what: "libfaketime, for the tests of nodes whose clocks differ",
        tried,
        ways: WAYS,
    });
    Ok(provided)
}

fn found(mut provided: Provided, library: &Path, how: &str) -> Provided {
    let said = format!("clocks are set apart by {}, {how}", library.display());
    provided.found.push(said);
    provided.set.push((LIBRARY, library.as_os_str().to_owned()));
    provided
}

/// The library, in a folder or in the one that it has for this kind of processor.
fn library() -> Option<PathBuf> {
    FOLDERS.iter().find_map(|folder| {
        let folder = Path::new(folder);
        let below = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let folders = std::iter::once(folder.to_owned()).chain(below.map(|entry| entry.path()));
        folders
            .map(|folder| folder.join(PLACE))
            .find(|path| path.is_file())
    })
}
