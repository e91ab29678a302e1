//! A small RESP2 client: the side channel by which a test asks a server what happened.
//!
//! It shares no code with the crates under test, so that what they get wrong, it does not.

use std::{io, net::SocketAddr, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

pub(crate) mod frame;

/// Bounds a command to a server that is paused or loading; no test wants to wait longer.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// A server's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resp {
    /// `+OK`.
    Simple(String),
    /// An error inside an array; one that is the whole answer is a [`CommandError`].
    Error(String),
    /// `:1`.
    Int(i64),
    /// `$2`.
    Bulk(Vec<u8>),
    /// `$-1` or `*-1`.
    Nil,
    /// `*2`.
    Array(Vec<Resp>),
}

impl Resp {
    /// The answer as text; [`Resp::Nil`] is empty, an array has its elements one a line.
    pub fn text(&self) -> String {
        match self {
            Self::Simple(text) | Self::Error(text) => text.clone(),
            Self::Int(number) => number.to_string(),
            Self::Bulk(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            Self::Nil => String::new(),
            Self::Array(items) => items.iter().map(Self::text).collect::<Vec<_>>().join("\n"),
        }
    }

    /// The number, sent as an integer or as text.
    pub fn int(&self) -> Option<i64> {
        match self {
            Self::Int(number) => Some(*number),
            Self::Simple(_) | Self::Bulk(_) => self.text().parse().ok(),
            Self::Error(_) | Self::Nil | Self::Array(_) => None,
        }
    }

    /// The elements; whatever is not an array has none.
    pub fn items(&self) -> &[Resp] {
        match self {
            Self::Array(items) => items,
            _ => &[],
        }
    }
}

/// Why a command has no answer.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// The connection failed, or was silent for too long.
    #[error("no answer")]
    Io(#[from] io::Error),
    /// The server refused, with this text.
    #[error("{0}")]
    Server(String),
}

/// The result of a command.
pub type Result<T> = std::result::Result<T, CommandError>;

/// A connection for one test's own commands.
pub struct Connection {
    stream: TcpStream,
    received: Vec<u8>,
}

impl Connection {
    /// Connects to `addr`.
    ///
    /// # Errors
    /// [`CommandError::Io`] when nobody accepts.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn open(addr: SocketAddr) -> Result<Self> {
        let stream = bounded(TcpStream::connect(addr)).await?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            received: Vec::new(),
        })
    }

    /// Sends one command and returns its answer.
    ///
    /// # Errors
    /// [`CommandError::Server`] when the answer is an error; [`CommandError::Io`] when there is
    /// none within ten seconds.
    ///
    /// # Cancel safety
    /// Unsafe: the answer of a dropped call is taken for that of the next one.
    pub async fn command(&mut self, words: &[&str]) -> Result<Resp> {
        self.send(words).await?;
        self.receive().await
    }

    /// Sends one command and leaves its answer to [`receive`](Self::receive).
    ///
    /// # Errors
    /// [`CommandError::Io`] when the connection is gone.
    ///
    /// # Cancel safety
    /// Unsafe: half a command may have been written.
    pub async fn send(&mut self, words: &[&str]) -> Result<()> {
        let words = words
            .iter()
            .map(|word| format!("${}\r\n{word}\r\n", word.len()));
        let request = format!("*{}\r\n{}", words.len(), words.collect::<String>());
        Ok(bounded(self.stream.write_all(request.as_bytes())).await?)
    }

    /// Waits for the next answer.
    ///
    /// # Errors
    /// As for [`command`](Self::command).
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn receive(&mut self) -> Result<Resp> {
        match bounded(self.next()).await? {
            Resp::Error(text) => Err(CommandError::Server(text)),
            answer => Ok(answer),
        }
    }

    /// The next answer, however long it takes.
    pub(crate) async fn next(&mut self) -> io::Result<Resp> {
        loop {
            if let frame::Length::Complete(length) = frame::length(&self.received) {
                let answer = frame::parse(&self.received[..length]);
                self.received.drain(..length);
                return answer.ok_or_else(|| io::ErrorKind::InvalidData.into());
            }
            if self.stream.read_buf(&mut self.received).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}

async fn bounded<T>(io: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    tokio::time::timeout(ANSWER_WITHIN, io).await?
}
