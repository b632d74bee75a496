//! A `model` section of the configuration, exactly as it may be written.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

use super::check::{
    BYTES_PER_TOKEN_MAX, HEAD_TIMEOUT_MS_MAX, HOLD_WAIT_MAX, IMAGE_TOKENS_MAX, MODELS_MAX,
    OUTPUT_TOKENS_MAX, PRICE_MAX, SILENCE_TIMEOUT_MS_MAX, UPSTREAMS_MAX,
};
use super::{Api, DeniedAs};
use crate::config::CredentialConfig;
use crate::form::FilePath;
use crate::llm::ask::HostedTools;

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
    /// Bytes of text that the gate counts as one token until the provider reports a number. With 1 a call never uses more
    /// than was set aside for it. With 2 to 4 more calls fit into a budget at once, and a call in another script than Latin
    /// may use more than was set aside.
    #[serde(default = "reserve_bytes_per_token")]
    #[schemars(range(min = 1, max = BYTES_PER_TOKEN_MAX))]
    pub reserve_bytes_per_token: u64,
    /// Dialects in which agents may ask this model: `chat`, `responses` and `messages` at `/v1`, `gemini` at `/v1beta`,
    /// `ollama` at `/api`. Each needs an upstream with the same API. Without one, the model is only a tool that agents
    /// call.
    #[serde(default)]
    #[schemars(example = ["chat", "responses", "messages", "gemini", "ollama"])]
    pub faces: Vec<String>,
    /// Tools that a provider would run itself: `deny` refuses a request that offers one, `strip` removes it from the
    /// request, `allow` lets it pass.
    #[serde(default = "hosted_tools")]
    #[schemars(extend("examples" = HostedTools::TEXTS))]
    pub hosted_tools: String,
    /// What an agent gets in place of a denied tool call: `call` a call of the tool `wicketgate_denied`, `text` a text,
    /// `error` an error that ends the answer.
    #[serde(default = "denied_as")]
    #[schemars(extend("examples" = DeniedAs::TEXTS))]
    pub denied_as: String,
    /// Seconds that a request, or a tool call of its answer, waits for an approver.
    #[serde(default = "hold_wait")]
    #[schemars(range(max = HOLD_WAIT_MAX))]
    pub hold_wait: u64,
    /// Members of requests that the gate passes on without knowing them. It refuses others that it does not know.
    #[serde(default)]
    pub pass_members: Vec<String>,
    /// Hosts of images and files that a provider may fetch for a request.
    #[serde(default)]
    pub remote_hosts: Vec<String>,
    /// Tokens of `anthropic-beta` that pass, each exact or with `*` at its end. Default: all but those that let the
    /// provider run or fetch something.
    pub betas: Option<Vec<String>>,
    /// Milliseconds for a provider to begin its answer.
    #[serde(default = "head_timeout_ms")]
    #[schemars(range(min = 1, max = HEAD_TIMEOUT_MS_MAX))]
    pub head_timeout_ms: u64,
    /// Milliseconds that a provider may be silent in the middle of an answer.
    #[serde(default = "silence_timeout_ms")]
    #[schemars(range(min = 1, max = SILENCE_TIMEOUT_MS_MAX))]
    pub silence_timeout_ms: u64,
    /// The upstreams. The gate asks the next one only if the one before could not be reached, did not begin to answer
    /// within `head_timeout_ms`, or answered that it does not work now (408, 429, 5xx). A connection that is lost after
    /// the request was sent ends the call: the provider may bill it.
    #[schemars(length(min = 1, max = UPSTREAMS_MAX))]
    pub upstreams: Vec<ModelUpstreamConfig>,
}

/// More than any provider is known to take for one image in its finest detail.
const fn image_tokens_max() -> u64 {
    50_000
}

/// A token has at least one byte.
const fn reserve_bytes_per_token() -> u64 {
    1
}

fn hosted_tools() -> String {
    HostedTools::Deny.as_str().to_owned()
}

fn denied_as() -> String {
    DeniedAs::Call.as_str().to_owned()
}

const fn hold_wait() -> u64 {
    20
}

const fn head_timeout_ms() -> u64 {
    120_000
}

const fn silence_timeout_ms() -> u64 {
    300_000
}

/// One upstream of a model.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ModelUpstreamConfig {
    /// Name of the upstream in answers and entries: `[A-Za-z0-9_.-]{1,128}`.
    pub name: String,
    /// API of the upstream: `openai` (chat completions, as many servers speak them), `openai.responses`, `anthropic`,
    /// `gemini` (base URL up to `/v1beta`) or `ollama` (base URL without a path).
    #[schemars(extend("examples" = Api::TEXTS))]
    pub api: String,
    /// Provider that the upstream belongs to, as `spec.model.provider` of manifests names it.
    pub provider: Option<String>,
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
    /// Whether the upstream speaks HTTP/2: all requests share one connection. Over `https://` the server must agree to it
    /// in the handshake; over `http://` the gate begins with it.
    #[serde(default)]
    pub http2: bool,
    /// What tokens cost at this upstream.
    pub price: Option<Price>,
    /// With `api: openai`, the member that bounds the answer: `max_tokens` or `max_completion_tokens`. Default: the newer
    /// one for OpenAI and Azure, whose models refuse the older, and the older one elsewhere.
    #[schemars(extend("examples" = ["max_tokens", "max_completion_tokens"]))]
    pub output_tokens_field: Option<String>,
    /// Whether its models have tool calls of their own. With `false`, the gate's managed loop offers tools as instructions.
    #[serde(default = "native_tools")]
    pub native_tools: bool,
}

const fn native_tools() -> bool {
    true
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
    /// Price of a million input tokens that the provider had in its cache. Default: that of input.
    #[schemars(range(max = PRICE_MAX))]
    pub cached_input: Option<u64>,
    /// Price of a million input tokens that the provider writes into its cache. Default: that of input.
    #[schemars(range(max = PRICE_MAX))]
    pub cache_write: Option<u64>,
    /// The same for an hour. Default: `cache_write`.
    #[schemars(range(max = PRICE_MAX))]
    pub cache_write_1h: Option<u64>,
}
