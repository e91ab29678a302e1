//! Who calls, and for which namespace: what every handler takes before anything else.

use std::marker::PhantomData;

use axum::extract::{FromRequestParts, Query, Request, State};
use axum::http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use coord_core::Name;
use coord_engine::client::Client;
use coord_engine::model::{Namespace, Queue};
use serde::Deserialize;

use super::problem::Problem;
use crate::Node;
use crate::access::{Identity, Need};

/// Which namespace a request is for.
const NAMESPACE: &str = "x-namespace";

/// Finds out who calls. Whoever is not known goes no further.
pub(super) async fn identify(
    State(node): State<Node>,
    mut request: Request,
    next: Next,
) -> Response {
    let header = request.headers().get(AUTHORIZATION);
    let bearer = header.and_then(|value| {
        let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
        scheme
            .eq_ignore_ascii_case("bearer")
            .then_some(token.trim())
    });
    let Some(identity) = node.access().identify(bearer) else {
        let why = "a bearer token that this node knows is needed";
        let problem = Problem::new(StatusCode::UNAUTHORIZED, "unauthenticated", why);
        let mut response = problem.into_response();
        let challenge = HeaderValue::from_static("Bearer");
        response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
        return response;
    };
    request.extensions_mut().insert(identity);
    next.run(request).await
}

/// What a handler asks of its caller.
pub(super) trait Right {
    const NEED: Need;
}

/// Any token at all.
pub(super) struct Known;
/// To look.
pub(super) struct Read;
/// To start and steer.
pub(super) struct Operate;
/// All there is.
pub(super) struct Administer;

impl Right for Known {
    const NEED: Need = Need::Known;
}

impl Right for Read {
    const NEED: Need = Need::Read;
}

impl Right for Operate {
    const NEED: Need = Need::Operate;
}

impl Right for Administer {
    const NEED: Need = Need::Administer;
}

/// A caller who may do it in the namespace of the request: that of the header `X-Namespace`, else of
/// the query parameter `namespace`, else the default one.
pub(super) struct Caller<R> {
    pub(super) node: Node,
    pub(super) namespace: Namespace,
    right: PhantomData<R>,
}

/// A caller who may do it to what belongs to no namespace.
pub(super) struct Everywhere<R> {
    pub(super) node: Node,
    identity: Identity,
    right: PhantomData<R>,
}

/// A caller who may do it to the namespaces that its token reaches, which the handler asks for.
pub(super) struct Reaching<R> {
    pub(super) node: Node,
    identity: Identity,
    right: PhantomData<R>,
}

#[derive(Deserialize)]
struct InQuery {
    namespace: Option<String>,
}

impl<R: Right> FromRequestParts<Node> for Caller<R> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, node: &Node) -> Result<Self, Problem> {
        let identity = allowed::<R>(parts)?;
        let namespace = namespace(parts)?;
        reaches(identity, &namespace)?;
        Ok(Self {
            node: node.clone(),
            namespace,
            right: PhantomData,
        })
    }
}

impl<R: Right> FromRequestParts<Node> for Everywhere<R> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, node: &Node) -> Result<Self, Problem> {
        let identity = allowed::<R>(parts)?;
        if !identity.reaches_all() {
            let name = &identity.name;
            let why = format!("the token {name:?} is for some namespaces, and this is for all");
            return Err(forbidden("namespace_forbidden", why));
        }
        Ok(Self {
            node: node.clone(),
            identity: identity.clone(),
            right: PhantomData,
        })
    }
}

impl<R: Right> FromRequestParts<Node> for Reaching<R> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, node: &Node) -> Result<Self, Problem> {
        Ok(Self {
            node: node.clone(),
            identity: allowed::<R>(parts)?.clone(),
            right: PhantomData,
        })
    }
}

impl<R> Reaching<R> {
    /// Its token is for `namespace`.
    pub(super) fn reaches(&self, namespace: &Namespace) -> Result<(), Problem> {
        reaches(&self.identity, namespace)
    }
}

fn reaches(identity: &Identity, namespace: &Namespace) -> Result<(), Problem> {
    if identity.reaches(namespace) {
        return Ok(());
    }
    let why = format!(
        "the token {:?} is not for namespace {namespace}",
        identity.name
    );
    Err(forbidden("namespace_forbidden", why))
}

impl<R> Caller<R> {
    /// A client for the namespace of the request.
    pub(super) fn client(&self) -> Client {
        let queue = Queue::default();
        self.node.engine().client(self.namespace.clone(), queue)
    }
}

impl<R> Everywhere<R> {
    /// Who it is, for the audit log.
    pub(super) fn by(&self) -> Result<Name, Problem> {
        Ok(Name::new(&*self.identity.name)?)
    }
}

fn allowed<R: Right>(parts: &Parts) -> Result<&Identity, Problem> {
    let identity = parts.extensions.get::<Identity>();
    let identity = identity.expect("no route with a caller is without the layer that identifies");
    if identity.role.may(R::NEED) {
        return Ok(identity);
    }
    let why = format!(
        "the role of the token {:?} does not allow this",
        identity.name
    );
    Err(forbidden("role_forbidden", why))
}

fn forbidden(reason: &'static str, why: String) -> Problem {
    Problem::new(StatusCode::FORBIDDEN, reason, why)
}

fn namespace(parts: &Parts) -> Result<Namespace, Problem> {
    let named = match parts.headers.get(NAMESPACE) {
        Some(value) => {
            let unreadable = |_| Problem::field("X-Namespace", "it is no printable ASCII");
            Some(value.to_str().map_err(unreadable)?.to_owned())
        }
        None => {
            Query::<InQuery>::try_from_uri(&parts.uri)
                .map_err(|error| Problem::field("namespace", error.body_text()))?
                .0
                .namespace
        }
    };
    match named {
        Some(named) => {
            Namespace::new(named).map_err(|error| Problem::field("namespace", error.message()))
        }
        None => Ok(Namespace::default()),
    }
}
