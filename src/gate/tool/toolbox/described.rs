//! Tools as a recording stores them: what agents and policies see of each, and nothing about how it
//! is reached.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Tool, ToolExecutor};
use crate::catalog::llm::ask::{AskRules, HostedTools};
use crate::catalog::model::{DeniedAs, ModelFace};
use crate::catalog::schema::Schema;
use crate::domain::canonical;
use crate::domain::dialect::Dialect;
use crate::domain::digest::Digest;
use crate::domain::effect::ToolKind;
use crate::domain::facts::ToolFacts;
use crate::domain::id::ToolName;
use crate::domain::json::{Json, Limits};
use crate::domain::tier::Tier;

/// The canonical bytes of a list of these tools.
pub fn write<'a>(tools: impl Iterator<Item = &'a Tool>) -> Vec<u8> {
    let tools: Vec<Json> = tools.map(one).collect();
    canonical::bytes(&Json::object([("tools", Json::from(tools))]))
}

fn one(tool: &Tool) -> Json {
    let facts = &tool.facts;
    let text = |bytes: &[u8]| Json::from(String::from_utf8_lossy(bytes).into_owned());
    let millis = u64::try_from(facts.timeout.as_millis()).unwrap_or(u64::MAX);
    let signers = tool.signers.iter().map(|key| Json::from(key.as_str()));
    let mut members = vec![
        ("name", Json::from(facts.name.as_str())),
        ("kind", Json::from(facts.kind.as_str())),
        ("tier", Json::from(facts.tier.as_str())),
        ("read_only", Json::from(facts.read_only)),
        ("idempotent", Json::from(facts.idempotent)),
        ("definition", Json::from(facts.definition.prefixed())),
        ("timeout_ms", Json::from(millis)),
        ("result_bytes_max", Json::from(facts.result_bytes_max)),
        ("description", Json::from(tool.description.as_str())),
        ("input_schema", text(&tool.input_schema)),
        ("signers", signers.collect::<Vec<_>>().into()),
    ];
    let face = tool.executor.model_face().map(|face| Json::of(&DescribedFace::of(face)));
    members.extend(face.map(|face| ("face", face)));
    members.extend(facts.cost_micro_usd.map(|cost| ("cost_micro_usd", Json::from(cost))));
    members.extend(tool.shown.as_deref().map(|shown| ("shown", text(shown))));
    Json::object(members)
}

/// How agents may ask a model in dialects, as far as that decides what the gate makes of a request.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct DescribedFace {
    dialects: BTreeSet<Dialect>,
    /// Model ids, each with its dialect and provider.
    offered: Vec<(Dialect, String, Option<String>)>,
    hosted_tools: String,
    output_tokens_max: u64,
    pass_members: BTreeSet<String>,
    remote_hosts: Vec<String>,
    /// Model ids without tool calls.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    without_tools: BTreeSet<String>,
}

impl DescribedFace {
    fn of(face: &ModelFace) -> Self {
        let AskRules { pass_members, remote_hosts, hosted_tools, output_tokens_max } =
            face.rules.clone();
        let (dialects, offered) = (face.dialects.clone(), face.offered.clone());
        let hosted_tools = hosted_tools.as_str().to_owned();
        let without_tools = face.without_tools.clone();
        Self {
            dialects,
            offered,
            hosted_tools,
            output_tokens_max,
            pass_members,
            remote_hosts,
            without_tools,
        }
    }

    /// The face of a tool that asks no provider: what concerns the upstreams is empty.
    fn into_face(self) -> Option<ModelFace> {
        let Self { dialects, offered, output_tokens_max, pass_members, remote_hosts, .. } = self;
        let hosted_tools = HostedTools::parse(&self.hosted_tools)?;
        Some(ModelFace {
            dialects,
            offered,
            without_tools: self.without_tools,
            rules: AskRules { pass_members, remote_hosts, hosted_tools, output_tokens_max },
            denied_as: DeniedAs::Call,
            hold_wait: Duration::ZERO,
            betas: None,
            head_timeout: Duration::ZERO,
            silence_timeout: Duration::ZERO,
        })
    }
}

/// What executes a tool of a list that may be asked in dialects like this, or not at all.
pub type ExecutorOf<'a> = dyn Fn(Option<ModelFace>) -> Arc<dyn ToolExecutor> + 'a;

/// The tools of such a list, each executed by what `executor` makes.
///
/// # Errors
/// An item is not a tool of this form.
pub fn read(list: &Json, executor: &ExecutorOf<'_>) -> Result<Vec<Tool>, String> {
    let tools = list.get("tools").and_then(Json::as_array).ok_or("no list of tools")?;
    let read = |tool: &Json| {
        let name = tool.get("name").and_then(Json::as_str).unwrap_or_default();
        tool_of(tool, executor).map_err(|why| format!("tool `{name}`: {why}"))
    };
    tools.iter().map(read).collect()
}

fn tool_of(tool: &Json, executor: &ExecutorOf<'_>) -> Result<Tool, String> {
    let text = |name: &str| {
        let text = tool.get(name).and_then(Json::as_str);
        text.ok_or_else(|| format!("`{name}` is missing or malformed"))
    };
    let number = |name: &str| {
        let number = tool.get(name).and_then(Json::as_u64);
        number.ok_or_else(|| format!("`{name}` is missing or malformed"))
    };
    let flag = |name: &str| tool.get(name).and_then(Json::as_bool).unwrap_or(false);
    let malformed = |name: &str| format!("`{name}` is malformed");
    let signers = tool.get("signers").and_then(Json::as_array).unwrap_or_default();
    let input_schema = text("input_schema")?.as_bytes().to_vec();
    let json = Json::parse(&input_schema, &Limits::FILE).map_err(|e| e.to_string())?;
    // Compiled as the kinds' own parsers do.
    let schema = if text("kind")? == ToolKind::Mcp.as_str() {
        Schema::of_server(&json)
    } else {
        Schema::compile(&json)
    };
    let facts = ToolFacts {
        name: ToolName::parse(text("name")?).ok_or_else(|| malformed("name"))?,
        kind: text("kind")?.to_owned(),
        tier: Tier::parse(text("tier")?).ok_or_else(|| malformed("tier"))?,
        read_only: flag("read_only"),
        idempotent: flag("idempotent"),
        definition: Digest::parse(text("definition")?).ok_or_else(|| malformed("definition"))?,
        timeout: Duration::from_millis(number("timeout_ms")?),
        result_bytes_max: number("result_bytes_max")?,
        cost_micro_usd: tool.get("cost_micro_usd").and_then(Json::as_u64),
        // A recording has no clock, so no retry window applies.
        dedupe: None,
        roles: crate::domain::taint::ToolRoles::default(),
    };
    let shown = tool.get("shown").and_then(Json::as_str);
    let face = tool.get("face").map(|face| {
        let face: DescribedFace = face.read().map_err(|why| format!("`face`: {why}"))?;
        face.into_face().ok_or_else(|| malformed("face"))
    });
    Ok(Tool {
        description: text("description")?.to_owned(),
        schema: Arc::new(schema.map_err(|e| e.to_string())?),
        input_schema,
        shown: shown.map(|shown| shown.as_bytes().into()),
        signers: signers.iter().filter_map(Json::as_str).map(str::to_owned).collect(),
        executor: executor(face.transpose()?),
        facts: Arc::new(facts),
    })
}
