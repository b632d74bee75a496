//! The `http` kind: one request to a literal host, with places for arguments.

mod check;
pub mod config;

use std::collections::BTreeMap;

use super::address::Cidr;
use super::binding::Credential;
use super::host::Origin;
use super::secret::Secret;
use super::template::{Body, BodyTemplate, PathTemplate, Template};
use super::{Reach, definition};
use crate::domain::effect::ToolKind;
use crate::domain::json::{Json, json};

/// One HTTP request with places for arguments.
#[derive(Debug)]
pub struct Http {
    /// `GET`, `POST`, ….
    pub method: http::Method,
    /// Scheme, host and port.
    pub origin: Origin,
    /// The path.
    pub path: PathTemplate,
    /// Query parameters in name order.
    pub query: Vec<(String, Template)>,
    /// Literal headers.
    pub headers: Vec<(http::HeaderName, http::HeaderValue)>,
    /// The body.
    pub body: Body,
    /// Ranges outside the public Internet that the binding opens.
    pub private_addresses: Vec<Cidr>,
    /// PEM text of the only certificate authorities to trust; the public ones if absent.
    pub ca: Option<Vec<u8>>,
    /// What the request is authenticated with.
    pub credentials: Vec<Credential>,
}

impl Reach for Http {
    fn kind(&self) -> ToolKind {
        ToolKind::Http
    }

    fn definition(&self) -> Json {
        let url =
            format!("{}://{}{}", self.origin.scheme(), self.origin.authority(), self.path.text());
        let query: BTreeMap<_, _> = self.query.iter().map(|(k, v)| (k, v.as_str())).collect();
        json!({
            "method": self.method.as_str(),
            "url": url,
            "query": query,
            "headers": definition::headers(&self.headers),
            "body": body(&self.body),
            "private_addresses": definition::ranges(&self.private_addresses),
            "ca": definition::authorities(self.ca.as_deref()),
            "credentials": definition::credentials(&self.credentials),
            "isolation": "none",
        })
    }

    fn origins(&self) -> Vec<Origin> {
        vec![self.origin.clone()]
    }

    fn secrets(&self) -> Vec<Secret> {
        self.credentials.iter().map(|one| one.secret.clone()).collect()
    }
}

fn body(body: &Body) -> Json {
    match body {
        Body::None => Json::from("none"),
        Body::Args => Json::from("args"),
        Body::Json(template) => json!({"json": written(template)}),
    }
}

fn written(template: &BodyTemplate) -> Json {
    match template {
        BodyTemplate::Literal(value) => value.clone(),
        BodyTemplate::Text(text) => Json::from(text.as_str()),
        BodyTemplate::Array(items) => items.iter().map(written).collect::<Vec<_>>().into(),
        BodyTemplate::Object(members) => {
            Json::object(members.iter().map(|(name, value)| (name.clone(), written(value))))
        }
    }
}
