//! Pages of lists: how long they are, and the tokens that name the next one.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::problem::Problem;

/// How much a page holds unless the caller says otherwise.
const USUAL: u32 = 50;
/// The longest page of anything but a history.
const LONGEST: u32 = 200;

/// The length of a page.
pub(super) fn length(asked: Option<u32>) -> Result<u32, Problem> {
    bounded("page_size", asked, USUAL, LONGEST)
}

/// A number from 1 to `most`, that of the field `name`.
pub(super) fn bounded(
    name: &str,
    asked: Option<u32>,
    usual: u32,
    most: u32,
) -> Result<u32, Problem> {
    match asked {
        None => Ok(usual),
        Some(length) if (1..=most).contains(&length) => Ok(length),
        Some(_) => Err(Problem::field(name, format!("it is from 1 to {most}"))),
    }
}

/// Where the next page begins, for the caller to give back as it is.
pub(super) fn token(place: &impl Serialize) -> String {
    let text = serde_json::to_vec(place).expect("a place is made of text and numbers");
    BASE64_URL_SAFE_NO_PAD.encode(text)
}

/// The place that a token names.
pub(super) fn place<T: DeserializeOwned>(token: Option<&str>) -> Result<Option<T>, Problem> {
    let Some(token) = token else {
        return Ok(None);
    };
    let read = || {
        let text = BASE64_URL_SAFE_NO_PAD.decode(token).ok()?;
        serde_json::from_slice(&text).ok()
    };
    let malformed = || {
        let why = "next_page_token is none that this list has given";
        Problem::new(
            axum::http::StatusCode::BAD_REQUEST,
            "malformed_page_token",
            why,
        )
    };
    read().map(Some).ok_or_else(malformed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_names_the_place_that_it_was_made_of() {
        let token = token(&(7, "run"));

        let place: Option<(i64, String)> = place(Some(&token)).expect("a place");

        assert_eq!(place, Some((7, "run".to_owned())));
        for odd in ["", "x", "bm90IGpzb24"] {
            assert!(super::place::<(i64, String)>(Some(odd)).is_err(), "{odd}");
        }
    }

    #[test]
    fn both_limits_of_a_page_hold() {
        assert_eq!(length(None).ok(), Some(50));
        assert_eq!(length(Some(1)).ok(), Some(1));
        assert_eq!(length(Some(200)).ok(), Some(200));
        assert!(length(Some(0)).is_err());
        assert!(length(Some(201)).is_err());
    }
}
