//! The only place that turns names into keys.

use std::fmt;
use std::sync::Arc;

use crate::{Name, Result};

/// Room in a key for what stands between its prefix, kind, tenant, names and part.
const PUNCTUATION: usize = 8;

/// Where the keys of one application live: a prefix, and a tenant where there are several.
///
/// A key reads `prefix:{kind:name}` or `prefix:{kind:@tenant:name}`, and `…:part` for what lies
/// beside it. The braces are the cluster's hash tag: whatever belongs to one name shares a slot.
/// In prefix, tenant and name every character that means something in a key, a hash tag or a
/// glob pattern is percent-encoded, and so is white space.
///
/// ```
/// use coord_core::{KeySpace, Name};
///
/// let keys = KeySpace::new("shop")?;
/// let key = keys.key("lock", &[&Name::new("orders {eu}")?]);
/// assert_eq!(key.as_str(), "shop:{lock:orders%20%7Beu%7D}");
/// assert_eq!(key.part("wake").as_str(), "shop:{lock:orders%20%7Beu%7D}:wake");
/// # Ok::<_, coord_core::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct KeySpace {
    prefix: Arc<str>,
    tenant: Option<Name>,
}

impl KeySpace {
    /// The space under `prefix`, without a tenant. Colons in the prefix stay as they are.
    ///
    /// # Errors
    /// `Invalid` when the prefix is empty or longer than 512 bytes.
    pub fn new(prefix: impl AsRef<str>) -> Result<Self> {
        let name = Name::new(prefix)?;
        let segments: Vec<_> = name.as_str().split(':').map(encode).collect();
        Ok(Self {
            prefix: segments.join(":").into(),
            tenant: None,
        })
    }

    /// The same space for one tenant; no tenant's key equals another's or the space's own.
    #[must_use]
    pub fn tenant(&self, tenant: &Name) -> Self {
        Self {
            prefix: Arc::clone(&self.prefix),
            tenant: Some(tenant.clone()),
        }
    }

    /// The key of the thing of `kind` that `names` name.
    ///
    /// One kind is always used with the same number of names.
    pub fn key(&self, kind: &'static str, names: &[&Name]) -> Key {
        let mut text = self.opened(kind, names);
        text.push('}');
        Key(text.into())
    }

    /// The pattern of all keys of `kind` whose first name starts with `start`.
    pub fn pattern(&self, kind: &'static str, start: &str) -> Pattern {
        self.pattern_within(kind, &[], start)
    }

    /// The pattern of all keys of `kind` whose names begin with `names`, and whose next name starts
    /// with `start`.
    pub fn pattern_within(&self, kind: &'static str, names: &[&Name], start: &str) -> Pattern {
        let mut text = self.opened(kind, names);
        text.push(':');
        push_encoded(&mut text, start);
        text.push_str("*}");
        Pattern(text)
    }

    /// The pattern of all keys of this space and of its tenants, whatever their kind.
    pub fn everything(&self) -> Pattern {
        Pattern(format!("{}:{{*", self.prefix))
    }

    /// The names in `key` if this space made it for `kind` (and it is no part beside one).
    pub fn names(&self, kind: &'static str, key: &str) -> Option<Vec<Name>> {
        let opened = self.opened(kind, &[]);
        let inner = key
            .strip_prefix(&opened)?
            .strip_prefix(':')?
            .strip_suffix('}')?;
        inner
            .split(':')
            .map(|segment| Name::new(decode(segment)?).ok())
            .collect()
    }

    /// A key up to its last name, with room for what follows.
    fn opened(&self, kind: &'static str, names: &[&Name]) -> String {
        debug_assert!(encode(kind) == kind, "a kind is a plain word: {kind}");
        let named = names.iter().map(|name| 1 + name.as_str().len());
        let tenant = self.tenant.as_ref().map_or("", Name::as_str);
        let length = self.prefix.len() + kind.len() + tenant.len() + named.sum::<usize>();
        let mut text = String::with_capacity(length + PUNCTUATION);
        text.push_str(&self.prefix);
        text.push_str(":{");
        text.push_str(kind);
        if self.tenant.is_some() {
            text.push_str(":@");
            push_encoded(&mut text, tenant);
        }
        for name in names {
            text.push(':');
            push_encoded(&mut text, name.as_str());
        }
        text
    }
}

/// A key that [`KeySpace`] made. Nothing else reaches Redis as a key.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Arc<str>);

impl Key {
    /// The key beside this one, in the same slot, that holds `part` of it.
    #[must_use]
    pub fn part(&self, part: &'static str) -> Self {
        debug_assert!(encode(part) == part, "a part is a plain word: {part}");
        Self([&*self.0, ":", part].concat().into())
    }

    /// The key beside this one, in the same slot, that holds `part` of it for `name`.
    #[must_use]
    pub fn part_for(&self, part: &'static str, name: &Name) -> Self {
        debug_assert!(encode(part) == part, "a part is a plain word: {part}");
        let length = self.0.len() + part.len() + name.as_str().len();
        let mut text = String::with_capacity(length + PUNCTUATION);
        for piece in [&*self.0, ":", part, ":"] {
            text.push_str(piece);
        }
        push_encoded(&mut text, name.as_str());
        Self(text.into())
    }

    /// The pub/sub channel of this key. Pub/sub knows no databases, so the number is in the name.
    pub fn channel(&self, database: u32) -> Channel {
        Channel(format!("{}@{database}", self.0).into())
    }

    /// What the cluster hashes: the text between the braces.
    pub fn hash_tag(&self) -> &str {
        hash_tag(&self.0)
    }

    /// The key as Redis sees it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A pub/sub channel that [`Key::channel`] made.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Channel(Arc<str>);

impl Channel {
    /// What the cluster hashes to find the shard of a sharded channel.
    pub fn hash_tag(&self) -> &str {
        hash_tag(&self.0)
    }

    /// The channel as Redis sees it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::borrow::Borrow<str> for Channel {
    fn borrow(&self) -> &str {
        &self.0
    }
}

/// A glob pattern over keys that [`KeySpace::pattern`] made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern(String);

impl Pattern {
    /// The pattern of the channels of these keys.
    pub fn channels(&self, database: u32) -> Channel {
        Channel(format!("{}@{database}", self.0).into())
    }

    /// How every key that it matches begins, literally.
    pub fn start(&self) -> &str {
        let (start, _) = self.0.split_once('*').expect("every pattern has one star");
        start
    }

    /// The pattern as Redis sees it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

macro_rules! shown_as_text {
    ($($Type:ident),+) => {$(
        impl fmt::Display for $Type {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(&self.0)
            }
        }

        impl fmt::Debug for $Type {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, formatter)
            }
        }
    )+};
}
shown_as_text!(Key, Channel);

fn hash_tag(text: &str) -> &str {
    let (_, rest) = text.split_once('{').expect("every key has a hash tag");
    let (tag, _) = rest.split_once('}').expect("every hash tag is closed");
    tag
}

/// Hash tags, separators, glob patterns, the tenant's mark and the escape itself are not.
fn is_plain(character: char) -> bool {
    match character {
        '%' | '{' | '}' | ':' | '@' | '*' | '?' | '[' | ']' | '\\' | '^' => false,
        '!'..='~' => true,
        other => !(other.is_whitespace() || other.is_control()),
    }
}

fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    push_encoded(&mut encoded, text);
    encoded
}

fn push_encoded(target: &mut String, text: &str) {
    use fmt::Write as _;
    let mut rest = text;
    while let Some(at) = rest.find(|character| !is_plain(character)) {
        let (plain, special) = rest.split_at(at);
        let mut characters = special.chars();
        let character = characters.next().expect("it was found there");
        target.push_str(plain);
        for byte in character.encode_utf8(&mut [0; 4]).bytes() {
            write!(target, "%{byte:02X}").expect("a String takes every write");
        }
        rest = characters.as_str();
    }
    target.push_str(rest);
}

fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        if first == b'%' {
            let digits = std::str::from_utf8(tail.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &tail[2..];
        } else {
            bytes.push(first);
            rest = tail;
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests;
