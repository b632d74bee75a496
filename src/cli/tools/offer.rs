//! What one MCP server offers, for a person and for a program.

use serde_json::{Value, json};

use crate::catalog::lock::{LockedServer, printable};
use crate::cli::say;
use crate::domain::json::Json;

/// `name version`, by the server's own account.
pub(super) fn calls_itself(locked: &LockedServer) -> String {
    let part = |name: &str| locked.server_info.get(name).and_then(Json::as_str).map(printable);
    let parts = [part("name"), part("version")];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

/// The address of a server, and its sandbox if the gate runs it.
pub(super) type ServerAccess<'a> = (&'a str, Option<&'static str>);

/// Prints all of it.
pub(super) fn text(locked: &LockedServer, (how, sandbox): ServerAccess<'_>, left_out: &[String]) {
    say(format!("{} ({how})", locked.name));
    say(format!("  says it is  {}", calls_itself(locked)));
    sandbox.iter().for_each(|level| say(format!("  sandbox     {level}")));
    say(format!("  protocol    {}", locked.protocol));
    say(format!("  methods     {}", locked.methods.join(", ")));
    say(format!("  tools       {}", locked.tools.len()));
    for (own, tool) in &locked.tools {
        let line = description(tool);
        say(format!("    {:<32} {line}", printable(own)));
    }
    for why in left_out {
        say(format!("  left out    {why}"));
    }
}

/// The first line of its description.
fn description(tool: &Json) -> String {
    let text = tool.get("description").and_then(Json::as_str).unwrap_or_default();
    printable(text.lines().next().unwrap_or_default())
}

/// All of it as JSON.
pub(super) fn value(
    locked: &LockedServer,
    (how, sandbox): ServerAccess<'_>,
    left_out: &[String],
) -> Value {
    let tools: Vec<Value> = locked.tools.values().map(Json::to_serde).collect();
    json!({
        "name": locked.name,
        "state": "ready",
        "reached": how,
        "sandbox": sandbox,
        "binding": locked.binding.prefixed(),
        "protocol": locked.protocol.as_str(),
        "server_info": locked.server_info.to_serde(),
        "methods": locked.methods,
        "tools": tools,
        "left_out": left_out,
    })
}
