//! The interface as an `OpenAPI` document, made of the handlers themselves.

use utoipa::openapi::path::{Operation, ParameterBuilder, ParameterIn};
use utoipa::openapi::response::ResponseBuilder;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{
    Content, ContentBuilder, ObjectBuilder, OpenApi as Described, Ref, RefOr, Required, Schema,
    Type,
};
use utoipa::{Modify, OpenApi};

use super::problem;

/// The document to which each route adds itself.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "coord control plane",
        description = "Workflows, schedules, task queues, workers, locks and leases of a cluster over HTTP.",
        license(name = "MIT OR Apache-2.0", identifier = "MIT OR Apache-2.0")
    ),
    components(schemas(problem::Document)),
    modifiers(&Common)
)]
struct Interface;

/// What holds for every route.
struct Common;

impl Modify for Common {
    fn modify(&self, document: &mut Described) {
        let components = document.components.get_or_insert_default();
        let bearer = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
        components.add_security_scheme("bearer", bearer);
    }
}

/// Bodies that may be missing: all that they can say has a default.
const OPTIONAL_BODIES: [&str; 6] = [
    "Call",
    "Ending",
    "NamespaceUpdate",
    "Note",
    "Repair",
    "Update",
];

/// Where paths begin that are for no namespace, or name theirs.
const OF_ALL: [&str; 9] = [
    "/api/leases",
    "/api/locks",
    "/api/namespaces",
    "/api/system/activity-timeouts",
    "/api/system/health",
    "/api/system/metrics",
    "/api/system/operator-metrics",
    "/api/system/repair",
    "/api/system/retention/pass",
];

/// The document as JSON, with a line end.
///
/// # Panics
/// Never: every part of it has a JSON form.
pub fn document() -> String {
    let mut document = Interface::openapi();
    for routes in [super::open_routes(), super::known_routes()] {
        document.merge(routes.into_openapi());
    }
    for (path, item) in &mut document.paths.paths {
        let operations = [
            &mut item.get,
            &mut item.put,
            &mut item.post,
            &mut item.delete,
        ];
        for operation in operations.into_iter().flatten() {
            finish(path, operation);
        }
    }
    let mut text = document
        .to_pretty_json()
        .expect("every part of the document has a JSON form");
    text.push('\n');
    text
}

/// Errors, tokens and namespaces, which no handler names.
fn finish(path: &str, operation: &mut Operation) {
    let problem = ContentBuilder::new()
        .schema(Some(Ref::from_schema_name("Problem")))
        .build();
    let problem = ResponseBuilder::new()
        .description("It was not carried out: `reason` says why.")
        .content("application/problem+json", problem)
        .build();
    let responses = &mut operation.responses.responses;
    for response in responses.values_mut() {
        if let RefOr::T(response) = response
            && response.description.is_empty()
        {
            "As asked.".clone_into(&mut response.description);
        }
    }
    responses.insert("default".to_owned(), RefOr::T(problem));
    if let Some(RefOr::T(body)) = &mut operation.request_body
        && body
            .content
            .values()
            .any(|it| matches!(it, RefOr::T(it) if is_optional(it)))
    {
        body.required = Some(Required::False);
    }
    for parameter in operation.parameters.iter_mut().flatten() {
        if let RefOr::T(parameter) = parameter
            && parameter.parameter_in == ParameterIn::Path
        {
            parameter.schema = Some(named());
        }
    }
    if operation.security.is_some() {
        return;
    }
    operation.security = Some(vec![SecurityRequirement::new("bearer", [""; 0])]);
    if !OF_ALL.iter().any(|all| path.starts_with(all)) {
        let namespace = ParameterBuilder::new()
            .name("X-Namespace")
            .parameter_in(ParameterIn::Header)
            .required(Required::False)
            .description(Some("The namespace of the request. Default: `default`."))
            .schema(Some(named()))
            .build();
        operation
            .parameters
            .get_or_insert_default()
            .push(RefOr::T(namespace));
    }
}

fn is_optional(content: &Content) -> bool {
    let Some(RefOr::Ref(schema)) = &content.schema else {
        return false;
    };
    let name = schema.ref_location.rsplit('/').next();
    name.is_some_and(|name| OPTIONAL_BODIES.contains(&name))
}

/// What something is called: text of 1 to 255 bytes without control characters.
fn named() -> RefOr<Schema> {
    let text = ObjectBuilder::new()
        .schema_type(Type::String)
        .min_length(Some(1))
        .max_length(Some(255))
        .pattern(Some("^[ -~]*[!-~]$"));
    RefOr::T(Schema::Object(text.build()))
}
