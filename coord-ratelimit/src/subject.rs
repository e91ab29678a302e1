//! Whom a call counts for.

use coord_core::{Error, Key, KeySpace, Name, Result};

use crate::limit::Limit;
use crate::rule::Rule;

/// Whom a call counts for: a user, a tenant, an address.
///
/// ```
/// use coord_core::Name;
/// use coord_ratelimit::Subject;
///
/// let acme = Name::new("acme")?;
/// let jane = Name::new("jane")?;
/// // Jane's own count, and that of all of acme: in one slot of a cluster.
/// let both = Subject::each([Subject::member(&acme, &jane), Subject::new(&acme)]);
/// # Ok::<_, coord_core::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Subject(Whom);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Whom {
    One(One),
    Each(Vec<One>),
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct One {
    group: Name,
    member: Option<Name>,
}

impl Subject {
    /// The subject `name`, which may be a group of others.
    pub fn new(name: &Name) -> Self {
        Self(Whom::One(One {
            group: name.clone(),
            member: None,
        }))
    }

    /// The member `name` of `group`. All members of a group and the group itself share a slot of a
    /// cluster, so that their limits can be checked in one call.
    pub fn member(group: &Name, name: &Name) -> Self {
        Self(Whom::One(One {
            group: group.clone(),
            member: Some(name.clone()),
        }))
    }

    /// One subject for each limit of a limiter, in the order of its limits.
    pub fn each(subjects: impl IntoIterator<Item = Self>) -> Self {
        let all = subjects.into_iter().flat_map(|subject| match subject.0 {
            Whom::One(one) => vec![one],
            Whom::Each(all) => all,
        });
        Self(Whom::Each(all.collect()))
    }

    /// The key of each of `limits`.
    pub(crate) fn keys(&self, space: &KeySpace, limits: &[Limit]) -> Result<Vec<Key>> {
        match &self.0 {
            Whom::One(one) => Ok(limits.iter().map(|limit| one.key(space, limit)).collect()),
            Whom::Each(all) if all.len() == limits.len() => Ok(all
                .iter()
                .zip(limits)
                .map(|(one, limit)| one.key(space, limit))
                .collect()),
            Whom::Each(all) => Err(Error::invalid(format!(
                "{} subjects for {} limits",
                all.len(),
                limits.len()
            ))),
        }
    }
}

impl One {
    fn key(&self, space: &KeySpace, limit: &Limit) -> Key {
        // By algorithm too, since each stores something else.
        let algorithm = match limit.rule() {
            Rule::Gcra(_) => "gcra",
            Rule::Sliding(_) => "sliding",
            Rule::Fixed(_) => "fixed",
        };
        let group = space.key("ratelimit", &[&self.group]);
        let key = group.part_for(algorithm, limit.name());
        match &self.member {
            Some(member) => key.part_for("of", member),
            None => key,
        }
    }
}
