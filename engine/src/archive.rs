//! Histories of closed runs, kept elsewhere and removed here.
//!
//! A history is what a closed run costs. It can leave long before the retention of its run ends: an
//! [`Archive`] takes it as a [`History`], the same document as
//! [`Handle::export`](crate::client::Handle::export) gives, and once it has said that it keeps it,
//! the events, messages and failed attempts are removed here. The run stays, with its result and
//! what it is found and described by, until its retention ends;
//! [`describe`](crate::client::Handle::describe) says since when its history is elsewhere, and where.
//!
//! Nothing is removed before the archive has said so, nor when what is here is not what was handed
//! over. A pass that ends in the middle goes on with the next one; what was handed over and not yet
//! removed is handed over once more, so an archive takes the same history twice without harm.

mod folder;
mod pass;

pub use folder::Folder;
pub(crate) use pass::{Candidates, archive_one, events_of, pass};

use crate::model::{History, Namespace};
use crate::store::Reply;

/// Where histories are kept: a folder, a bucket, whatever keeps a document under a name.
pub trait Archive: Send + Sync + 'static {
    /// Keeps `history` of `namespace`, and says where once it is safe. The same history comes again
    /// when the answer was lost: it is to be taken as if it came for the first time.
    ///
    /// # Errors
    /// `Invalid` for one that is never taken: it stays here, and the pass goes on with the others.
    /// With any other kind the pass ends, and the next one begins with this history.
    fn keep<'a>(&'a self, namespace: &'a Namespace, history: &'a History) -> Reply<'a, String>;
}

/// What a pass has done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize)]
#[non_exhaustive]
pub struct Handed {
    /// Runs whose history is now kept elsewhere.
    pub archived: u64,
    /// Runs whose history does not read or was not taken: it stays here.
    pub failed: u64,
}
