//! The `model` kind: a model, and its upstreams in order.

mod check;
pub mod config;

use std::collections::BTreeMap;

use self::config::Price;
use super::address::Cidr;
use super::binding::Credential;
use super::host::Origin;
use super::secret::Secret;
use super::{Reach, definition};
use crate::domain::closed::texts;
use crate::domain::effect::ToolKind;
use crate::domain::json::{Json, json};

/// A model and its upstreams, in order.
#[derive(Debug)]
pub struct Model {
    /// Tokens one call may write.
    pub output_tokens_max: u64,
    /// Tokens one image is taken for.
    pub image_tokens_max: u64,
    /// At least one; either all of them have a price or none has.
    pub upstreams: Vec<ModelUpstream>,
}

/// One upstream of a model.
#[derive(Debug)]
pub struct ModelUpstream {
    /// What answers and entries call it.
    pub name: String,
    /// How it is spoken to.
    pub api: Api,
    /// Scheme, host and port.
    pub origin: Origin,
    /// The path of its base URL, without a slash at its end.
    pub path: String,
    /// Ids that agents may ask for, each with this upstream's own id.
    pub models: BTreeMap<String, String>,
    /// Literal headers.
    pub headers: Vec<(http::HeaderName, http::HeaderValue)>,
    /// What requests are authenticated with: headers only.
    pub credentials: Vec<Credential>,
    /// Ranges outside the public Internet that the binding opens.
    pub private_addresses: Vec<Cidr>,
    /// PEM text of the only certificate authorities to trust; the public ones if absent.
    pub ca: Option<Vec<u8>>,
    /// What tokens cost here.
    pub price: Option<Price>,
    /// The member of a request that bounds its answer.
    pub output_tokens_field: &'static str,
}

texts! {
    /// What a model's server speaks.
    pub enum Api {
        /// `POST <base>/chat/completions`.
        OpenAi = "openai",
        /// `POST <base>/api/chat`.
        Ollama = "ollama",
    }
}

impl Api {
    /// What follows the base URL.
    pub const fn path(self) -> &'static str {
        match self {
            Self::OpenAi => "/chat/completions",
            Self::Ollama => "/api/chat",
        }
    }
}

impl Reach for Model {
    fn kind(&self) -> ToolKind {
        ToolKind::Model
    }

    fn definition(&self) -> Json {
        let upstreams: Vec<Json> = self.upstreams.iter().map(upstream).collect();
        json!({"output_tokens_max": self.output_tokens_max, "upstreams": upstreams})
    }

    fn origins(&self) -> Vec<Origin> {
        self.upstreams.iter().map(|one| one.origin.clone()).collect()
    }

    fn secrets(&self) -> Vec<Secret> {
        let all = self.upstreams.iter().flat_map(|upstream| &upstream.credentials);
        all.map(|one| one.secret.clone()).collect()
    }
}

fn upstream(upstream: &ModelUpstream) -> Json {
    let url =
        format!("{}://{}{}", upstream.origin.scheme(), upstream.origin.authority(), upstream.path);
    let price = upstream.price.map(|price| json!({"input": price.input, "output": price.output}));
    let members = serde_json::json!({
        "name": upstream.name,
        "api": upstream.api,
        "url": url,
        "models": upstream.models,
        "headers": definition::headers(&upstream.headers),
        "private_addresses": definition::ranges(&upstream.private_addresses),
        "ca": definition::authorities(upstream.ca.as_deref()),
        "credentials": definition::credentials(&upstream.credentials),
        "price": price,
    });
    let field = upstream.output_tokens_field;
    let field = (field != "max_tokens").then(|| field.into());
    definition::with(members, [("output_tokens_field", field)]).into()
}
