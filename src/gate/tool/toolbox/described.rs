//! Tools as a recording stores them: what agents and policies see of each, and nothing about how it
//! is reached.

use std::sync::Arc;
use std::time::Duration;

use super::{Tool, ToolExecutor};
use crate::catalog::schema::Schema;
use crate::domain::canonical;
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
    members.extend(facts.cost_micro_usd.map(|cost| ("cost_micro_usd", Json::from(cost))));
    members.extend(tool.shown.as_deref().map(|shown| ("shown", text(shown))));
    Json::object(members)
}

/// The tools of such a list, all executed by `executor`.
///
/// # Errors
/// An item is not a tool of this form.
pub fn read(list: &Json, executor: &Arc<dyn ToolExecutor>) -> Result<Vec<Tool>, String> {
    let tools = list.get("tools").and_then(Json::as_array).ok_or("no list of tools")?;
    let read = |tool: &Json| {
        let name = tool.get("name").and_then(Json::as_str).unwrap_or_default();
        tool_of(tool, executor).map_err(|why| format!("tool `{name}`: {why}"))
    };
    tools.iter().map(read).collect()
}

fn tool_of(tool: &Json, executor: &Arc<dyn ToolExecutor>) -> Result<Tool, String> {
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
    };
    let shown = tool.get("shown").and_then(Json::as_str);
    Ok(Tool {
        description: text("description")?.to_owned(),
        schema: Arc::new(schema.map_err(|e| e.to_string())?),
        input_schema,
        shown: shown.map(|shown| shown.as_bytes().into()),
        signers: signers.iter().filter_map(Json::as_str).map(str::to_owned).collect(),
        executor: Arc::clone(executor),
        facts: Arc::new(facts),
    })
}
