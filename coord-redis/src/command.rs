//! What is sent, and what comes back.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use coord_core::{Channel, Error, Key, Pattern, Result};
use redis::{Cmd, ToRedisArgs, Value};

use crate::script::Script;

/// What a script of the coord crates takes with its keys: room for it is made once.
const ARGS: usize = 16;
const BYTES: usize = 512;

/// One command with its keys and arguments.
///
/// Keys come from [`Key`] alone, so nothing else reaches Redis as one. All keys of a command
/// share a hash tag; the first one decides which node of a cluster gets it.
#[derive(Clone)]
pub struct Command {
    pub(crate) cmd: Cmd,
    pub(crate) name: &'static str,
    pub(crate) script: Option<&'static Script>,
    pub(crate) slot: Option<u16>,
    pub(crate) idempotent: bool,
    pub(crate) receipt: Option<Receipt>,
}

impl Command {
    /// The command `name`, such as `GET` or `XADD`.
    pub fn new(name: &'static str) -> Self {
        let mut cmd = Cmd::with_capacity(ARGS, BYTES);
        cmd.arg(name);
        Self {
            cmd,
            name,
            script: None,
            slot: None,
            idempotent: false,
            receipt: None,
        }
    }

    pub(crate) fn script(script: &'static Script, keys: &[&Key]) -> Self {
        let mut command = Self::new("EVALSHA");
        command.name = script.name();
        command.script = Some(script);
        command.cmd.arg(script.digest()).arg(keys.len());
        keys.iter().fold(command, |command, key| command.key(key))
    }

    /// Adds a key.
    #[must_use]
    pub fn key(mut self, key: &Key) -> Self {
        self.slot.get_or_insert_with(|| slot_of(key.hash_tag()));
        self.cmd.arg(key.as_str());
        self
    }

    /// Adds a key as a scan of ours found it.
    pub(crate) fn scanned(mut self, key: &str) -> Self {
        self.slot = scanned_slot(key);
        self.cmd.arg(key);
        self
    }

    /// Adds a channel.
    #[must_use]
    pub fn channel(mut self, channel: &Channel) -> Self {
        self.slot.get_or_insert_with(|| slot_of(channel.hash_tag()));
        self.cmd.arg(channel.as_str());
        self
    }

    /// Adds a pattern over keys.
    #[must_use]
    pub fn pattern(mut self, pattern: &Pattern) -> Self {
        self.cmd.arg(pattern.as_str());
        self
    }

    /// Adds an argument that is no key.
    #[must_use]
    pub fn arg(mut self, arg: impl ToRedisArgs) -> Self {
        self.cmd.arg(arg);
        self
    }

    /// Says that executing it twice is the same as once, so that it may be sent again when its
    /// connection ended before the reply came.
    #[must_use]
    pub fn idempotent(mut self) -> Self {
        self.idempotent = true;
        self
    }

    /// Notes in `receipt` which connection carries the command.
    #[must_use]
    pub fn receipt(mut self, receipt: &Receipt) -> Self {
        self.receipt = Some(receipt.clone());
        self
    }

    /// The same call with the script's source in place of its digest.
    pub(crate) fn with_source(&self, script: &'static Script) -> Cmd {
        let mut cmd = redis::cmd("EVAL");
        cmd.arg(script.source());
        for arg in self.cmd.args_iter().skip(2) {
            if let redis::Arg::Simple(bytes) = arg {
                cmd.arg(bytes);
            }
        }
        cmd
    }
}

/// Which connection carried a command last.
///
/// A command that follows another on the same connection is executed after it, so its reply
/// settles the other's outcome.
#[derive(Debug, Clone, Default)]
pub struct Receipt(Arc<AtomicU64>);

/// Stands for several connections: what follows on one of them proves nothing about the others.
const SEVERAL: u64 = u64::MAX;

impl Receipt {
    pub(crate) fn note(&self, connection: u64) {
        let first = self
            .0
            .compare_exchange(0, connection, Ordering::AcqRel, Ordering::Acquire);
        if first.is_err_and(|before| before != connection) {
            self.0.store(SEVERAL, Ordering::Release);
        }
    }

    /// Whether no connection was ever given the command, so that it cannot be executed.
    pub fn is_empty(&self) -> bool {
        self.0.load(Ordering::Acquire) == 0
    }

    /// Whether several connections were given it, so that an attempt on one may still be executed
    /// after the answer on another.
    pub fn is_split(&self) -> bool {
        self.0.load(Ordering::Acquire) == SEVERAL
    }

    /// Whether a command that `follower` noted was executed after the one that this one noted.
    pub(crate) fn precedes(&self, follower: &Self) -> bool {
        match (
            self.0.load(Ordering::Acquire),
            follower.0.load(Ordering::Acquire),
        ) {
            // It was never handed to a connection.
            (0, _) => true,
            (SEVERAL, _) => false,
            (before, after) => before == after,
        }
    }
}

/// The cluster slot of a key as a scan of ours found it, which therefore has a hash tag.
pub(crate) fn scanned_slot(key: &str) -> Option<u16> {
    let (_, rest) = key.split_once('{')?;
    let (tag, _) = rest.split_once('}')?;
    Some(slot_of(tag))
}

/// The cluster slot of a hash tag, as the Redis cluster specification defines it (CRC16, XMODEM).
pub(crate) fn slot_of(hash_tag: &str) -> u16 {
    const SLOTS: u16 = 16_384;
    crc16::State::<crc16::XMODEM>::calculate(hash_tag.as_bytes()) % SLOTS
}

/// What the server answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// Nothing is there.
    Nil,
    /// An integer.
    Int(i64),
    /// A string of bytes, or a status such as `OK`.
    Bytes(Vec<u8>),
    /// A list, or a map as a flat list of keys and values.
    List(Vec<Reply>),
}

impl Reply {
    pub(crate) fn from_value(value: Value) -> std::result::Result<Self, redis::RedisError> {
        Ok(match value {
            Value::Int(int) => Self::Int(int),
            Value::Boolean(flag) => Self::Int(flag.into()),
            Value::BulkString(bytes) => Self::Bytes(bytes),
            Value::Okay => Self::Bytes(b"OK".to_vec()),
            Value::SimpleString(text) | Value::VerbatimString { text, .. } => {
                Self::Bytes(text.into_bytes())
            }
            Value::Double(number) => Self::Bytes(number.to_string().into_bytes()),
            Value::Array(items) | Value::Set(items) | Value::Push { data: items, .. } => {
                Self::List(
                    items
                        .into_iter()
                        .map(Self::from_value)
                        .collect::<Result<_, _>>()?,
                )
            }
            Value::Map(pairs) => {
                let flat = pairs.into_iter().flat_map(|(key, value)| [key, value]);
                Self::List(flat.map(Self::from_value).collect::<Result<_, _>>()?)
            }
            Value::Attribute { data, .. } => Self::from_value(*data)?,
            Value::ServerError(error) => return Err(error.into()),
            // None that we ask for: one that does not exist yet, and the big number, whose type
            // here depends on the features that others turn on in the client.
            _ => Self::Nil,
        })
    }

    /// The integer, also when it was sent as a string of digits.
    ///
    /// # Errors
    /// `Corrupt` for anything else.
    pub fn int(self) -> Result<i64> {
        match self {
            Self::Int(int) => Ok(int),
            Self::Bytes(bytes) => std::str::from_utf8(&bytes)
                .ok()
                .and_then(|text| text.parse().ok())
                .ok_or_else(|| unexpected("an integer", &Self::Bytes(bytes))),
            other => Err(unexpected("an integer", &other)),
        }
    }

    /// The text.
    ///
    /// # Errors
    /// `Corrupt` for anything else.
    pub fn text(self) -> Result<String> {
        match self {
            Self::Bytes(bytes) => {
                String::from_utf8(bytes).map_err(|_| Error::corrupt("a reply is not UTF-8"))
            }
            Self::Int(int) => Ok(int.to_string()),
            other => Err(unexpected("text", &other)),
        }
    }

    /// The bytes.
    ///
    /// # Errors
    /// `Corrupt` for anything else.
    pub fn bytes(self) -> Result<Vec<u8>> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            other => Err(unexpected("bytes", &other)),
        }
    }

    /// The items of a list; none for a nil.
    ///
    /// # Errors
    /// `Corrupt` for anything else.
    pub fn list(self) -> Result<Vec<Reply>> {
        match self {
            Self::List(items) => Ok(items),
            Self::Nil => Ok(Vec::new()),
            other => Err(unexpected("a list", &other)),
        }
    }

    /// The list of exactly `N` items.
    ///
    /// # Errors
    /// `Corrupt` for anything else.
    pub fn array<const N: usize>(self) -> Result<[Reply; N]> {
        let items = self.list()?;
        <[Reply; N]>::try_from(items).map_err(|items| {
            Error::corrupt(format!("a reply has {} items instead of {N}", items.len()))
        })
    }

    /// Nothing for a nil, the reply otherwise.
    pub fn optional(self) -> Option<Reply> {
        (self != Self::Nil).then_some(self)
    }
}

fn unexpected(wanted: &str, got: &Reply) -> Error {
    let got = match got {
        Reply::Nil => "nil",
        Reply::Int(_) => "an integer",
        Reply::Bytes(_) => "bytes",
        Reply::List(_) => "a list",
    };
    Error::corrupt(format!("a reply is {got} instead of {wanted}"))
}
