//! Many entries at once: one call a slot, or in parts that the server does not feel.

use std::collections::HashMap;
use std::sync::Arc;

use coord_core::{Error, Name, Result};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};

use crate::cache::{Cache, Changing};
use crate::entry::Found;
use crate::scripts;

/// The most entries in one call: some hundred microseconds of the server's time.
const ENTRIES: usize = 256;

/// The most bytes in one call that writes: as long as one large value takes.
const BYTES: usize = 1 << 20;

/// The most calls under way: a cluster has one for nearly every entry.
const CALLS: usize = 64;

impl<T: Send + Sync + 'static> Cache<T> {
    /// Stores the values, each as [`set`](Self::set) does: one call, or on a cluster one a slot,
    /// all at once; more than 256 values or 1 MiB go in several.
    ///
    /// # Errors
    /// As [`set`](Self::set), of the first call that fails: some values may be stored then.
    /// `Invalid` before any is.
    ///
    /// # Cancel safety
    /// Safe to call again. A dropped call may have stored some.
    pub async fn set_many(&self, values: &[(Name, T)]) -> Result<()> {
        let names: Vec<_> = values.iter().map(|(name, _)| name.clone()).collect();
        let _changing = Changing(self.shared(), &names);
        let entries = values.iter().map(|(_, value)| self.encode(value));
        let entries = entries.collect::<Result<Vec<_>>>()?;
        let calls = self.parts(&names, |index| entries[index].0.len());
        let shared = self.shared();
        let sent = stream::iter(calls).map(|part| {
            let keys: Vec<_> = part
                .iter()
                .map(|index| shared.entries.key(&names[*index]))
                .collect();
            let part: Vec<_> = part.iter().map(|index| entries[*index].clone()).collect();
            let command = scripts::set_many(&keys.iter().collect::<Vec<_>>(), &part);
            async move { shared.entries.redis.run(&command).await }
        });
        sent.buffer_unordered(CALLS)
            .try_for_each(|_| async { Ok(()) })
            .await
    }

    /// What Redis has of these names, in their order.
    pub(crate) async fn get_all(&self, names: &[Name]) -> Result<Vec<Option<Arc<T>>>> {
        let entries = &self.shared().entries;
        let mut values = vec![None; names.len()];
        let calls = stream::iter(self.parts(names, |_| 0)).map(|part| async move {
            let asked: Vec<_> = part.iter().map(|index| names[*index].clone()).collect();
            let found = entries.read_many(&asked).await?;
            Ok::<_, Error>((part, found))
        });
        let mut calls = calls.buffer_unordered(CALLS);
        while let Some((part, found)) = calls.try_next().await? {
            for (index, found) in part.into_iter().zip(found) {
                values[index] = found.and_then(Found::fresh);
            }
        }
        Ok(values)
    }

    /// The indices of names that may share a call.
    fn parts(&self, names: &[Name], bytes: impl Fn(usize) -> usize) -> Vec<Vec<usize>> {
        let entries = &self.shared().entries;
        let mut done = Vec::new();
        let mut open: HashMap<_, (Vec<usize>, usize)> = HashMap::new();
        for (index, name) in names.iter().enumerate() {
            let slot = entries.redis.slot(&entries.key(name));
            let (part, size) = open.entry(slot).or_default();
            if part.len() >= ENTRIES || (!part.is_empty() && *size + bytes(index) > BYTES) {
                done.push(std::mem::take(part));
                *size = 0;
            }
            part.push(index);
            *size += bytes(index);
        }
        done.extend(open.into_values().map(|(part, _)| part));
        done
    }
}
