//! Checks the `model` kind: its upstreams in order, their ids and prices.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU64;
use std::path::Path;
use std::time::Duration;

use super::config::{self, Price};
use super::{Api, DeniedAs, InputReserve, Model, ModelFace, ModelUpstream};
use crate::binding::CredentialTarget;
use crate::check::Draft;
use crate::domain::canonical;
use crate::domain::dialect::Dialect;
use crate::domain::id::ToolName;
use crate::domain::json::{Json, Limits, json};
use crate::host::Origin;
use crate::llm::ask::{AskRules, HostedTools};
use crate::schema::Schema;
use crate::template::PathTemplate;
use crate::{Kind, Problems, Section, Surroundings, Tool, outbound};

/// Tokens one call may write at most, in any binding.
pub(super) const OUTPUT_TOKENS_MAX: u64 = 1_000_000;
/// Places one binding may name.
pub(super) const UPSTREAMS_MAX: usize = 8;
/// Ids one place may offer.
pub(super) const MODELS_MAX: usize = 64;
/// Tokens of one image.
pub(super) const IMAGE_TOKENS_MAX: u64 = 1_000_000;
/// Bytes of text that count as one token.
pub(super) const BYTES_PER_TOKEN_MAX: u64 = 4;
/// Bytes of one id.
const MODEL_BYTES_MAX: usize = 256;
/// Seconds that an answer may wait for an approver.
pub(super) const HOLD_WAIT_MAX: u64 = 60;
/// Milliseconds until a provider begins to answer.
pub(super) const HEAD_TIMEOUT_MS_MAX: u64 = 3_600_000;
/// Milliseconds of silence.
pub(super) const SILENCE_TIMEOUT_MS_MAX: u64 = 3_600_000;
/// A thousand dollars for a million tokens.
pub(super) const PRICE_MAX: u64 = 1_000_000_000;

/// Arguments of a `model` without a schema in its binding, which provides the ids and the bound.
/// The executor reads messages and tools itself, and reports their errors in more detail.
const SCHEMA: &str = r#"{"type":"object","additionalProperties":false,"required":["model","messages"],"properties":{
"model":{"type":"string"},
"messages":{"type":"array","minItems":1,"maxItems":4096,"description":"the conversation: objects with `role` (system, developer, user, assistant, tool) and `content` (text, or a list of text and inline image parts)","items":{"type":"object","required":["role"],"properties":{"role":{"type":"string"}}}},
"max_output_tokens":{"type":"integer","minimum":1,"description":"tokens the answer may have"},
"temperature":{"type":"number","minimum":0,"maximum":2},
"top_p":{"type":"number","minimum":0,"maximum":1},
"seed":{"type":"integer"},
"stop":{"type":"array","maxItems":4,"items":{"type":"string","minLength":1,"maxLength":256}},
"tools":{"type":"array","maxItems":128,"description":"functions the model may ask you to call: {\"type\":\"function\",\"function\":{\"name\",\"description\",\"parameters\"}}; tools that the provider would run itself are refused","items":{"type":"object"}},
"tool_choice":{"enum":["auto","none","required"]},
"response_format":{"type":"object","required":["type"],"properties":{"type":{"enum":["text","json_object","json_schema"]}}}}}"#;

/// The schema of the arguments, with the ids of this binding and its bound.
fn schema(model: &config::ModelConfig) -> Vec<u8> {
    let Ok(Json::Object(mut schema)) = Json::parse(SCHEMA.as_bytes(), &Limits::ARGUMENTS) else {
        return Vec::new();
    };
    let ids: BTreeSet<&str> = model
        .upstreams
        .iter()
        .flat_map(|upstream| upstream.models.keys())
        .map(String::as_str)
        .collect();
    if let Some(Json::Object(properties)) = schema.get_mut("properties") {
        properties.insert("model".to_owned(), json!({"enum": ids}));
        if let Some(Json::Object(bound)) = properties.get_mut("max_output_tokens") {
            bound.insert("maximum".to_owned(), Json::from(model.output_tokens_max));
        }
    }
    canonical::bytes(&Json::Object(schema))
}

impl Section for config::ModelConfig {
    fn takes_credentials(&self) -> bool {
        false
    }

    fn secret_files(&self) -> Vec<&Path> {
        let all = self.upstreams.iter().flat_map(|upstream| &upstream.credentials);
        all.filter_map(|one| one.file.as_deref()).collect()
    }

    fn check(&self, draft: &Draft<'_>, problems: &mut Problems) -> Option<(Schema, Kind)> {
        let schema = draft.schema(Some(&schema(self)), problems);
        let model = upstreams(self, draft, problems);
        Some((schema?, Kind::Model(model)))
    }
}

fn upstreams(model: &config::ModelConfig, draft: &Draft<'_>, problems: &mut Problems) -> Model {
    let at = format!("{}.model", draft.at);
    let output_tokens_max = model.output_tokens_max;
    if !(1..=OUTPUT_TOKENS_MAX).contains(&output_tokens_max) {
        problems.add(format!("{at}.output_tokens_max"), format!("is 1 to {OUTPUT_TOKENS_MAX}"));
    }
    let reserve = reserve(model, &at, problems);
    if !(1..=UPSTREAMS_MAX).contains(&model.upstreams.len()) {
        problems.add(format!("{at}.upstreams"), format!("are 1 to {UPSTREAMS_MAX}"));
    }
    let mut names = BTreeSet::new();
    let mut upstreams = Vec::new();
    for (i, entry) in model.upstreams.iter().enumerate() {
        let at = format!("{at}.upstreams[{i}]");
        if !names.insert(entry.name.as_str()) {
            problems.add(format!("{at}.name"), format!("`{}` occurs twice", entry.name));
        }
        upstreams.extend(upstream(entry, &at, draft.surroundings, problems));
    }
    priced(draft.tool, model, &at, problems);
    let face = face(model, &upstreams, &at, problems);
    Model { output_tokens_max, reserve, upstreams, face }
}

/// What the input of a call counts as before it was counted.
fn reserve(model: &config::ModelConfig, at: &str, problems: &mut Problems) -> InputReserve {
    let image_tokens = model.image_tokens_max;
    if !(1..=IMAGE_TOKENS_MAX).contains(&image_tokens) {
        problems.add(format!("{at}.image_tokens_max"), format!("is 1 to {IMAGE_TOKENS_MAX}"));
    }
    let bytes = model.reserve_bytes_per_token;
    if !(1..=BYTES_PER_TOKEN_MAX).contains(&bytes) {
        let message = format!("is 1 to {BYTES_PER_TOKEN_MAX}");
        problems.add(format!("{at}.reserve_bytes_per_token"), message);
    }
    InputReserve {
        image_tokens,
        bytes_per_token: NonZeroU64::new(bytes).unwrap_or(NonZeroU64::MIN),
    }
}

/// The price of a call is stated once, and for every upstream or for none.
fn priced(tool: &Tool, model: &config::ModelConfig, at: &str, problems: &mut Problems) {
    let with = model.upstreams.iter().filter(|upstream| upstream.price.is_some()).count();
    if with > 0 && tool.cost_micro_usd.is_some() {
        problems.add(at, "has prices for tokens and `cost_micro_usd` for a call: say one of them");
    }
    if with > 0 && with < model.upstreams.len() {
        problems.add(at, "some upstreams have a price and others have none");
    }
}

fn upstream(
    upstream: &config::ModelUpstreamConfig,
    at: &str,
    surroundings: &Surroundings<'_>,
    problems: &mut Problems,
) -> Option<ModelUpstream> {
    if ToolName::parse(&upstream.name).is_none() {
        let message = format!("`{}` is not [A-Za-z0-9_.-]{{1,128}}", upstream.name);
        problems.add(format!("{at}.name"), message);
    }
    let api = Api::parse(&upstream.api)
        .ok_or_else(|| format!("`{}` is not one of {}", upstream.api, listed(Api::TEXTS)));
    let api = problems.take(&format!("{at}.api"), api);
    let ranges = outbound::ranges(&upstream.private_addresses, at, problems);
    let credentials = outbound::credentials(&upstream.credentials, at, surroundings, problems);
    if credentials.iter().any(|c| matches!(c.place, CredentialTarget::Query(_))) {
        problems.add(format!("{at}.credentials"), "are headers for kind `model`");
    }
    let origin = problems.take(&format!("{at}.url"), Origin::parse(&upstream.url));
    if let Some((origin, _)) = &origin {
        outbound::reachable(origin, &ranges, !credentials.is_empty(), at, problems);
    }
    let path = origin.as_ref().and_then(|(_, path)| base(path, at, problems));
    let to = origin.as_ref().map(|(origin, _)| origin);
    let ca = outbound::ca(upstream.ca_file.as_deref(), to, at, surroundings, problems);
    let headers = outbound::headers(&upstream.headers, at, problems);
    models(&upstream.models, at, problems);
    if api == Some(Api::Gemini) {
        placed(&upstream.models, at, problems);
    }
    price(upstream.price, at, problems);
    let output_tokens_field = output_tokens_field(upstream, to, at, problems);
    Some(ModelUpstream {
        name: upstream.name.clone(),
        provider: upstream.provider.clone(),
        api: api?,
        origin: origin?.0,
        path: path?,
        models: upstream.models.clone(),
        headers,
        credentials,
        private_addresses: ranges,
        ca: ca?,
        http2: upstream.http2,
        price: upstream.price,
        output_tokens_field,
        native_tools: upstream.native_tools,
    })
}

/// The member that bounds an answer.
fn output_tokens_field(
    upstream: &config::ModelUpstreamConfig,
    origin: Option<&Origin>,
    at: &str,
    problems: &mut Problems,
) -> &'static str {
    const OLDER: &str = "max_tokens";
    const NEWER: &str = "max_completion_tokens";
    let Some(field) = &upstream.output_tokens_field else {
        let host = origin.map(|origin| origin.host.to_string()).unwrap_or_default();
        let is_newer = host == "api.openai.com" || host.ends_with(".openai.azure.com");
        return if is_newer { NEWER } else { OLDER };
    };
    let at = format!("{at}.output_tokens_field");
    if upstream.api != "openai" {
        problems.add(at.as_str(), "is of `api: openai` alone");
    }
    match field.as_str() {
        OLDER => OLDER,
        NEWER => NEWER,
        other => {
            problems.add(at, format!("`{other}` is not one of `{OLDER}`, `{NEWER}`"));
            OLDER
        }
    }
}

/// A base URL has no places for arguments.
fn base(path: &str, at: &str, problems: &mut Problems) -> Option<String> {
    let at = format!("{at}.url");
    let template = problems.take(&at, PathTemplate::parse(path))?;
    if template.arguments().next().is_some() {
        problems.add(at, "a base URL is literal");
        return None;
    }
    Some(path.trim_end_matches('/').to_owned())
}

fn models(models: &BTreeMap<String, String>, at: &str, problems: &mut Problems) {
    let at = format!("{at}.models");
    if !(1..=MODELS_MAX).contains(&models.len()) {
        problems.add(at.as_str(), format!("are 1 to {MODELS_MAX}, each `id: id at the upstream`"));
    }
    let fits = |id: &String| {
        (1..=MODEL_BYTES_MAX).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_graphic())
    };
    if let Some(id) = models.iter().flat_map(|(id, sent)| [id, sent]).find(|id| !fits(id)) {
        let message = format!("`{id}` is not 1 to {MODEL_BYTES_MAX} visible ASCII characters");
        problems.add(at, message);
    }
}

/// The id of a model stands in the path of its requests, as it is.
fn placed(models: &BTreeMap<String, String>, at: &str, problems: &mut Problems) {
    let fits = |id: &String| id.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b));
    if let Some(id) = models.values().find(|id| !fits(id) || id.starts_with('.')) {
        let message = format!("`{id}` is not an id at `api: gemini`: [A-Za-z0-9_.-], no dot first");
        problems.add(format!("{at}.models"), message);
    }
}

fn price(price: Option<Price>, at: &str, problems: &mut Problems) {
    let above = |price: Price| {
        let Price { input, output, cached_input, cache_write, cache_write_1h } = price;
        let others = [cached_input, cache_write, cache_write_1h].into_iter().flatten();
        others.chain([input, output]).any(|price| price > PRICE_MAX)
    };
    if price.is_some_and(above) {
        problems.add(format!("{at}.price"), format!("is 0 to {PRICE_MAX} for a million tokens"));
    }
}

/// The texts of a closed set, for a message.
fn listed(texts: &[&str]) -> String {
    texts.iter().map(|text| format!("`{text}`")).collect::<Vec<_>>().join(", ")
}

/// The models whose first upstream for `chat` has no tool calls.
fn without_tools(upstreams: &[ModelUpstream]) -> BTreeSet<String> {
    let mut first: BTreeMap<&String, bool> = BTreeMap::new();
    for upstream in upstreams.iter().filter(|one| one.api.dialect() == Some(Dialect::Chat)) {
        for id in upstream.models.keys() {
            first.entry(id).or_insert(upstream.native_tools);
        }
    }
    first.into_iter().filter(|(_, native)| !native).map(|(id, _)| id.clone()).collect()
}

/// What agents may ask in dialects; none if they may not.
fn face(
    model: &config::ModelConfig,
    upstreams: &[ModelUpstream],
    at: &str,
    problems: &mut Problems,
) -> Option<ModelFace> {
    let mut dialects = BTreeSet::new();
    for (i, text) in model.faces.iter().enumerate() {
        let at = format!("{at}.faces[{i}]");
        match Dialect::parse(text) {
            None => {
                let message = format!("`{text}` is not one of {}", listed(Dialect::TEXTS));
                problems.add(at, message);
            }
            Some(dialect) if !upstreams.iter().any(|one| one.api.dialect() == Some(dialect)) => {
                let api = Api::of(dialect).as_str();
                problems.add(at, format!("no upstream speaks it: one needs `api: {api}`"));
            }
            Some(dialect) => {
                dialects.insert(dialect);
            }
        }
    }
    let hosted_tools = HostedTools::parse(&model.hosted_tools).ok_or_else(|| {
        format!("`{}` is not one of {}", model.hosted_tools, listed(HostedTools::TEXTS))
    });
    let denied_as = DeniedAs::parse(&model.denied_as)
        .ok_or_else(|| format!("`{}` is not one of {}", model.denied_as, listed(DeniedAs::TEXTS)));
    let hosted_tools = problems.take(&format!("{at}.hosted_tools"), hosted_tools);
    let denied_as = problems.take(&format!("{at}.denied_as"), denied_as);
    for (name, value, most) in [
        ("hold_wait", model.hold_wait, HOLD_WAIT_MAX),
        ("head_timeout_ms", model.head_timeout_ms, HEAD_TIMEOUT_MS_MAX),
        ("silence_timeout_ms", model.silence_timeout_ms, SILENCE_TIMEOUT_MS_MAX),
    ] {
        if value > most {
            problems.add(format!("{at}.{name}"), format!("is at most {most}"));
        }
    }
    let offered = upstreams.iter().flat_map(|one| {
        let dialect = one.api.dialect().filter(|dialect| dialects.contains(dialect));
        let provider = one.provider.clone();
        let models = dialect.into_iter().flat_map(|_| one.models.keys());
        models.filter_map(move |id| Some((dialect?, id.clone(), provider.clone())))
    });
    let offered = offered.collect();
    (!dialects.is_empty()).then_some(())?;
    Some(ModelFace {
        dialects,
        offered,
        without_tools: without_tools(upstreams),
        rules: AskRules {
            pass_members: model.pass_members.iter().cloned().collect(),
            remote_hosts: model.remote_hosts.clone(),
            hosted_tools: hosted_tools?,
            output_tokens_max: model.output_tokens_max,
        },
        denied_as: denied_as?,
        hold_wait: Duration::from_secs(model.hold_wait),
        betas: model.betas.clone(),
        head_timeout: Duration::from_millis(model.head_timeout_ms),
        silence_timeout: Duration::from_millis(model.silence_timeout_ms),
    })
}
