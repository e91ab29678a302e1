//! Who may do what: bearer tokens by role, each for some namespaces or for all.

use std::path::Path;
use std::sync::Arc;

use coord_core::{Error, Result};
use coord_engine::model::Namespace;
use serde::Deserialize;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// The shortest secret that is taken: 128 bits as hex digits, and far beyond guessing at any rate
/// that a server answers.
const SHORTEST_SECRET: usize = 32;

/// What a token is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// All there is, such as namespaces, passes over the whole database, and the release of other
    /// people's locks.
    Admin,
    /// Starting and steering workflows and schedules, and reading.
    Operator,
    /// Doing the work of task queues.
    Worker,
    /// Looking.
    ReadOnly,
}

/// What a route asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Need {
    /// Any token at all.
    Known,
    Read,
    Operate,
    Administer,
}

impl Role {
    pub(crate) const fn may(self, need: Need) -> bool {
        match need {
            Need::Known => true,
            Need::Read => matches!(self, Self::Admin | Self::Operator | Self::ReadOnly),
            Need::Operate => matches!(self, Self::Admin | Self::Operator),
            Need::Administer => matches!(self, Self::Admin),
        }
    }
}

/// Who calls.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    /// The name of the token, for the audit log and for rate limits.
    pub(crate) name: Arc<str>,
    pub(crate) role: Role,
    namespaces: Option<Arc<[Namespace]>>,
}

impl Identity {
    /// Whoever calls a node that asks nobody.
    fn anybody() -> Self {
        Self {
            name: "anonymous".into(),
            role: Role::Admin,
            namespaces: None,
        }
    }

    pub(crate) fn reaches(&self, namespace: &Namespace) -> bool {
        let named = self.namespaces.as_ref();
        named.is_none_or(|named| named.contains(namespace))
    }

    /// Whether it is bound to no namespace, as is asked for what belongs to none.
    pub(crate) const fn reaches_all(&self) -> bool {
        self.namespaces.is_none()
    }
}

/// Who may call a node.
///
/// Secrets are kept and compared as SHA-256 digests, all of them at every call and in constant time,
/// so that how long an answer takes says nothing about them.
#[derive(Clone, Debug)]
pub struct Access {
    /// `None`: nobody is asked.
    tokens: Option<Arc<[Known]>>,
}

#[derive(Debug)]
struct Known {
    digest: [u8; 32],
    identity: Identity,
}

/// A token as the file of tokens has it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: String,
    role: Role,
    /// The namespaces that it reaches; all of them when there are none.
    namespaces: Option<Vec<Namespace>>,
    token: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    tokens: Vec<Entry>,
}

impl Access {
    /// Nobody is asked: whoever reaches the node may do everything. For loopback and for tests.
    pub const fn open() -> Self {
        Self { tokens: None }
    }

    /// The tokens of a JSON document:
    /// `{"tokens": [{"name": "ci", "role": "operator", "namespaces": ["default"], "token": "…"}]}`.
    ///
    /// A role is `admin`, `operator`, `worker` or `read-only`; without `namespaces` a token is for
    /// all of them. A token has at least 32 characters, as `openssl rand -hex 32` makes them.
    ///
    /// # Errors
    /// `Invalid` when the document does not read, a token is too short, or two are the same. No
    /// message holds a token.
    pub fn from_json(text: &str) -> Result<Self> {
        let file: File = serde_json::from_str(text).map_err(|error| {
            // The cause may quote what it found.
            let (line, column) = (error.line(), error.column());
            Error::invalid(format!(
                "reading the tokens: line {line}, column {column}: not as documented"
            ))
        })?;
        let mut known: Vec<Known> = Vec::new();
        for entry in file.tokens {
            let name = &entry.name;
            if entry.token.len() < SHORTEST_SECRET {
                return Err(Error::invalid(format!(
                    "reading the tokens: that of {name:?} is shorter than {SHORTEST_SECRET} \
                     characters"
                )));
            }
            let digest = digest(&entry.token);
            if known.iter().any(|other| other.digest == digest) {
                let message = format!("reading the tokens: that of {name:?} is there twice");
                return Err(Error::invalid(message));
            }
            known.push(Known {
                digest,
                identity: Identity {
                    name: entry.name.into(),
                    role: entry.role,
                    namespaces: entry.namespaces.map(Into::into),
                },
            });
        }
        Ok(Self {
            tokens: Some(known.into()),
        })
    }

    /// The tokens of the file at `path`, as [`from_json`](Self::from_json) reads them.
    ///
    /// # Errors
    /// `Invalid` as [`from_json`](Self::from_json), and when the file cannot be read.
    pub fn from_file(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).map_err(|error| {
            Error::invalid(format!("reading the tokens in {}", path.display())).with_source(error)
        })?;
        Self::from_json(&text)
    }

    /// Whether nobody is asked.
    pub const fn is_open(&self) -> bool {
        self.tokens.is_none()
    }

    /// Who calls with this token; `None` when nobody does that it knows.
    pub(crate) fn identify(&self, bearer: Option<&str>) -> Option<Identity> {
        let Some(tokens) = &self.tokens else {
            return Some(Identity::anybody());
        };
        let digest = digest(bearer?);
        let mut found = None;
        for known in tokens.iter() {
            if bool::from(known.digest.ct_eq(&digest)) {
                found = Some(known.identity.clone());
            }
        }
        found
    }
}

fn digest(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use coord_core::ErrorKind;

    const OPERATOR: &str = "0123456789abcdef0123456789abcdef";
    const ADMIN: &str = "fedcba9876543210fedcba9876543210";

    fn document(token: &str) -> String {
        format!(
            r#"{{"tokens": [
                {{"name": "ops", "role": "operator", "namespaces": ["shop"], "token": "{OPERATOR}"}},
                {{"name": "root", "role": "admin", "token": "{token}"}}
            ]}}"#
        )
    }

    #[test]
    fn a_token_is_known_by_its_whole_text() {
        let access = Access::from_json(&document(ADMIN)).expect("tokens");
        let who = |token: &str| access.identify(Some(token)).map(|it| it.name.to_string());

        assert_eq!(who(OPERATOR).as_deref(), Some("ops"));
        assert_eq!(who(ADMIN).as_deref(), Some("root"));
        assert_eq!(who(&OPERATOR[1..]), None);
        assert_eq!(who(""), None);
        assert!(access.identify(None).is_none());
    }

    #[test]
    fn a_token_reaches_its_namespaces_and_no_other() {
        let access = Access::from_json(&document(ADMIN)).expect("tokens");
        let (shop, other) = (
            Namespace::new("shop").expect("a name"),
            Namespace::default(),
        );

        let operator = access.identify(Some(OPERATOR)).expect("known");
        assert!(operator.reaches(&shop) && !operator.reaches(&other) && !operator.reaches_all());
        let admin = access.identify(Some(ADMIN)).expect("known");
        assert!(admin.reaches(&shop) && admin.reaches(&other) && admin.reaches_all());
    }

    #[test]
    fn a_role_may_do_what_it_is_for_and_no_more() {
        let may = |role: Role| {
            [Need::Known, Need::Read, Need::Operate, Need::Administer].map(|need| role.may(need))
        };

        assert_eq!(may(Role::Admin), [true, true, true, true]);
        assert_eq!(may(Role::Operator), [true, true, true, false]);
        assert_eq!(may(Role::Worker), [true, false, false, false]);
        assert_eq!(may(Role::ReadOnly), [true, true, false, false]);
    }

    #[test]
    fn what_is_short_twice_or_unreadable_is_refused_and_not_quoted() {
        let short = &ADMIN[1..];
        let unreadable = format!(r#"{{"tokens": "{ADMIN}"}}"#);
        for text in [document(short), document(OPERATOR), unreadable] {
            let error = Access::from_json(&text).expect_err("refused");

            assert_eq!(error.kind(), ErrorKind::Invalid);
            let message = format!("{error:?} {error}");
            for secret in [OPERATOR, ADMIN, short] {
                assert!(!message.contains(secret), "{message}");
            }
        }
    }

    #[test]
    fn an_open_node_takes_anybody_for_an_admin() {
        let anybody = Access::open().identify(None).expect("known");

        assert!(anybody.role.may(Need::Administer) && anybody.reaches_all());
    }
}
