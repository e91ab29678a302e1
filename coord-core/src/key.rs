//! Names, and the only place that turns them into keys.

use std::fmt;
use std::sync::Arc;

use crate::{Error, Result};

/// The longest name in bytes: far above real identifiers, far below what slows a key lookup.
const MAX_NAME_BYTES: usize = 512;

/// What a caller calls a thing: a lock, a resource, a tenant, a subject, an owner.
///
/// Any text of 1 to 512 bytes. What would be special in a key is encoded when the key is made,
/// so two different names never share a key.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Arc<str>);

impl Name {
    /// The name `text`.
    ///
    /// # Errors
    /// `Invalid` when it is empty or longer than 512 bytes.
    pub fn new(text: impl AsRef<str>) -> Result<Self> {
        let text = text.as_ref();
        if text.is_empty() {
            return Err(Error::invalid("a name is empty"));
        }
        if text.len() > MAX_NAME_BYTES {
            return Err(Error::invalid(format!(
                "a name has {} bytes, more than {MAX_NAME_BYTES}",
                text.len()
            )));
        }
        Ok(Self(text.into()))
    }

    /// The name as it was given.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<&str> for Name {
    type Error = Error;

    fn try_from(text: &str) -> Result<Self> {
        Self::new(text)
    }
}

impl TryFrom<String> for Name {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        Self::new(text)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, formatter)
    }
}

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
        let mut text = self.opened(kind);
        for name in names {
            text.push(':');
            push_encoded(&mut text, name.as_str());
        }
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
        let mut text = self.opened(kind);
        for name in names {
            text.push(':');
            push_encoded(&mut text, name.as_str());
        }
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
        let opened = self.opened(kind);
        let inner = key
            .strip_prefix(&opened)?
            .strip_prefix(':')?
            .strip_suffix('}')?;
        inner
            .split(':')
            .map(|segment| Name::new(decode(segment)?).ok())
            .collect()
    }

    fn opened(&self, kind: &'static str) -> String {
        debug_assert!(encode(kind) == kind, "a kind is a plain word: {kind}");
        let mut text = format!("{}:{{{kind}", self.prefix);
        if let Some(tenant) = &self.tenant {
            text.push_str(":@");
            push_encoded(&mut text, tenant.as_str());
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
        Self(format!("{}:{part}", self.0).into())
    }

    /// The key beside this one, in the same slot, that holds `part` of it for `name`.
    #[must_use]
    pub fn part_for(&self, part: &'static str, name: &Name) -> Self {
        let mut text = String::from(self.part(part).as_str());
        text.push(':');
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

/// Hash tags, separators, glob patterns, the tenant's mark and the escape itself.
fn is_plain(character: char) -> bool {
    !(character.is_whitespace() || character.is_control() || "%{}:@*?[]\\^".contains(character))
}

fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    push_encoded(&mut encoded, text);
    encoded
}

fn push_encoded(target: &mut String, text: &str) {
    use fmt::Write as _;
    for character in text.chars() {
        if is_plain(character) {
            target.push(character);
        } else {
            for byte in character.encode_utf8(&mut [0; 4]).bytes() {
                write!(target, "%{byte:02X}").expect("a String takes every write");
            }
        }
    }
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
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn name(text: &str) -> Name {
        Name::new(text).expect("a valid name")
    }

    fn space() -> KeySpace {
        KeySpace::new("app:test").expect("a valid prefix")
    }

    #[test]
    fn both_limits_of_a_name_hold() {
        assert!(Name::new("").is_err());
        assert!(Name::new("x".repeat(512)).is_ok());
        assert!(Name::new("x".repeat(513)).is_err());
    }

    #[test]
    fn a_prefix_with_braces_does_not_move_the_hash_tag() {
        let keys = KeySpace::new("{all}").expect("a valid prefix");

        let key = keys.key("lock", &[&name("a")]);

        assert_eq!(key.as_str(), "%7Ball%7D:{lock:a}");
        assert_eq!(key.hash_tag(), "lock:a");
    }

    #[test]
    fn a_part_and_a_channel_stay_in_the_slot_of_their_key() {
        let key = space().key("lock", &[&name("a")]);

        assert_eq!(key.part("wake").hash_tag(), key.hash_tag());
        assert_eq!(key.part("wake").channel(3).hash_tag(), key.hash_tag());
        let of = |text| key.part_for("seen", &name(text));
        assert_eq!(of("{b}:c").as_str(), "app:test:{lock:a}:seen:%7Bb%7D%3Ac");
        assert_eq!(of("{b}:c").hash_tag(), key.hash_tag());
        assert_ne!(key.channel(0), key.channel(1));
    }

    #[test]
    fn a_pattern_takes_glob_characters_in_names_literally() {
        assert_eq!(
            space().pattern("lease", "a*").as_str(),
            "app:test:{lease:a%2A*}"
        );
    }

    #[test]
    fn a_pattern_within_names_matches_none_whose_name_only_begins_like_them() {
        let pattern = space().pattern_within("cache", &[&name("users")], "4");

        assert_eq!(pattern.as_str(), "app:test:{cache:users:4*}");
        assert_eq!(pattern.start(), "app:test:{cache:users:4");
        let all = space().pattern_within("cache", &[&name("users")], "");
        let other = space().key("cache", &[&name("users2"), &name("4")]);
        assert!(!other.as_str().starts_with(all.start()));
    }

    #[test]
    fn parts_beside_a_key_are_not_listed_as_names() {
        let key = space().key("lease", &[&name("a")]);

        assert_eq!(space().names("lease", key.as_str()), Some(vec![name("a")]));
        assert_eq!(space().names("lease", key.part("record").as_str()), None);
    }

    proptest! {
        #[test]
        fn a_key_has_one_hash_tag_and_gives_its_names_back(
            prefix in ".{1,20}", tenant in proptest::option::of(".{1,20}"), first in ".{1,20}", second in ".{1,20}",
        ) {
            let keys = KeySpace::new(&prefix).expect("a valid prefix");
            let keys = tenant.as_ref().map_or(keys.clone(), |tenant| keys.tenant(&name(tenant)));
            let names = [name(&first), name(&second)];
            let key = keys.key("kind", &[&names[0], &names[1]]);

            prop_assert_eq!(key.as_str().matches('{').count(), 1);
            prop_assert_eq!(key.as_str().matches('}').count(), 1);
            prop_assert!(!key.as_str().contains(char::is_whitespace));
            prop_assert_eq!(keys.names("kind", key.as_str()), Some(names.to_vec()));
        }

        #[test]
        fn two_different_sets_of_names_never_share_a_key(
            one in (proptest::option::of("[a:@%{}]{1,4}"), "[a:@%{}]{1,4}"),
            other in (proptest::option::of("[a:@%{}]{1,4}"), "[a:@%{}]{1,4}"),
        ) {
            let key = |(tenant, text): &(Option<String>, String)| {
                let keys = space();
                let keys = tenant.as_ref().map_or(keys.clone(), |tenant| keys.tenant(&name(tenant)));
                keys.key("lock", &[&name(text)])
            };

            prop_assert_eq!(one == other, key(&one) == key(&other));
        }

        #[test]
        fn a_pattern_matches_by_the_start_of_the_name(text in ".{1,8}", cut in 0_usize..8) {
            let start: String = text.chars().take(cut).collect();
            let key = space().key("lease", &[&name(&text)]);
            let pattern = space().pattern("lease", &start);

            let literal = pattern.as_str().strip_suffix("*}").expect("ends in a star");
            prop_assert!(key.as_str().starts_with(literal));
        }
    }
}
