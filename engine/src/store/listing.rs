//! Which runs a listing means, as a statement: the same for every dialect.

use sqlx::{Database, Encode, QueryBuilder, Type};

use super::rows::{integer, run_columns};
use super::{Condition, Filter, Listing, Period, Test};
use crate::model::Attribute;

/// The statement of one page, with one run more than are wanted.
pub(super) fn page<DB>(listing: &Listing) -> QueryBuilder<DB>
where
    DB: Database,
    for<'q> String: Encode<'q, DB> + Type<DB>,
    for<'q> i64: Encode<'q, DB> + Type<DB>,
    for<'q> f64: Encode<'q, DB> + Type<DB>,
{
    let mut query = QueryBuilder::new(concat!("SELECT ", run_columns!(), " FROM workflow_runs"));
    meant(&mut query, &listing.filter);
    if let Some((instant, run)) = &listing.after {
        // As one comparison of pairs, which not every dialect looks up in an index.
        query
            .push(" AND started_at <= ")
            .push_bind(instant.as_micros());
        query
            .push(" AND (started_at < ")
            .push_bind(instant.as_micros());
        query
            .push(" OR run_id < ")
            .push_bind(run.to_string())
            .push(")");
    }
    query.push(" ORDER BY started_at DESC, run_id DESC LIMIT ");
    query.push_bind(i64::from(listing.limit) + 1);
    query
}

/// The statement that counts.
pub(super) fn count<DB>(filter: &Filter) -> QueryBuilder<DB>
where
    DB: Database,
    for<'q> String: Encode<'q, DB> + Type<DB>,
    for<'q> i64: Encode<'q, DB> + Type<DB>,
    for<'q> f64: Encode<'q, DB> + Type<DB>,
{
    let mut query = QueryBuilder::new("SELECT count(*) FROM workflow_runs");
    meant(&mut query, filter);
    query
}

fn meant<DB>(query: &mut QueryBuilder<DB>, filter: &Filter)
where
    DB: Database,
    for<'q> String: Encode<'q, DB> + Type<DB>,
    for<'q> i64: Encode<'q, DB> + Type<DB>,
    for<'q> f64: Encode<'q, DB> + Type<DB>,
{
    query
        .push(" WHERE namespace = ")
        .push_bind(filter.namespace.to_string());
    if let Some(name) = &filter.name {
        query
            .push(" AND workflow_type = ")
            .push_bind(name.to_string());
    }
    if !filter.statuses.is_empty() {
        query.push(" AND status IN (");
        let mut statuses = query.separated(", ");
        for status in &filter.statuses {
            statuses.push_bind(status.as_str().to_owned());
        }
        query.push(")");
        if filter.statuses.iter().all(|status| status.is_open()) {
            // Follows from the status, and has an index.
            query.push(" AND closed_at IS NULL");
        }
    }
    if let Some(workflow) = &filter.workflow {
        query
            .push(" AND workflow_id = ")
            .push_bind(workflow.to_string());
    }
    if let Some(prefix) = &filter.id_prefix {
        query.push(" AND workflow_id >= ").push_bind(prefix.clone());
        if let Some(end) = after_prefix(prefix) {
            query.push(" AND workflow_id < ").push_bind(end);
        }
    }
    period(query, "started_at", filter.started);
    period(query, "closed_at", filter.closed);
    for condition in &filter.attributes {
        attribute(query, filter, condition);
    }
}

fn period<DB>(query: &mut QueryBuilder<DB>, column: &str, period: Period)
where
    DB: Database,
    for<'q> i64: Encode<'q, DB> + Type<DB>,
{
    for (bound, sign) in [(period.from, ">="), (period.until, "<")] {
        if let Some(instant) = bound {
            query.push(format_args!(" AND {column} {sign} "));
            query.push_bind(instant.as_micros());
        }
    }
}

fn attribute<DB>(query: &mut QueryBuilder<DB>, filter: &Filter, condition: &Condition)
where
    DB: Database,
    for<'q> String: Encode<'q, DB> + Type<DB>,
    for<'q> i64: Encode<'q, DB> + Type<DB>,
    for<'q> f64: Encode<'q, DB> + Type<DB>,
{
    let mut matches = |tests: &[(&str, &Attribute)]| {
        query.push(
            " AND run_id IN (SELECT a.run_id FROM workflow_attributes a WHERE a.namespace = ",
        );
        query.push_bind(filter.namespace.to_string());
        query
            .push(" AND a.name = ")
            .push_bind(condition.name.clone());
        for (sign, value) in tests {
            match value {
                Attribute::Keyword(text) => {
                    query.push(format_args!(" AND a.text_value {sign} "));
                    query.push_bind(text.clone());
                }
                Attribute::Float(number) => {
                    query.push(format_args!(" AND a.float_value {sign} "));
                    query.push_bind(*number);
                }
                other => {
                    query.push(format_args!(" AND a.kind = '{}'", other.kind()));
                    query.push(format_args!(" AND a.integer_value {sign} "));
                    // A list is no bound: no row of its kind has an integer.
                    query.push_bind(integer(other).unwrap_or_default());
                }
            }
        }
        query.push(")");
    };
    match &condition.test {
        Test::Is(Attribute::Keywords(texts)) => {
            for text in texts {
                matches(&[("=", &Attribute::Keyword(text.clone()))]);
            }
        }
        Test::Is(value) => matches(&[("=", value)]),
        Test::Within { from, until } => {
            let bounds = [(">=", from), ("<", until)];
            let bounds: Vec<_> = bounds
                .iter()
                .filter_map(|(sign, bound)| Some((*sign, bound.as_ref()?)))
                .collect();
            matches(&bounds);
        }
    }
}

/// The least text that is greater than every text with this prefix; `None` when there is none.
/// Every dialect compares ids by their code points.
fn after_prefix(prefix: &str) -> Option<String> {
    let mut kept: Vec<char> = prefix.chars().collect();
    while let Some(last) = kept.pop() {
        // What is between is the surrogates, which are no characters.
        let next = match last {
            '\u{d7ff}' => Some('\u{e000}'),
            last => char::from_u32(last as u32 + 1),
        };
        if let Some(next) = next {
            kept.push(next);
            return Some(kept.into_iter().collect());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_follows_a_prefix_follows_all_that_begin_with_it() {
        assert_eq!(after_prefix("order-"), Some("order.".to_owned()));
        assert_eq!(after_prefix("a\u{10ffff}"), Some("b".to_owned()));
        assert_eq!(after_prefix("a\u{d7ff}"), Some("a\u{e000}".to_owned()));
        assert_eq!(after_prefix("\u{10ffff}"), None);
        assert_eq!(after_prefix(""), None);
    }
}
