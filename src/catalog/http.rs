//! The checks of an `http` binding.

use std::path::Path;

use http::{HeaderName, HeaderValue};

use super::address::{Cidr, is_public};
use super::binding::{self, Place};
use super::check::Surroundings;
use super::config;
use super::host::{self, Host, Origin};
use super::schema::Schema;
use super::secret::Secret;
use super::template::{Body, BodyTemplate, PathTemplate, Template};
use super::{ConfigError, Problems};
use crate::domain::json::{Json, Limits};

const METHODS: [&str; 6] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"];
/// Headers the gate writes itself or that change how a message is framed.
pub(super) const OURS: &[&str] = &[
    "host",
    "content-length",
    "content-type",
    "content-encoding",
    "transfer-encoding",
    "connection",
    "keep-alive",
    "upgrade",
    "te",
    "trailer",
    "expect",
    "accept-encoding",
    "idempotency-key",
    "x-wicketgate-call",
    "traceparent",
    "tracestate",
    "forwarded",
    "x-forwarded-for",
    "via",
];
/// Headers whose value is a secret.
pub(super) const SECRET: &[&str] =
    &["authorization", "cookie", "proxy-authorization", "x-api-key", "api-key"];
/// Bytes of a CA file.
const CA_BYTES_MAX: u64 = 1 << 20;

pub(super) fn check(
    tool: &config::Tool,
    schema: Option<&Schema>,
    at: &str,
    around: &Surroundings<'_>,
    problems: &mut Problems,
) -> Option<binding::Http> {
    let credentials = credentials(&tool.credentials, at, around, problems);
    let Some(http) = &tool.http else {
        problems.add(format!("{at}.http"), "a tool of kind `http` needs it");
        return None;
    };
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
    let ca = ca(http.ca_file.as_deref(), to, &at, around, problems);
    if let Some(schema) = schema {
        known(schema, path.as_ref(), &query, body.as_ref(), &at, problems);
    }
    let (origin, _) = origin?;
    Some(binding::Http {
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
        problems.add(format!("{at}.method"), format!("`{method}` is none of `{known}`"));
        return None;
    }
    problems.take(&format!("{at}.method"), http::Method::from_bytes(method.as_bytes()))
}

pub(super) fn ranges(list: &[String], at: &str, problems: &mut Problems) -> Vec<Cidr> {
    let numbered = list.iter().enumerate();
    numbered
        .filter_map(|(i, r)| problems.take(&format!("{at}.private_addresses[{i}]"), Cidr::parse(r)))
        .collect()
}

/// Whether the host is public, or one of these ranges could hold it.
pub(super) fn allowed(origin: &Origin, ranges: &[Cidr]) -> Result<(), host::Error> {
    let inside = match &origin.host {
        Host::Ip(ip) => !is_public(*ip) && !ranges.iter().any(|range| range.contains(*ip)),
        Host::Name(_) => origin.host.is_internal_name() && ranges.is_empty(),
    };
    if inside {
        return Err(host::Error::Private(origin.host.clone()));
    }
    Ok(())
}

/// Whether the binding could ever connect: better said at load than at the first call.
pub(super) fn reachable(
    origin: &Origin,
    ranges: &[Cidr],
    credentials: bool,
    at: &str,
    problems: &mut Problems,
) {
    let inside = problems.take(&format!("{at}.url"), allowed(origin, ranges)).is_none();
    // The connector goes nowhere else then.
    if let Host::Ip(ip) = &origin.host
        && !inside
        && !origin.tls
        && !ranges.is_empty()
        && !ranges.iter().any(|range| range.contains(*ip))
    {
        let message = format!("`{ip}` is in none of `private_addresses`; use `https`");
        problems.add(format!("{at}.url"), message);
    }
    if credentials && !origin.tls && ranges.is_empty() {
        let message = "credentials travel in clear only to `private_addresses`; use `https`";
        problems.add(format!("{at}.url"), message);
    }
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

pub(super) fn headers(
    headers: &std::collections::BTreeMap<String, String>,
    at: &str,
    problems: &mut Problems,
) -> Vec<(HeaderName, HeaderValue)> {
    literal(headers, &format!("{at}.headers"), problems)
}

/// Literal headers, wherever they are listed.
pub(super) fn literal(
    headers: &std::collections::BTreeMap<String, String>,
    at: &str,
    problems: &mut Problems,
) -> Vec<(HeaderName, HeaderValue)> {
    let mut out = Vec::new();
    for (name, value) in headers {
        let at = format!("{at}.{name}");
        if SECRET.contains(&name.to_ascii_lowercase().as_str()) {
            problems.add(at.as_str(), "a secret is given under `credentials`, never inline");
            continue;
        }
        let name = header_name(name, &at, problems);
        let value = problems.take(&at, HeaderValue::from_str(value));
        if let (Some(name), Some(value)) = (name, value) {
            out.push((name, value));
        }
    }
    out
}

fn header_name(name: &str, at: &str, problems: &mut Problems) -> Option<HeaderName> {
    let lower = name.to_ascii_lowercase();
    if OURS.contains(&lower.as_str()) || lower.starts_with("proxy-") {
        problems.add(at, format!("`{name}` is written by the gate itself"));
        return None;
    }
    problems.take(at, HeaderName::from_bytes(lower.as_bytes()))
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
        Some(other) => Err(format!("`{other}` is none of `none`, `args` or a JSON object")),
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

pub(super) fn ca(
    file: Option<&Path>,
    origin: Option<&Origin>,
    at: &str,
    around: &Surroundings<'_>,
    problems: &mut Problems,
) -> Option<Option<Vec<u8>>> {
    let Some(file) = file else { return Some(None) };
    let at = format!("{at}.ca_file");
    if origin.is_some_and(|origin| !origin.tls) {
        problems.add(at.as_str(), "means nothing without `https`");
    }
    let pem = problems.take(&at, around.read(file, CA_BYTES_MAX))?;
    if !pem.windows(27).any(|w| w == b"-----BEGIN CERTIFICATE-----") {
        problems.add(at, "holds no certificate");
        return None;
    }
    Some(Some(pem))
}

pub(super) fn credentials(
    list: &[config::Credential],
    at: &str,
    around: &Surroundings<'_>,
    problems: &mut Problems,
) -> Vec<binding::Credential> {
    let mut out = Vec::new();
    for (i, entry) in list.iter().enumerate() {
        let at = format!("{at}.credentials[{i}]");
        if entry.origin.is_some() {
            problems.add(format!("{at}.origin"), "means something for kind `fetch` only");
        }
        out.extend(credential(entry, &at, around, problems));
    }
    out
}

pub(super) fn credential(
    credential: &config::Credential,
    at: &str,
    around: &Surroundings<'_>,
    problems: &mut Problems,
) -> Option<binding::Credential> {
    if credential.value.is_some() {
        problems.add(format!("{at}.value"), "a secret is given by `file` or `env`, never inline");
    }
    let place = match (&credential.header, &credential.query) {
        (Some(name), None) => {
            header_name(name, &format!("{at}.header"), problems).map(Place::Header)
        }
        (None, Some(name)) => Some(Place::Query(name.clone())),
        (None, None) | (Some(_), Some(_)) => {
            problems.add(at, "give one of `header` and `query`");
            None
        }
    };
    let prefix = credential.prefix.clone().unwrap_or_default();
    if !prefix.bytes().all(|b| (0x20..0x7f).contains(&b)) {
        problems.add(format!("{at}.prefix"), "is visible ASCII");
    }
    if !prefix.is_empty() && credential.query.is_some() {
        problems.add(format!("{at}.prefix"), "stands before a secret in a header only");
    }
    let source = (credential.file.as_deref(), credential.env.as_deref());
    let (secret, reference) = secret(source, "env", at, around, problems)?;
    Some(binding::Credential { place: place?, prefix, secret, reference })
}

/// A secret from a file or from the environment (`variable` is that field's name), and its reference.
pub(super) fn secret(
    source: (Option<&Path>, Option<&str>),
    variable: &str,
    at: &str,
    around: &Surroundings<'_>,
    problems: &mut Problems,
) -> Option<(Secret, String)> {
    let (reference, secret) = match source {
        (Some(file), None) => {
            let secret = Secret::of_file(&around.base_dir.join(file));
            (format!("file:{}", file.display()), problems.take(&format!("{at}.file"), secret))
        }
        (None, Some(name)) => {
            let text = (around.env)(name).map(zeroize::Zeroizing::new);
            let text = text.ok_or_else(|| format!("`{name}` is not set"));
            let secret = text.and_then(|text| Secret::parse(&text).map_err(|e| e.to_string()));
            (format!("env:{name}"), problems.take(&format!("{at}.{variable}"), secret))
        }
        (None, None) | (Some(_), Some(_)) => {
            problems.add(at, format!("give one of `file` and `{variable}`"));
            return None;
        }
    };
    Some((secret?, reference))
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
