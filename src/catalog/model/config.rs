//! A `model` section of the configuration, exactly as it may be written.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

use super::check::{IMAGE_TOKENS_MAX, MODELS_MAX, OUTPUT_TOKENS_MAX, PRICE_MAX, UPSTREAMS_MAX};
use crate::config::CredentialConfig;
use crate::form::FilePath;

/// A model and the upstreams that serve it, in order.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ModelConfig {
    /// Maximum number of tokens that one call may generate.
    #[schemars(range(min = 1, max = OUTPUT_TOKENS_MAX))]
    pub output_tokens_max: u64,
    /// Tokens that the gate counts for one image until the provider reports a number. Providers price an image by its
    /// pixels, which the gate cannot read from its bytes.
    #[serde(default = "image_tokens_max")]
    #[schemars(range(min = 1, max = IMAGE_TOKENS_MAX))]
    pub image_tokens_max: u64,
    /// The upstreams. The gate asks the next one only if the one before could not be reached, or answered that it does
    /// not work now (408, 429, 5xx).
    #[schemars(length(min = 1, max = UPSTREAMS_MAX))]
    pub upstreams: Vec<ModelUpstreamConfig>,
}

/// More than any provider is known to take for one image in its finest detail.
const fn image_tokens_max() -> u64 {
    50_000
}

/// One upstream of a model.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ModelUpstreamConfig {
    /// Name of the upstream in answers and entries: `[A-Za-z0-9_.-]{1,128}`.
    pub name: String,
    /// API of the upstream: `openai` (chat completions, as many servers speak them) or `ollama`.
    #[schemars(extend("examples" = ["openai", "ollama"]))]
    pub api: String,
    /// Literal base URL.
    #[schemars(extend("examples" = ["https://api.openai.com/v1", "http://127.0.0.1:11434"]))]
    pub url: String,
    /// Model ids that agents may request, at least one, each with the id that the upstream knows.
    #[schemars(extend("maxProperties" = MODELS_MAX))]
    pub models: BTreeMap<String, String>,
    /// Literal headers of every request.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// Secrets that requests are authenticated with, in headers only.
    #[serde(default)]
    pub credentials: Vec<CredentialConfig>,
    /// Address ranges outside the public Internet that the upstream may be reached at.
    #[serde(default)]
    #[schemars(example = ["10.0.0.0/8"])]
    pub private_addresses: Vec<String>,
    /// PEM file of the only certificate authorities to trust, relative to the configuration file.
    #[schemars(with = "Option<FilePath>")]
    pub ca_file: Option<PathBuf>,
    /// What tokens cost at this upstream.
    pub price: Option<Price>,
    /// With `api: openai`, the member that bounds the answer: `max_tokens` or `max_completion_tokens`. Default: the newer
    /// one for OpenAI and Azure, whose models refuse the older, and the older one elsewhere.
    #[schemars(extend("examples" = ["max_tokens", "max_completion_tokens"]))]
    pub output_tokens_field: Option<String>,
}

/// What tokens cost, in millionths of a US dollar for a million of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// Price of a million input tokens, in millionths of a US dollar.
    #[schemars(range(max = PRICE_MAX))]
    pub input: u64,
    /// Price of a million output tokens, in millionths of a US dollar.
    #[schemars(range(max = PRICE_MAX))]
    pub output: u64,
}
