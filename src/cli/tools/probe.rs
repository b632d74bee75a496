//! `wicketgate tools probe`.

use serde_json::{Value, json};

use super::{Asked, Refused, Where, locked, reached};
use crate::catalog::lock::{LockedServer, printable};
use crate::cli::{Exit, complain, say};
use crate::domain::json::Json;

pub(super) fn run(at: &Where, only: &[String]) -> Result<Exit, Refused> {
    let config = at.load()?;
    let servers = at.servers(&config, only)?;
    let mut shown = Vec::new();
    let mut exit = Exit::Ok;
    for Asked { server, answer } in at.ask(&servers)? {
        let how = reached(&server);
        match answer {
            Ok(probed) => {
                let (locked, left_out) = locked(&server, probed);
                if !at.json {
                    text(&locked, &how, &left_out);
                }
                shown.push(value(&locked, &how, &left_out));
            }
            Err(why) => {
                exit = Exit::Unverifiable;
                if !at.json {
                    complain(format!("error: {why}"));
                }
                shown.push(json!({"name": server.name, "reached": how, "error": why}));
            }
        }
    }
    if at.json {
        say(json!({"ok": exit == Exit::Ok, "servers": shown}).to_string());
    } else if servers.is_empty() {
        say("no servers are configured");
    }
    Ok(exit)
}

/// `name version`, as the server says of itself.
fn calls_itself(locked: &LockedServer) -> String {
    let part = |name: &str| locked.server_info.get(name).and_then(Json::as_str).map(printable);
    let parts = [part("name"), part("version")];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

fn text(locked: &LockedServer, how: &str, left_out: &[String]) {
    say(format!("{} ({how})", locked.name));
    say(format!("  says it is  {}", calls_itself(locked)));
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

fn value(locked: &LockedServer, how: &str, left_out: &[String]) -> Value {
    let tools: Vec<Value> = locked.tools.values().map(Json::to_serde).collect();
    json!({
        "name": locked.name,
        "reached": how,
        "binding": locked.binding.prefixed(),
        "protocol": locked.protocol.as_str(),
        "server_info": locked.server_info.to_serde(),
        "methods": locked.methods,
        "tools": tools,
        "left_out": left_out,
    })
}
