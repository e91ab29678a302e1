//! How a value becomes bytes.

use coord_core::{Error, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Turns values into bytes and back: [`Json`], [`Raw`], or one of your own.
///
/// Change [`CacheOptions::schema`](crate::CacheOptions::schema) along with what it writes.
pub trait Codec<T>: Send + Sync + 'static {
    /// Appends the bytes of `value` to `out`.
    ///
    /// # Errors
    /// `Invalid` for a value that has no bytes.
    fn encode(&self, value: &T, out: &mut Vec<u8>) -> Result<()>;

    /// The value of `bytes`.
    ///
    /// # Errors
    /// `Corrupt` for bytes that are no value.
    fn decode(&self, bytes: &[u8]) -> Result<T>;
}

/// Values as JSON, which `redis-cli` shows and other languages read: the default.
#[derive(Debug, Clone, Copy, Default)]
pub struct Json;

impl<T: Serialize + DeserializeOwned> Codec<T> for Json {
    fn encode(&self, value: &T, out: &mut Vec<u8>) -> Result<()> {
        serde_json::to_writer(out, value)
            .map_err(|error| Error::invalid("encoding a value as JSON").with_source(error))
    }

    fn decode(&self, bytes: &[u8]) -> Result<T> {
        serde_json::from_slice(bytes)
            .map_err(|error| Error::corrupt("decoding a value from JSON").with_source(error))
    }
}

/// Bytes as they are: rendered pages, images, what is encoded already.
#[derive(Debug, Clone, Copy, Default)]
pub struct Raw;

impl Codec<Vec<u8>> for Raw {
    fn encode(&self, value: &Vec<u8>, out: &mut Vec<u8>) -> Result<()> {
        out.extend_from_slice(value);
        Ok(())
    }

    fn decode(&self, bytes: &[u8]) -> Result<Vec<u8>> {
        Ok(bytes.to_vec())
    }
}
