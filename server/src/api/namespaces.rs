//! Namespaces: what each is for, and how long its closed runs are kept.

use std::time::Duration;

use axum::Json;
use axum::http::StatusCode;
use coord_engine::model::Namespace;
use coord_engine::store::{NamespaceChange, NamespaceListing, NamespaceRecord, NewNamespace};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::caller::{Administer, Everywhere, Reaching, Read};
use super::input::{Asked, At, Body};
use super::instant::shown;
use super::page;
use super::problem::Problem;
use super::workflows::named;
use crate::Node;

const DAY: Duration = Duration::from_hours(24);
/// The longest retention that may be asked for.
const MOST_DAYS: u32 = 365;
/// The longest description, in characters.
const LONGEST_DESCRIPTION: usize = 1000;

pub(super) fn routes() -> OpenApiRouter<Node> {
    OpenApiRouter::new()
        .routes(routes!(list, create))
        .routes(routes!(describe, change))
}

/// A namespace that is registered.
#[derive(Serialize, ToSchema)]
struct NamespaceItem {
    name: String,
    /// What it is for, for people.
    description: Option<String>,
    /// For how many days its closed runs are kept, rounded up.
    retention_days: u64,
    /// The same in seconds.
    retention_seconds: u64,
    /// Always `active`: there is no other state.
    status: &'static str,
    /// When it was registered; `null` when a version did so that did not note it.
    created_at: Option<String>,
}

impl NamespaceItem {
    fn of(record: &NamespaceRecord) -> Self {
        Self {
            name: record.namespace.to_string(),
            description: record.description.clone(),
            retention_days: record.retention.as_secs().div_ceil(DAY.as_secs()),
            retention_seconds: record.retention.as_secs(),
            status: "active",
            created_at: record.created_at.and_then(shown),
        }
    }
}

/// Which namespaces to list.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct Wanted {
    /// How many at most, from 1 to 200. Default: 50.
    #[param(minimum = 1, maximum = 200)]
    page_size: Option<u32>,
    /// Where the page begins, as the page before said.
    next_page_token: Option<String>,
}

/// A page of namespaces.
#[derive(Serialize, ToSchema)]
struct NamespacePage {
    namespaces: Vec<NamespaceItem>,
    next_page_token: Option<String>,
}

/// The namespaces that are registered and that the token reaches, by their names.
///
/// One that is not registered serves as well: what is registered is for people to find.
#[utoipa::path(get, path = "/namespaces", tag = "namespaces", params(Wanted),
    responses((status = 200, body = NamespacePage)))]
async fn list(
    caller: Reaching<Read>,
    Asked(wanted): Asked<Wanted>,
) -> Result<Json<NamespacePage>, Problem> {
    let listing = NamespaceListing {
        limit: page::length(wanted.page_size)?,
        after: page::place::<Namespace>(wanted.next_page_token.as_deref())?,
    };
    let found = caller.node.engine().list_namespaces(&listing).await?;
    let reached = found.namespaces.iter();
    let reached = reached.filter(|record| caller.reaches(&record.namespace).is_ok());
    Ok(Json(NamespacePage {
        namespaces: reached.map(NamespaceItem::of).collect(),
        next_page_token: found.next.as_ref().map(page::token),
    }))
}

/// A namespace to be registered.
#[derive(Deserialize, ToSchema)]
struct NamespaceNew {
    #[schema(min_length = 1, max_length = 255)]
    name: String,
    /// What it is for, for people.
    #[schema(max_length = 1000)]
    description: Option<String>,
    /// For how many days its closed runs are kept. Default: as long as the node keeps all others.
    #[schema(minimum = 1, maximum = 365)]
    retention_days: Option<u32>,
}

/// Registers a namespace.
#[utoipa::path(post, path = "/namespaces", tag = "namespaces", request_body = NamespaceNew,
    responses((status = 201, body = NamespaceItem)))]
async fn create(
    caller: Everywhere<Administer>,
    Body(new): Body<NamespaceNew>,
) -> Result<(StatusCode, Json<NamespaceItem>), Problem> {
    let engine = caller.node.engine();
    let namespace = named("name", Namespace::new(new.name))?;
    let new = NewNamespace {
        namespace: namespace.clone(),
        description: described(new.description)?,
        retention: kept(new.retention_days)?.unwrap_or_else(|| engine.retention()),
    };
    if !engine.create_namespace(&new).await? {
        let why = format!("the namespace {namespace} is registered");
        let taken = Problem::conflict("namespace_already_exists", why);
        return Err(taken.with("namespace", namespace.to_string()));
    }
    let record = engine.describe_namespace(&namespace).await?;
    let record = record.ok_or_else(|| missing(&namespace))?;
    Ok((StatusCode::CREATED, Json(NamespaceItem::of(&record))))
}

fn described(description: Option<String>) -> Result<Option<String>, Problem> {
    match description {
        Some(text) if text.chars().count() > LONGEST_DESCRIPTION => {
            let why = format!("it has at most {LONGEST_DESCRIPTION} characters");
            Err(Problem::field("description", why))
        }
        description => Ok(description),
    }
}

fn kept(days: Option<u32>) -> Result<Option<Duration>, Problem> {
    match days {
        None => Ok(None),
        Some(days) if (1..=MOST_DAYS).contains(&days) => Ok(Some(DAY * days)),
        Some(_) => {
            let why = format!("it is from 1 to {MOST_DAYS}");
            Err(Problem::field("retention_days", why))
        }
    }
}

fn missing(namespace: &Namespace) -> Problem {
    let why = format!("the namespace {namespace} is not registered");
    Problem::missing("namespace_not_found", why).with("namespace", namespace.to_string())
}

/// What a namespace was registered with.
#[utoipa::path(get, path = "/namespaces/{namespace}", tag = "namespaces",
    params(("namespace" = String, Path)), responses((status = 200, body = NamespaceItem)))]
async fn describe(
    caller: Reaching<Read>,
    At(namespace): At<Namespace>,
) -> Result<Json<NamespaceItem>, Problem> {
    caller.reaches(&namespace)?;
    let record = caller.node.engine().describe_namespace(&namespace).await?;
    let record = record.ok_or_else(|| missing(&namespace))?;
    Ok(Json(NamespaceItem::of(&record)))
}

/// What is to change; what is left out stays as it is.
#[derive(Deserialize, ToSchema)]
struct NamespaceUpdate {
    /// What it is for, for people.
    #[schema(max_length = 1000)]
    description: Option<String>,
    /// For how many days its closed runs are kept.
    #[schema(minimum = 1, maximum = 365)]
    retention_days: Option<u32>,
}

/// Changes what a namespace was registered with.
#[utoipa::path(put, path = "/namespaces/{namespace}", tag = "namespaces", request_body = NamespaceUpdate,
    params(("namespace" = String, Path)), responses((status = 200, body = NamespaceItem)))]
async fn change(
    caller: Everywhere<Administer>,
    At(namespace): At<Namespace>,
    Body(change): Body<NamespaceUpdate>,
) -> Result<Json<NamespaceItem>, Problem> {
    let engine = caller.node.engine();
    let change = NamespaceChange {
        namespace: namespace.clone(),
        description: described(change.description)?,
        retention: kept(change.retention_days)?,
    };
    if !engine.change_namespace(&change).await? {
        return Err(missing(&namespace));
    }
    let record = engine.describe_namespace(&namespace).await?;
    let record = record.ok_or_else(|| missing(&namespace))?;
    Ok(Json(NamespaceItem::of(&record)))
}
