//! Every binding of one gate: the operator's own tools, and the locked tools of MCP servers.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::binding::Binding;
use super::definition::{self, Effective};
use super::lock::{LockedServer, Pinned, Verified, pinned, printable};
use super::schema::Schema;
use super::server::{Isolation, Mcp, Server, Target, Transport, governed};
use super::{ConfigError, Kind, Problems};
use crate::domain::canonical;
use crate::domain::tier::Tier;
use crate::mcp::name;

#[cfg(test)]
mod tests;

/// Everything that is bound: no two names are equal, nor could a client take one for another.
#[derive(Debug, Default)]
pub struct Bound {
    /// The tools, in no order.
    pub bindings: Vec<Binding>,
    /// The configured MCP servers, in the order of the list.
    pub servers: Vec<Arc<Server>>,
    /// The lock that pins their tools, if there is one.
    pub lock: Option<Verified>,
    /// Warnings for the operator; the gate starts all the same.
    pub warnings: Vec<String>,
}

impl Bound {
    /// Combines the operator's own tools with those of the servers in the lock.
    ///
    /// # Errors
    /// Everything that is wrong: a server that differs from the locked one, a tool that cannot be
    /// governed, names that are equal or that a client could confuse.
    pub fn of(
        tools: Vec<Binding>,
        servers: Vec<Arc<Server>>,
        lock: Option<Verified>,
    ) -> Result<Self, Vec<ConfigError>> {
        let mut problems = Problems::default();
        let own = tools.len();
        let mut bound = Self { bindings: tools, servers, lock, warnings: Vec::new() };
        for server in bound.servers.clone() {
            bound.server(&server, &mut problems);
        }
        let configured = |name: &String| bound.servers.iter().any(|server| &server.name == name);
        let pins = bound.lock.iter().flat_map(|lock| lock.lock.servers.keys());
        for name in pins.filter(|name| !configured(name)) {
            bound.warnings.push(format!("the lock pins server `{name}`, which is not configured"));
        }
        bound.warnings.extend(bound.bindings.iter().filter_map(lowered));
        names(&bound.bindings, own, &mut problems);
        if problems.0.is_empty() { Ok(bound) } else { Err(problems.0) }
    }

    /// Ids of the trusted keys that signed the lock, sorted.
    pub fn lock_signers(&self) -> &[String] {
        self.lock.as_ref().map_or(&[], |lock| &lock.signers)
    }

    fn server(&mut self, server: &Arc<Server>, problems: &mut Problems) {
        self.warnings.extend(inline_secrets(server));
        self.warnings.extend(unconfined(server));
        let Some(verified) = &self.lock else {
            self.warnings.push(unlocked(&server.name));
            return;
        };
        let Some(locked) = verified.lock.servers.get(&server.name) else {
            self.warnings.push(unlocked(&server.name));
            return;
        };
        let at = format!("lock.{}", server.name);
        if locked.binding != server.binding {
            let why =
                format!("server `{}` is not the one the lock pins: sign a new lock", server.name);
            problems.add(at, why);
            return;
        }
        // Set before: this server was bound to this lock already.
        let _ = server.files.set(locked.files.clone());
        let known = |own: &String| {
            locked.tools.contains_key(own) || locked.methods.iter().any(|method| method == own)
        };
        for own in server.tools.keys().filter(|own| !known(own)) {
            let name = &server.name;
            self.warnings.push(format!("server `{name}`: `{own}` is not in the lock"));
        }
        let signers = Arc::clone(&verified.signers);
        let mut found = Vec::new();
        for (own, object) in &locked.tools {
            match pinned(&server.name, object) {
                Ok(pinned) => found.push(tool(server, pinned, &signers)),
                Err(why) => problems.add(format!("{at}.{}", printable(own)), why.to_string()),
            }
        }
        found.extend(methods(server, locked, &signers));
        self.bindings.extend(found);
    }
}

/// Literal variables whose names suggest a secret.
fn inline_secrets(server: &Server) -> Vec<String> {
    const WORDS: [&str; 5] = ["TOKEN", "SECRET", "PASSWORD", "API_KEY", "APIKEY"];
    let Transport::Stdio(stdio) = &server.transport else { return Vec::new() };
    let names = stdio.env.iter().map(|(name, _)| name);
    let names =
        names.filter(|name| WORDS.iter().any(|marker| name.to_uppercase().contains(marker)));
    let server = &server.name;
    let message = |name| {
        format!("server `{server}`: `{name}` looks like a secret: give it under `credentials`")
    };
    names.map(message).collect()
}

/// A program that runs without a sandbox although the operator did not ask for that.
fn unconfined(server: &Server) -> Option<String> {
    let Transport::Stdio(stdio) = &server.transport else { return None };
    let name = &server.name;
    (stdio.isolation == Isolation::None { stated: false }).then(|| {
        format!(
            "server `{name}` runs without a sandbox and can do what the gate's user can: give it a \
             `sandbox`, or say `level: none`"
        )
    })
}

/// A tool whose operator promises more than its binding shows.
fn lowered(binding: &Binding) -> Option<String> {
    let promise = binding.stated.lowered(&binding.kind)?;
    let name = &binding.name;
    Some(format!(
        "tool `{name}`: `taint` is milder than its binding shows ({promise}); the gate takes your word for it"
    ))
}

fn unlocked(server: &str) -> String {
    format!("server `{server}` is not in the lock: none of its tools exist (wicketgate tools lock)")
}

/// Names that are equal, and names that a client could take for one another. The first `own` are the operator's own
/// tools, in the order of the list.
fn names(bindings: &[Binding], own: usize, problems: &mut Problems) {
    let place = |at: usize| if at < own { format!("tools[{at}].name") } else { "servers".into() };
    let mut seen = BTreeMap::new();
    for (at, binding) in bindings.iter().enumerate() {
        if seen.contains_key(binding.name.as_str()) {
            problems.add(place(at), format!("`{}` is bound twice", binding.name));
        } else {
            seen.insert(binding.name.as_str(), at);
        }
    }
    for (one, other) in name::collisions(seen.keys().copied()) {
        // Of two the later one is to be renamed.
        let at = [&one, &other].into_iter().filter_map(|name| seen.get(name.as_str())).max();
        let why = format!("`{one}` and `{other}` are one name to clients that rename tools");
        problems.add(at.map_or_else(|| "tools".to_owned(), |at| place(*at)), why);
    }
}

fn effective(server: &Server, own: &str) -> Effective {
    let notes = server.tools.get(own).cloned().unwrap_or_default();
    Effective {
        tier: notes.tier.or(server.tier).unwrap_or(Tier::T3),
        read_only: notes.read_only,
        idempotent: notes.idempotent,
        timeout: notes.timeout.unwrap_or(server.timeout),
        result_bytes_max: server.result_bytes_max,
        cost_micro_usd: notes.cost_micro_usd,
        dedupe: notes.dedupe,
        roles: notes.roles,
        read_back: None,
    }
}

fn tool(server: &Arc<Server>, pinned: Pinned, signers: &Arc<[String]>) -> Binding {
    let effective = effective(server, &pinned.own);
    let shown = canonical::bytes(&pinned.shown);
    let kind = Kind::Mcp(Box::new(Mcp {
        server: Arc::clone(server),
        target: Target::Tool(pinned.own),
        mirrored: pinned.mirrored,
        pinned: pinned.canonical.into(),
        signers: Arc::clone(signers),
    }));
    Binding {
        definition: effective.digest(&pinned.shown, &kind),
        roles: effective.roles.over(&kind),
        stated: effective.roles,
        name: pinned.name,
        description: pinned.description,
        schema: pinned.schema,
        kind,
        tier: effective.tier,
        read_only: effective.read_only,
        idempotent: effective.idempotent,
        timeout: effective.timeout,
        result_bytes_max: server.result_bytes_max,
        cost_micro_usd: effective.cost_micro_usd,
        dedupe: effective.dedupe,
        read_back: None,
        shown: Some(shown.into()),
    }
}

fn methods(server: &Arc<Server>, locked: &LockedServer, signers: &Arc<[String]>) -> Vec<Binding> {
    let made = locked.methods.iter().filter_map(|method| {
        let name = governed(&server.name, method)?;
        let (description, schema) = method_schema(method);
        // INVARIANT: a test compiles all of them.
        let schema = Schema::parse(schema.as_bytes()).ok()?;
        let mut effective = effective(server, method);
        // The protocol defines the method's effects; the operator states its tier.
        (effective.read_only, effective.idempotent) = (true, true);
        let kind = Kind::Mcp(Box::new(Mcp {
            server: Arc::clone(server),
            target: Target::Method(method),
            mirrored: Vec::new(),
            pinned: Vec::new().into(),
            signers: Arc::clone(signers),
        }));
        Some(Binding {
            definition: effective.digest(&definition::shown(&name, description, &schema), &kind),
            roles: effective.roles.over(&kind),
            stated: effective.roles,
            name,
            description: description.to_owned(),
            schema,
            kind,
            tier: effective.tier,
            read_only: effective.read_only,
            idempotent: effective.idempotent,
            timeout: effective.timeout,
            result_bytes_max: server.result_bytes_max,
            cost_micro_usd: effective.cost_micro_usd,
            dedupe: effective.dedupe,
            read_back: None,
            shown: None,
        })
    });
    made.collect()
}

/// A method's description and the schema of its parameters.
fn method_schema(method: &str) -> (&'static str, &'static str) {
    const LIST: &str =
        r#"{"type":"object","properties":{"cursor":{"type":"string","maxLength":4096}}}"#;
    match method {
        "resources/list" => ("Lists the resources of the server.", LIST),
        "resources/templates/list" => ("Lists the resource templates of the server.", LIST),
        "prompts/list" => ("Lists the prompts of the server.", LIST),
        "resources/read" => (
            "Reads one resource of the server.",
            r#"{"type":"object","required":["uri"],"properties":{"uri":{"type":"string","minLength":1,"maxLength":8192}}}"#,
        ),
        "prompts/get" => (
            "Gets one prompt of the server.",
            r#"{"type":"object","required":["name"],"properties":{"name":{"type":"string","minLength":1,"maxLength":1024},
            "arguments":{"type":"object","additionalProperties":{"type":"string"}}}}"#,
        ),
        _ => (
            "Completes an argument of a prompt or of a resource template.",
            r#"{"type":"object","required":["ref","argument"],"properties":{
            "ref":{"type":"object","required":["type"],"properties":{"type":{"enum":["ref/prompt","ref/resource"]},
                "name":{"type":"string"},"title":{"type":"string"},"uri":{"type":"string"}},"additionalProperties":false},
            "argument":{"type":"object","required":["name","value"],"properties":{"name":{"type":"string"},
                "value":{"type":"string"}},"additionalProperties":false},
            "context":{"type":"object","properties":{"arguments":{"type":"object",
                "additionalProperties":{"type":"string"}}},"additionalProperties":false}}}"#,
        ),
    }
}
