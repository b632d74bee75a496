//! The checks of an `http` binding.

use super::{Http, config};
use crate::check::Draft;
use crate::domain::json::{Json, Limits};
use crate::host::Origin;
use crate::outbound::{ca, credentials, headers, ranges, reachable};
use crate::schema::Schema;
use crate::template::{Body, BodyTemplate, PathTemplate, Template};
use crate::{ConfigError, Kind, Problems, Section};

const METHODS: [&str; 6] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"];
impl Section for config::HttpConfig {
    fn check(&self, draft: &Draft<'_>, problems: &mut Problems) -> Option<(Schema, Kind)> {
        let schema = draft.schema(None, problems);
        let http = request(self, draft, schema.as_ref(), problems);
        Some((schema?, Kind::Http(Box::new(http?))))
    }
}

fn request(
    http: &config::HttpConfig,
    draft: &Draft<'_>,
    schema: Option<&Schema>,
    problems: &mut Problems,
) -> Option<Http> {
    let Draft { tool, at, surroundings, .. } = *draft;
    let credentials = credentials(&tool.credentials, at, surroundings, problems);
    let at = format!("{at}.http");
    let method = method(&http.method, &at, problems);
    let origin = problems.take(&format!("{at}.url"), Origin::parse(&http.url));
    let ranges = ranges(&http.private_addresses, &at, problems);
    if let Some((origin, _)) = &origin {
        reachable(origin, &ranges, !tool.credentials.is_empty(), &at, problems);
    }
    let path = origin
        .as_ref()
        .and_then(|(_, path)| problems.take(&format!("{at}.url"), PathTemplate::parse(path)));
    let query = query(&http.query, &at, problems);
    let headers = headers(&http.headers, &at, problems);
    let body = body(http.body.as_ref(), &http.method, &format!("{at}.body"), problems);
    let to = origin.as_ref().map(|(origin, _)| origin);
    let ca = ca(http.ca_file.as_deref(), to, &at, surroundings, problems);
    if let Some(schema) = schema {
        known(schema, path.as_ref(), &query, body.as_ref(), &at, problems);
    }
    let (origin, _) = origin?;
    Some(Http {
        method: method?,
        origin,
        path: path?,
        query,
        headers,
        body: body?,
        private_addresses: ranges,
        ca: ca?,
        credentials,
    })
}

fn method(method: &str, at: &str, problems: &mut Problems) -> Option<http::Method> {
    if !METHODS.contains(&method) {
        let known = METHODS.join("`, `");
        problems.add(format!("{at}.method"), format!("`{method}` is not one of `{known}`"));
        return None;
    }
    problems.take(&format!("{at}.method"), http::Method::from_bytes(method.as_bytes()))
}

fn query(
    query: &std::collections::BTreeMap<String, String>,
    at: &str,
    problems: &mut Problems,
) -> Vec<(String, Template)> {
    let mut out = Vec::new();
    for (name, template) in query {
        let at = format!("{at}.query.{name}");
        if name.is_empty() || name.contains(['{', '}']) {
            problems.add(at.as_str(), "the name of a query parameter is literal");
        }
        if let Some(template) = problems.take(&at, Template::parse(template)) {
            out.push((name.clone(), template));
        }
    }
    out
}

fn body(
    body: Option<&serde_json::Value>,
    method: &str,
    at: &str,
    problems: &mut Problems,
) -> Option<Body> {
    let Some(value) = body else {
        if matches!(method, "POST" | "PUT" | "PATCH") {
            problems.add(at, format!("say what a {method} sends: `none`, `args` or a JSON object"));
            return None;
        }
        return Some(Body::None);
    };
    let read = match value.as_str() {
        Some("none") => Ok(Body::None),
        Some("args") => Ok(Body::Args),
        Some(other) => Err(format!("`{other}` is not one of `none`, `args` or a JSON object")),
        None if value.is_object() || value.is_array() => {
            Json::parse(value.to_string().as_bytes(), &Limits::ARGUMENTS)
                .map_err(|error| error.to_string())
                .and_then(|value| BodyTemplate::parse(&value).map_err(|e| e.to_string()))
                .map(|template| Body::Json(Box::new(template)))
        }
        None => Err("a body is `none`, `args` or a JSON object".into()),
    };
    let read = problems.take(at, read)?;
    if read != Body::None && matches!(method, "GET" | "HEAD") {
        problems.add(at, format!("a {method} has no body"));
        return None;
    }
    Some(read)
}

/// Every place must name an argument that exists, and a path cannot do without its own.
fn known(
    schema: &Schema,
    path: Option<&PathTemplate>,
    query: &[(String, Template)],
    body: Option<&Body>,
    at: &str,
    problems: &mut Problems,
) {
    let mut check = |place: String, argument: &str, needed: bool| {
        if !schema.knows(argument) {
            problems.0.push(ConfigError {
                path: place,
                message: format!("`{argument}` is no argument of the schema"),
            });
        } else if needed && !schema.requires(argument) {
            problems.0.push(ConfigError {
                path: place,
                message: format!("`{argument}` fills the path, so the schema must require it"),
            });
        }
    };
    for argument in path.iter().flat_map(|path| path.arguments()) {
        check(format!("{at}.url"), argument, true);
    }
    for (name, template) in query {
        for argument in template.arguments() {
            check(format!("{at}.query.{name}"), argument, false);
        }
    }
    if let Some(Body::Json(template)) = body {
        for argument in template.arguments() {
            check(format!("{at}.body"), argument, false);
        }
    }
}
