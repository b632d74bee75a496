//! The `model` kind: a model, and its upstreams in order.

mod check;
pub mod config;

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU64;
use std::time::Duration;

use self::config::Price;
use super::address::Cidr;
use super::binding::Credential;
use super::host::Origin;
use super::secret::Secret;
use super::{Reach, definition};
use crate::domain::closed::texts;
use crate::domain::dialect::Dialect;
use crate::domain::effect::ToolKind;
use crate::domain::json::Json;
use crate::llm::ask::{self, AskRules};

/// A model and its upstreams, in order.
#[derive(Debug)]
pub struct Model {
    /// Tokens one call may write.
    pub output_tokens_max: u64,
    /// What the input of a call is taken for.
    pub reserve: InputReserve,
    /// At least one; either all of them have a price or none has.
    pub upstreams: Vec<ModelUpstream>,
    /// What agents may ask in dialects; none if they may not.
    pub face: Option<ModelFace>,
}

/// The tokens that the input of a call is taken for until its provider has counted them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InputReserve {
    /// Tokens of one image.
    pub image_tokens: u64,
    /// Bytes of text that count as one token.
    pub bytes_per_token: NonZeroU64,
}

impl InputReserve {
    /// The tokens of so much text and so many images.
    #[must_use]
    pub const fn input_tokens(&self, text_bytes: u64, images: u64) -> u64 {
        let text = text_bytes.div_ceil(self.bytes_per_token.get());
        text.saturating_add(images.saturating_mul(self.image_tokens))
    }
}

/// How agents may ask a model in dialects of their own.
#[derive(Clone, Debug)]
pub struct ModelFace {
    /// The dialects, each with an upstream that speaks it.
    pub dialects: BTreeSet<Dialect>,
    /// Model ids, each with a dialect in which an upstream knows it, and the provider of that
    /// upstream.
    pub offered: Vec<(Dialect, String, Option<String>)>,
    /// Model ids whose first upstream for `chat` has no tool calls.
    pub without_tools: BTreeSet<String>,
    /// What requests may hold.
    pub rules: AskRules,
    /// What an agent gets in place of a denied tool call.
    pub denied_as: DeniedAs,
    /// How long an answer waits for an approver of one of its tool calls.
    pub hold_wait: Duration,
    /// Tokens of `anthropic-beta` that pass; none: all but those that let the provider act.
    pub betas: Option<Vec<String>>,
    /// How long a provider may take to begin its answer.
    pub head_timeout: Duration,
    /// How long a provider may be silent in the middle of an answer.
    pub silence_timeout: Duration,
}

impl ModelFace {
    /// Whether it takes requests in this dialect.
    pub fn speaks(&self, dialect: Dialect) -> bool {
        self.dialects.contains(&dialect)
    }

    /// Whether an upstream of this dialect knows the model, by its exact id.
    pub fn serves(&self, dialect: Dialect, model: &str) -> bool {
        self.offered.iter().any(|(of, id, _)| *of == dialect && id == model)
    }

    /// The provider of the first upstream that serves it.
    pub fn provider(&self, dialect: Dialect, model: &str) -> Option<&str> {
        let first = self.offered.iter().find(|(of, id, _)| *of == dialect && id == model);
        first.and_then(|(_, _, provider)| provider.as_deref())
    }

    /// The tokens of these values of `anthropic-beta` that reach the provider.
    pub fn betas_of(&self, sent: &[&str]) -> Vec<String> {
        let Some(allowed) = &self.betas else { return ask::betas(sent, &ask::BETAS_DENIED) };
        let fits = |token: &String| {
            allowed.iter().any(|allowed| match allowed.strip_suffix('*') {
                Some(beginning) => token.starts_with(beginning),
                None => token == allowed,
            })
        };
        let mut tokens = ask::betas(sent, &[]);
        tokens.retain(fits);
        tokens
    }

    /// Whether the model cannot call tools by itself.
    #[must_use]
    pub fn lacks_tools(&self, model: &str) -> bool {
        self.without_tools.contains(model)
    }

    /// Every model id with every dialect in which it may be asked.
    pub fn offers(&self) -> impl Iterator<Item = (&str, Dialect)> {
        self.offered.iter().map(|(dialect, id, _)| (id.as_str(), *dialect))
    }
}

texts! {
    /// What an agent gets in place of a denied tool call.
    pub enum DeniedAs {
        /// A call of the tool `wicketgate_denied`, with the reason.
        Call = "call",
        /// A text with the reason.
        Text = "text",
        /// An error that ends the answer.
        Error = "error",
    }
}

/// One upstream of a model.
#[derive(Debug)]
pub struct ModelUpstream {
    /// What answers and entries call it.
    pub name: String,
    /// The provider it belongs to, as manifests name it.
    pub provider: Option<String>,
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
    /// Whether it speaks HTTP/2.
    pub http2: bool,
    /// What tokens cost here.
    pub price: Option<Price>,
    /// The member of a request that bounds its answer.
    pub output_tokens_field: &'static str,
    /// Whether its models have tool calls.
    pub native_tools: bool,
}

texts! {
    /// What a model's server speaks.
    pub enum Api {
        /// `POST <base>/chat/completions`.
        OpenAi = "openai",
        /// `POST <base>/responses`.
        Responses = "openai.responses",
        /// `POST <base>/messages`.
        Anthropic = "anthropic",
        /// `POST <base>/models/<model>:generateContent`.
        Gemini = "gemini",
        /// `POST <base>/api/chat`.
        Ollama = "ollama",
    }
}

impl Api {
    /// What follows the base URL; a model and an action follow that of Gemini.
    pub const fn path(self) -> &'static str {
        match self {
            Self::OpenAi => "/chat/completions",
            Self::Responses => "/responses",
            Self::Anthropic => "/messages",
            Self::Gemini => "/models",
            Self::Ollama => "/api/chat",
        }
    }

    /// The dialect of agents that it is, if one is.
    pub const fn dialect(self) -> Option<Dialect> {
        match self {
            Self::OpenAi => Some(Dialect::Chat),
            Self::Responses => Some(Dialect::Responses),
            Self::Anthropic => Some(Dialect::Messages),
            Self::Gemini => Some(Dialect::Gemini),
            Self::Ollama => Some(Dialect::Ollama),
        }
    }

    /// The API that speaks a dialect.
    pub const fn of(dialect: Dialect) -> Self {
        match dialect {
            Dialect::Chat => Self::OpenAi,
            Dialect::Responses => Self::Responses,
            Dialect::Messages => Self::Anthropic,
            Dialect::Gemini => Self::Gemini,
            Dialect::Ollama => Self::Ollama,
        }
    }
}

impl Reach for Model {
    fn kind(&self) -> ToolKind {
        ToolKind::Model
    }

    fn definition(&self) -> Json {
        let upstreams: Vec<Json> = self.upstreams.iter().map(upstream).collect();
        let face = self.face.as_ref().map(|face| {
            // What decides about a request, and what is done with an answer.
            serde_json::json!({
                "betas": face.betas,
                "denied_as": face.denied_as,
                "faces": face.dialects,
                "hosted_tools": face.rules.hosted_tools.as_str(),
                "pass_members": face.rules.pass_members,
                "remote_hosts": face.rules.remote_hosts,
            })
        });
        let members = serde_json::json!({
            "output_tokens_max": self.output_tokens_max,
            "upstreams": upstreams.iter().map(Json::to_serde).collect::<Vec<_>>(),
        });
        definition::with(members, [("face", face)]).into()
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
    let price = upstream.price.map(|price| {
        let members = serde_json::json!({"input": price.input, "output": price.output});
        let others = [
            ("cached_input", price.cached_input),
            ("cache_write", price.cache_write),
            ("cache_write_1h", price.cache_write_1h),
        ];
        definition::with(members, others.map(|(name, price)| (name, price.map(Into::into))))
    });
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
    let provider = upstream.provider.as_deref().map(Into::into);
    let native_tools = (!upstream.native_tools).then(|| false.into());
    let others =
        [("native_tools", native_tools), ("output_tokens_field", field), ("provider", provider)];
    definition::with(members, others).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_input_is_taken_for_no_less_than_its_bytes_and_images() {
        let of = |bytes: u64| InputReserve {
            image_tokens: 10,
            bytes_per_token: NonZeroU64::new(bytes).unwrap(),
        };
        assert_eq!((of(1).input_tokens(7, 0), of(1).input_tokens(7, 2)), (7, 27));
        assert_eq!((of(4).input_tokens(7, 0), of(4).input_tokens(8, 1)), (2, 12));
        assert_eq!(of(3).input_tokens(0, 0), 0);
        assert_eq!(of(4).input_tokens(u64::MAX, u64::MAX), u64::MAX);
    }
}
