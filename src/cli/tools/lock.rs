//! `wicketgate tools lock`.

use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::error::Error;
use super::{ToolsArgs, left_out, wrong};
use crate::catalog::drift::Weight;
use crate::catalog::lock::{
    self, Difference, Lock, LockedServer, Verified, differences, envelope_path, printable,
};
use crate::cli::{Exit, Failure, FileError, note, runtime, say};
use crate::config::{self, Config};
use crate::crypto::files::beside;
use crate::crypto::keys::SecretKey;
use crate::domain::plural::many;

/// The options of the command line.
pub(super) struct LockOrder<'a> {
    pub keys: &'a [PathBuf],
    pub servers: &'a [String],
    pub yes: bool,
    pub accept_hidden: bool,
}

pub(super) fn run(at: &ToolsArgs, order: &LockOrder<'_>) -> Result<Exit, Failure> {
    let config = at.load()?;
    let keys: Result<Vec<SecretKey>, _> =
        order.keys.iter().map(|path| SecretKey::load(path)).collect();
    let keys = keys.map_err(Failure::invalid)?;
    let servers = at.servers(&config, order.servers)?;
    let Some(path) = config.lock.clone().filter(|_| !servers.is_empty()) else {
        return Err(Failure::invalid(Error::NoServers));
    };
    let exists = path.exists();
    let old = match config.locked() {
        Ok(old) => old.map(|old| old.lock),
        Err(why) if order.servers.is_empty() => {
            note(format!("warning: the old lock is not valid: {why}"));
            None
        }
        Err(why) => return Err(Failure::invalid(why)),
    };
    let (new, left_out) = probe(at, &config, order, old.as_ref())?;
    let text = new.text();
    let shown = path.display().to_string();
    let envelope = lock::sign(text.as_bytes(), &shown, &keys.iter().collect::<Vec<_>>());
    let envelope = envelope.map_err(Failure::invalid)?;
    let verified = starts(&config, &text, &envelope, &shown)?;
    let changed = old.as_ref().map(|old| differences(old, &new)).unwrap_or_default();
    if !at.json {
        report(old.as_ref(), &new, &changed, &left_out);
    }
    if exists && (old.is_none() || !changed.is_empty()) && !order.yes && !consent(at, &path) {
        return Err(Failure::invalid(Error::NotAgreed));
    }
    write(&path, &text, &envelope).map_err(Failure::invalid)?;
    if at.json {
        say(value(&shown, &new, &verified, &changed, &left_out).to_string());
    } else {
        say(format!("wrote {shown}"));
        verified.signers.iter().for_each(|signer| say(format!("signed by {signer}")));
    }
    Ok(Exit::Ok)
}

/// The lock of the servers' current tools, and of the old lock's entries for the others.
fn probe(
    at: &ToolsArgs,
    config: &Config,
    order: &LockOrder<'_>,
    old: Option<&Lock>,
) -> Result<(Lock, Vec<String>), Failure> {
    let selected = at.servers(config, order.servers)?;
    let offers = runtime()?.block_on(at.offers(&selected, order.accept_hidden));
    let (mut servers, mut unfit, mut failed) = (Vec::new(), Vec::new(), Vec::new());
    for (_, offer) in offers {
        match offer {
            Ok(offer) => {
                unfit.extend(left_out(&offer));
                servers.push(offer.locked);
            }
            Err(error) => failed.push(error),
        }
    }
    if !failed.is_empty() {
        return Err(Failure::unverifiable(Error::Unreached(failed)));
    }
    if !order.servers.is_empty() {
        let kept = at.servers(config, &[])?.into_iter();
        let kept = kept.filter(|server| !order.servers.contains(&server.name));
        servers.extend(kept.filter_map(|s| old?.servers.get(&s.name).cloned()));
    }
    Ok((Lock::of(servers), unfit))
}

/// Whether a gate would start with it: a trusted key signed it, and no names in it collide.
fn starts(config: &Config, text: &str, envelope: &[u8], path: &str) -> Result<Verified, Failure> {
    let trusted = config.lock_keys().map_err(Failure::config)?;
    let verified = Verified::open(text.as_bytes(), envelope, &trusted, path);
    let verified = verified.map_err(|_untrusted| Failure::invalid(Error::Untrusted))?;
    let bound = config.bindings_with(&config::environment, Ok(Some(verified.clone())));
    bound.map_err(wrong)?;
    Ok(verified)
}

fn report(old: Option<&Lock>, new: &Lock, changed: &[Difference], left_out: &[String]) {
    if old.is_none() {
        for server in new.servers.values() {
            let (tools, methods) = (server.tools.len(), server.methods.len());
            say(format!("{}: {}, {}", server.name, many(tools, "tool"), many(methods, "method")));
        }
    }
    for difference in changed {
        let tool = difference.tool.as_ref().map(|tool| format!(".{tool}")).unwrap_or_default();
        say(format!("{}{tool}: {}", difference.server, difference.weight.as_str()));
        difference.what.iter().for_each(|what| say(format!("    {what}")));
        if let Some(old) = old {
            print_description(old, new, difference);
        }
    }
    if old.is_some() && changed.is_empty() {
        say("the servers offer exactly the locked tools");
    }
    left_out.iter().for_each(|why| say(format!("left out: {why}")));
}

/// A description that changed, before and after: a model reads it.
fn print_description(old: &Lock, new: &Lock, difference: &Difference) {
    let Some(tool) = &difference.tool else { return };
    let of = |lock: &Lock| -> Option<String> {
        let server: &LockedServer = lock.servers.get(&difference.server)?;
        let text = server.tools.get(tool)?.get("description")?.as_str()?;
        Some(text.chars().take(2000).flat_map(char::escape_debug).collect())
    };
    let (before, after) = (of(old), of(new));
    if before != after && before.is_some() {
        say(format!("    - {}", before.unwrap_or_default()));
        say(format!("    + {}", after.unwrap_or_default()));
    }
}

/// Asks for consent, if there is a terminal to answer on.
fn consent(at: &ToolsArgs, path: &Path) -> bool {
    if at.json || !std::io::stdin().is_terminal() {
        return false;
    }
    // If the terminal is gone, this fails and no answer comes either.
    let _ = write!(std::io::stderr(), "replace {}? [y/N] ", path.display());
    let _ = std::io::stderr().flush();
    let mut answer = String::new();
    let read = std::io::stdin().lock().read_line(&mut answer);
    read.is_ok() && matches!(answer.trim(), "y" | "yes")
}

/// Writes both files aside and renames them, so that no reader sees half of one.
fn write(path: &Path, text: &str, envelope: &[u8]) -> Result<(), FileError> {
    let signature = envelope_path(path);
    let aside = |path: &Path| beside(path, ".new");
    for (to, bytes) in [(path, text.as_bytes()), (&signature, envelope)] {
        std::fs::write(aside(to), bytes).map_err(FileError::at(to))?;
    }
    // WHY: between the two renames the lock does not count, and a gate that looks keeps its old
    // one.
    for to in [path, &signature] {
        std::fs::rename(aside(to), to).map_err(FileError::at(to))?;
    }
    Ok(())
}

fn value(
    path: &str,
    new: &Lock,
    verified: &Verified,
    changed: &[Difference],
    left_out: &[String],
) -> Value {
    let difference = |difference: &Difference| {
        json!({"server": difference.server, "tool": difference.tool,
            "weight": difference.weight.as_str(), "what": difference.what})
    };
    let breaking = changed.iter().any(|d| d.weight == Weight::Breaking);
    let tools = |server: &LockedServer| -> Vec<String> {
        server.tools.keys().map(|own| printable(own)).collect()
    };
    let servers = new.servers.values().map(|server| {
        json!({"name": server.name, "protocol": server.protocol.as_str(),
            "methods": server.methods, "tools": tools(server)})
    });
    json!({
        "ok": true,
        "written": path,
        "digest": verified.digest.prefixed(),
        "signers": verified.signers.to_vec(),
        "servers": servers.collect::<Vec<_>>(),
        "breaking": breaking,
        "differences": changed.iter().map(difference).collect::<Vec<_>>(),
        "left_out": left_out,
    })
}
