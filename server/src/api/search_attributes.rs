//! The search attributes that a namespace declares: what their names are, and of what kind.

use std::collections::BTreeMap;

use axum::Json;
use axum::http::StatusCode;
use coord_engine::model::Namespace;
use coord_engine::store::{AttributeKind, Declaration, Declared};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::caller::{Caller, Operate, Read};
use super::input::{At, Body};
use super::problem::Problem;
use crate::Node;

/// What every run has of itself. Nobody may declare these names.
const SYSTEM: [(&str, AttributeKind); 8] = [
    ("WorkflowType", AttributeKind::Keyword),
    ("WorkflowId", AttributeKind::Keyword),
    ("RunId", AttributeKind::Keyword),
    ("Status", AttributeKind::Keyword),
    ("StartTime", AttributeKind::Datetime),
    ("CloseTime", AttributeKind::Datetime),
    ("TaskQueue", AttributeKind::Keyword),
    ("BuildId", AttributeKind::Keyword),
];

pub(super) fn routes() -> OpenApiRouter<Node> {
    OpenApiRouter::new()
        .routes(routes!(list, declare))
        .routes(routes!(withdraw))
}

/// The search attributes of a namespace: the kind of each by its name.
#[derive(Serialize, ToSchema)]
struct SearchAttributes {
    namespace: String,
    /// What every run has of itself.
    system_attributes: BTreeMap<&'static str, &'static str>,
    /// What the namespace declares.
    custom_attributes: BTreeMap<String, &'static str>,
}

/// The search attributes of the namespace.
#[utoipa::path(get, path = "/search-attributes", tag = "workflows",
    responses((status = 200, body = SearchAttributes)))]
async fn list(caller: Caller<Read>) -> Result<Json<SearchAttributes>, Problem> {
    let engine = caller.node.engine();
    let declared = engine.declared_attributes(&caller.namespace).await?;
    let declared = declared.into_iter();
    Ok(Json(SearchAttributes {
        namespace: caller.namespace.to_string(),
        system_attributes: SYSTEM.map(|(name, kind)| (name, kind.word())).into(),
        custom_attributes: declared.map(|(name, kind)| (name, kind.word())).collect(),
    }))
}

/// A search attribute to be declared.
#[derive(Deserialize, ToSchema)]
struct SearchAttributeNew {
    #[schema(min_length = 1, max_length = 128, pattern = "^[a-zA-Z][a-zA-Z0-9_]*$")]
    name: String,
    /// `keyword`, `text`, `int`, `double`, `bool`, `datetime` or `keyword_list`.
    r#type: String,
}

/// A search attribute that was declared.
#[derive(Serialize, ToSchema)]
struct SearchAttributeMade {
    namespace: String,
    name: String,
    r#type: &'static str,
    /// Always `created`.
    outcome: &'static str,
}

/// Declares a search attribute of the namespace, at most 100, for people and tools to find.
///
/// Runs may have others as well, and values of other kinds: a declaration refuses nothing.
#[utoipa::path(post, path = "/search-attributes", tag = "workflows",
    request_body = SearchAttributeNew, responses((status = 201, body = SearchAttributeMade)))]
async fn declare(
    caller: Caller<Operate>,
    Body(new): Body<SearchAttributeNew>,
) -> Result<(StatusCode, Json<SearchAttributeMade>), Problem> {
    let namespace = &caller.namespace;
    let SearchAttributeNew { name, r#type } = new;
    let kind = AttributeKind::from_word(&r#type).ok_or_else(|| {
        let words = AttributeKind::ALL.map(AttributeKind::word).join(", ");
        Problem::field("type", format!("it is one of {words}"))
    })?;
    let declaration = Declaration::new(namespace.clone(), name.as_str(), kind)
        .map_err(|error| Problem::field("name", error.message()))?;
    if is_system(&name) {
        let why = format!("every run has {name} of itself");
        return Err(Problem::conflict("name_reserved", why));
    }
    match caller.node.engine().declare_attribute(&declaration).await? {
        Declared::Now => {
            let made = SearchAttributeMade {
                namespace: namespace.to_string(),
                name,
                r#type: kind.word(),
                outcome: "created",
            };
            Ok((StatusCode::CREATED, Json(made)))
        }
        Declared::Before(kind) => {
            let why = format!(
                "the namespace {namespace} declares {name} as {}",
                kind.word()
            );
            let taken = Problem::conflict("attribute_already_exists", why);
            Err(taken.with("name", name).with("type", kind.word()))
        }
        Declared::Full(limit) => {
            let why = format!("the namespace {namespace} declares {limit} search attributes");
            let full = Problem::unfit("search_attribute_limit_reached", why);
            Err(full.with("limit", limit))
        }
    }
}

fn is_system(name: &str) -> bool {
    SYSTEM.iter().any(|(system, _)| *system == name)
}

/// A search attribute that was withdrawn.
#[derive(Serialize, ToSchema)]
struct SearchAttributeGone {
    namespace: String,
    name: String,
    /// Always `deleted`.
    outcome: &'static str,
}

/// Takes the declaration of a search attribute back. Runs keep what they have of it.
#[utoipa::path(delete, path = "/search-attributes/{name}", tag = "workflows",
    params(("name" = String, Path)), responses((status = 200, body = SearchAttributeGone)))]
async fn withdraw(
    caller: Caller<Operate>,
    At(name): At<String>,
) -> Result<Json<SearchAttributeGone>, Problem> {
    if is_system(&name) {
        let why = format!("every run has {name} of itself");
        return Err(Problem::conflict("system_attribute", why));
    }
    let namespace = &caller.namespace;
    let engine = caller.node.engine();
    if !engine.withdraw_attribute(namespace, &name).await? {
        return Err(missing(namespace, &name));
    }
    Ok(Json(SearchAttributeGone {
        namespace: namespace.to_string(),
        name,
        outcome: "deleted",
    }))
}

fn missing(namespace: &Namespace, name: &str) -> Problem {
    let why = format!("the namespace {namespace} declares no search attribute {name}");
    Problem::missing("attribute_not_found", why)
}
