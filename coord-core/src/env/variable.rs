//! What a crate says about a variable that it reads.

/// One environment variable that a crate reads; each crate lists its own as `VARIABLES`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Variable {
    /// The name, such as `COORD_REDIS_URL`.
    pub name: &'static str,
    /// What holds when it is not set, as one would write it; empty when nothing does.
    pub default: &'static str,
    /// What it sets, with its form and the reason for the default.
    pub about: &'static str,
    /// Another name, which is read where the first one is not set.
    pub fallback: Option<&'static str>,
    /// How much of its value people may see.
    pub shown: Shown,
    /// Why it has no effect here, of a variable that is taken for the sake of environments that
    /// other systems share. One that is set all the same is reported.
    pub inert: Option<&'static str>,
}

/// How much of a value people may see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shown {
    /// All of it.
    Whole,
    /// All but the password of a URL.
    WithoutPassword,
    /// Nothing but that there is one.
    Never,
}

impl Variable {
    /// A variable that sets something and may be shown.
    pub const fn new(name: &'static str, default: &'static str, about: &'static str) -> Self {
        Self {
            name,
            default,
            about,
            fallback: None,
            shown: Shown::Whole,
            inert: None,
        }
    }

    /// Also read from `fallback`, where its own name is not set.
    #[must_use]
    pub const fn or(mut self, fallback: &'static str) -> Self {
        self.fallback = Some(fallback);
        self
    }

    /// A URL that may hold a password.
    #[must_use]
    pub const fn url(mut self) -> Self {
        self.shown = Shown::WithoutPassword;
        self
    }

    /// A secret.
    #[must_use]
    pub const fn secret(mut self) -> Self {
        self.shown = Shown::Never;
        self
    }

    /// Accepted and without effect, because `reason`.
    #[must_use]
    pub const fn inert(mut self, reason: &'static str) -> Self {
        self.inert = Some(reason);
        self
    }
}

impl Shown {
    /// What people may see of `value`.
    pub(super) fn of(self, value: &str) -> String {
        match self {
            Self::Whole => value.to_owned(),
            Self::WithoutPassword => without_password(value),
            Self::Never => HIDDEN.to_owned(),
        }
    }
}

const HIDDEN: &str = "(hidden)";

/// A URL whose user has no password any more. A text of another form may be anything, and is
/// hidden where it could hold one; so is a query, in which drivers take passwords as well.
fn without_password(url: &str) -> String {
    let (url, query) = match url.split_once('?') {
        Some((url, _)) => (url, "?(hidden)"),
        None => (url, ""),
    };
    let Some((scheme, rest)) = url.split_once("://") else {
        let is_plain = query.is_empty() && !url.contains('@');
        return if is_plain { url } else { HIDDEN }.to_owned();
    };
    // A password may hold any of these when nobody has encoded it.
    let Some((userinfo, place)) = rest.rsplit_once('@') else {
        return format!("{scheme}://{rest}{query}");
    };
    match userinfo.split_once(':') {
        Some((user, _)) => format!("{scheme}://{user}:{HIDDEN}@{place}{query}"),
        None => format!("{scheme}://{userinfo}@{place}{query}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_shows_where_it_leads_and_no_password() {
        let shown = |url| Shown::WithoutPassword.of(url);

        assert_eq!(
            shown("postgres://app:s3cret@db:5432/engine"),
            "postgres://app:(hidden)@db:5432/engine"
        );
        assert_eq!(shown("redis://:p@ss/w:rd@h:1/2"), "redis://:(hidden)@h:1/2");
        assert_eq!(shown("redis://h:6379/2"), "redis://h:6379/2");
        assert_eq!(shown("mysql://root@db/engine"), "mysql://root@db/engine");
        assert_eq!(shown("sqlite:engine.db"), "sqlite:engine.db");
        assert_eq!(
            shown("postgres://db/e?password=x"),
            "postgres://db/e?(hidden)"
        );
        assert_eq!(shown("app:s3cret@db"), "(hidden)");
    }
}
