//! The query language of lists: `Field = literal AND Field = literal`.

use coord_engine::model::{Attribute, RunStatus, TypeName, WorkflowId};
use coord_engine::store::{Condition, Filter, Test};

use super::problem::Problem;

/// Narrows `filter` by each comparison of `query`. `WorkflowType`, `WorkflowId` and `Status` are the
/// run's own; every other name is a search attribute.
pub(super) fn narrow(filter: &mut Filter, query: &str) -> Result<(), Problem> {
    let mut rest = query.trim();
    while !rest.is_empty() {
        let (name, after) = name(rest)?;
        let after = after.trim_start().strip_prefix('=').ok_or_else(|| {
            malformed(&format!(
                "an = is missing after {name}: only equality is known"
            ))
        })?;
        let (value, after) = literal(after.trim_start())?;
        compare(filter, name, value)?;
        rest = match after.trim_start() {
            "" => "",
            more => conjunction(more)?,
        };
    }
    Ok(())
}

fn malformed(why: &str) -> Problem {
    Problem::unfit("invalid_visibility_query", format!("query: {why}"))
}

fn name(text: &str) -> Result<(&str, &str), Problem> {
    let is_part = |it: char| it.is_alphanumeric() || matches!(it, '_' | '-' | '.');
    let end = text.find(|it| !is_part(it)).unwrap_or(text.len());
    match text.split_at(end) {
        ("", _) => Err(malformed("a name is missing")),
        parts => Ok(parts),
    }
}

/// What follows `AND`.
fn conjunction(text: &str) -> Result<&str, Problem> {
    let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let rest = rest.trim_start();
    if word.eq_ignore_ascii_case("and") && !rest.is_empty() {
        return Ok(rest);
    }
    Err(malformed(
        "comparisons are joined by AND, and by nothing else",
    ))
}

fn literal(text: &str) -> Result<(Attribute, &str), Problem> {
    if let Some(quote) = text.chars().next().filter(|it| matches!(it, '\'' | '"')) {
        let (inside, rest) = text[1..]
            .split_once(quote)
            .ok_or_else(|| malformed("a quote is not closed"))?;
        return Ok((Attribute::Keyword(inside.to_owned()), rest));
    }
    let end = text.find(char::is_whitespace).unwrap_or(text.len());
    let (word, rest) = text.split_at(end);
    let value = if let "true" | "false" = word {
        Attribute::Bool(word == "true")
    } else if let Ok(whole) = word.parse() {
        Attribute::Integer(whole)
    } else if let Some(number) = word.parse().ok().filter(|it: &f64| it.is_finite()) {
        Attribute::Float(number)
    } else {
        return Err(malformed(
            "a value is 'text' in quotes, a number, or true or false",
        ));
    };
    Ok((value, rest))
}

fn compare(filter: &mut Filter, name: &str, value: Attribute) -> Result<(), Problem> {
    let text = || match &value {
        Attribute::Keyword(text) => Ok(text.clone()),
        _ => Err(malformed(&format!("{name} is compared with text"))),
    };
    let refused = |error: coord_core::Error| malformed(error.message());
    match name {
        "WorkflowType" => filter.name = Some(TypeName::new(text()?).map_err(refused)?),
        "WorkflowId" => filter.workflow = Some(WorkflowId::new(text()?).map_err(refused)?),
        "Status" => filter.statuses = vec![status(&text()?)?],
        _ => filter.attributes.push(Condition {
            name: name.to_owned(),
            test: Test::Is(value),
        }),
    }
    Ok(())
}

/// The status that `text` names.
pub(super) fn status(text: &str) -> Result<RunStatus, Problem> {
    RunStatus::from_word(text).ok_or_else(|| {
        let why = "it is pending, running, waiting, completed, failed, cancelled or terminated";
        Problem::field("status", why)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use coord_engine::model::Namespace;

    fn filter(query: &str) -> Result<Filter, Problem> {
        let mut filter = Filter::all(Namespace::default());
        narrow(&mut filter, query).map(|()| filter)
    }

    #[test]
    fn comparisons_narrow_what_they_name() {
        let query = r#"WorkflowType = 'shop.order' and Status="waiting" AND customer = 'ann b' AND n=3 AND x=1.5 AND paid=true"#;

        let filter = filter(query).expect("a query");

        assert_eq!(
            filter.name.map(|it| it.to_string()).as_deref(),
            Some("shop.order")
        );
        assert_eq!(filter.statuses, [RunStatus::Waiting]);
        let conditions = filter.attributes.into_iter().map(|it| (it.name, it.test));
        let is = |name: &str, value: Attribute| (name.to_owned(), Test::Is(value));
        assert_eq!(
            conditions.collect::<Vec<_>>(),
            [
                is("customer", "ann b".into()),
                is("n", 3.into()),
                is("x", 1.5.into()),
                is("paid", true.into()),
            ]
        );
        assert!(
            super::tests::filter("")
                .expect("none")
                .attributes
                .is_empty()
        );
    }

    #[test]
    fn what_is_no_comparison_is_refused() {
        for query in [
            "=1",
            "a",
            "a 1",
            "a =",
            "a = b",
            "a = 'b",
            "a != 1",
            "a = 1 OR b = 2",
            "a = 1 AND",
            "a = 1 b = 2",
            "Status = 'odd'",
            "Status = 1",
            "WorkflowId = ''",
            "a = nan",
        ] {
            assert!(filter(query).is_err(), "{query}");
        }
    }
}
