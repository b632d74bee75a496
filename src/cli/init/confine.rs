//! Chooses the sandbox of a foreign server, from its very first start.
//!
//! It is S2 without a network and with only the files of the server's command line: a process
//! namespace that no process outlives. `init` never starts the server in a weaker sandbox to find
//! out its needs, and its behaviour changes nothing: only a person gives it more, by an option that
//! names the server and the missing right. A server that lists its tools may still fail in later
//! calls, whose reads, writes and connections are unknown. So the report names its rights.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::draft::Draft;
use super::grants::{GrantError, Grants};
use super::probe::{CheckError, check};
use crate::catalog::command::Level;
use crate::catalog::server::{self, Transport};
use crate::cli::Cause;
use crate::cli::argument::ArgumentError;
use crate::tool::sandbox::Levels;

/// Whether servers that are programs start in a sandbox.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Choice {
    /// In S2, or in the level that `--allow` names.
    Auto,
    /// Without a sandbox; `level: none` is written to the configuration.
    None,
}

/// A right that a person gives one server beyond its command line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Allow {
    /// Whatever the host of the gate reaches, loopback included.
    Network,
    /// Connecting to this host, by way of the gate: `HOST` or `HOST:PORT`.
    Host(String),
    /// Reading this.
    Read(PathBuf),
    /// Changing this.
    Write(PathBuf),
    /// S1: no namespaces of its own.
    S1,
    /// No sandbox.
    Unsandboxed,
}

impl Allow {
    /// Reads `network`, `host=HOST[:PORT]`, `read=PATH`, `write=PATH`, `s1` or `unsandboxed`.
    ///
    /// # Errors
    /// What it is instead.
    pub fn parse(text: &str) -> Result<Self, ArgumentError> {
        let path = |path: &str| Some(PathBuf::from(path)).filter(|path| path.is_absolute());
        match text.split_once('=') {
            Some(("host", name)) => {
                server::host(name)?;
                Some(Self::Host(name.to_owned()))
            }
            Some(("read", name)) => path(name).map(Self::Read),
            Some(("write", name)) => path(name).map(Self::Write),
            Some(_) => None,
            None => match text {
                "network" => Some(Self::Network),
                "s1" => Some(Self::S1),
                "unsandboxed" => Some(Self::Unsandboxed),
                _other => None,
            },
        }
        .ok_or_else(|| ArgumentError::Allow(text.to_owned()))
    }

    /// The same, for the server of this name: `files:network`.
    ///
    /// # Errors
    /// As `parse`.
    pub fn parse_for(text: &str) -> Result<(String, Self), ArgumentError> {
        let (server, what) = text.split_once(':').ok_or(ArgumentError::AllowFor)?;
        Ok((server.to_owned(), Self::parse(what)?))
    }

    /// As a person writes it.
    fn text(&self) -> String {
        match self {
            Self::Network => "network".to_owned(),
            Self::Host(name) => format!("host={name}"),
            Self::Read(path) => format!("read={}", path.display()),
            Self::Write(path) => format!("write={}", path.display()),
            Self::S1 => "s1".to_owned(),
            Self::Unsandboxed => "unsandboxed".to_owned(),
        }
    }
}

/// What a server that is a program runs in.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Confined {
    /// The sandbox and its rights; `None`: no sandbox.
    pub inside: Option<(Level, Grants)>,
    /// The person's options, as written.
    pub why: Vec<String>,
}

impl Confined {
    /// `stdio.sandbox` of the configuration.
    pub fn config(&self) -> Value {
        let Some((level, grants)) = &self.inside else { return json!({"level": "none"}) };
        let given = [("read", &grants.read), ("write", &grants.write)];
        let given = given.into_iter().filter(|(_, paths)| !paths.is_empty());
        let network = grants.network.then(|| ("network", json!("host")));
        let hosts = (!grants.hosts.is_empty()).then(|| ("hosts", json!(grants.hosts)));
        let members = std::iter::once(("level", json!(level.as_str())))
            .chain(given.map(|(name, paths)| (name, json!(paths))))
            .chain(network)
            .chain(hosts);
        Value::Object(members.map(|(name, value)| (name.to_owned(), value)).collect())
    }

    /// The same as text.
    pub fn description(&self) -> String {
        let why = self.why.join(", ");
        let Some((level, grants)) = &self.inside else {
            return format!(
                "runs without a sandbox ({why}): it can do what you can, and read this gate's keys"
            );
        };
        let list = |paths: &[PathBuf]| {
            let all: Vec<_> = paths.iter().map(|path| path.display().to_string()).collect();
            if all.is_empty() { "nothing".to_owned() } else { all.join(", ") }
        };
        let (read, write) = (list(&grants.read), list(&grants.write));
        let why = if why.is_empty() { why } else { format!(" ({why})") };
        let reach = match (grants.network, grants.hosts.as_slice()) {
            (true, _) => "all that this host reaches".to_owned(),
            (false, []) => "nothing".to_owned(),
            (false, hosts) => hosts.join(", "),
        };
        let level = level.as_str();
        format!("runs in {level}{why}: reads {read}; changes {write}; connects to {reach}")
    }

    /// What a person can do for a server that did not work in there.
    pub fn lacking(&self, name: &str) -> String {
        let Some((level, grants)) = &self.inside else { return String::new() };
        let network = if grants.network {
            String::new()
        } else {
            format!("`{name}:host=HOST`, `{name}:network`, ")
        };
        let s1 = if *level == Level::S1 { String::new() } else { format!("`{name}:s1`, ") };
        format!(
            "; it was started in {} with access only to what its command line names: if you know what it \
             lacks and trust it with that, add it with --allow: {network}`{name}:read=PATH`, \
             `{name}:write=PATH`, {s1}or, without a sandbox, `{name}:unsandboxed`",
            level.as_str()
        )
    }
}

/// Why a server has no sandbox that it could start in.
#[derive(Debug, thiserror::Error)]
pub enum ConfineError {
    /// The gate would not take it.
    #[error(transparent)]
    Check(#[from] CheckError),
    /// Its command line names a path that no sandbox can give it.
    #[error("{error}; or run it without a sandbox: --allow {server}:unsandboxed")]
    Grants {
        /// What it names.
        #[source]
        error: GrantError,
        /// What the client calls it.
        server: String,
    },
    /// An option allows a path that no sandbox can give it.
    #[error(transparent)]
    Allowed(#[from] GrantError),
    /// It is allowed every host, and some.
    #[error("`{0}:network` reaches every host, so `{0}:host=` has no effect; give one of them")]
    Hosts(String),
}

/// A level of sandbox that this host does not have.
#[derive(Debug, thiserror::Error)]
#[error(
    "{0}. No server runs outside a sandbox unless you allow it: `--allow NAME:s1` or `--allow \
     NAME:unsandboxed` for one, `--sandbox none` for all"
)]
pub struct SandboxError(Cause);

/// What persons let servers have.
#[derive(Clone, Copy, Debug)]
pub struct ConfinementTerms<'a> {
    /// Whether they start in a sandbox.
    pub choice: Choice,
    /// For each server, by the client's name for it, the allowed right.
    pub allowed: &'a [(String, Allow)],
    /// Where the configuration and its credentials lie now.
    pub base: &'a Path,
}

impl ConfinementTerms<'_> {
    /// Chooses the sandbox of this server, before its first start.
    ///
    /// # Errors
    /// It needs a path that no sandbox can give.
    pub fn confine(self, draft: &mut Draft) -> Result<(), ConfineError> {
        if draft.reach.0 != "stdio" {
            return Ok(());
        }
        let allowed = self.allowed.iter().filter(|(server, _)| *server == draft.client_name);
        let allowed: Vec<&Allow> = allowed.map(|(_, allow)| allow).collect();
        let why: Vec<String> =
            allowed.iter().map(|allow| format!("`--allow {}`", allow.text())).collect();
        if self.choice == Choice::None {
            let why = vec!["`--sandbox none`".to_owned()];
            draft.confined = Confined { inside: None, why };
            return Ok(());
        }
        if allowed.contains(&&Allow::Unsandboxed) {
            draft.confined = Confined { inside: None, why };
            return Ok(());
        }
        let name = draft.client_name.clone();
        let given_up = |error| ConfineError::Grants { error, server: name.clone() };
        let mut grants = grants(draft, self.base)?.map_err(given_up)?;
        for allow in &allowed {
            match allow {
                Allow::Network => grants.network = true,
                Allow::Host(host) => grants.hosts.push(host.clone()),
                Allow::Read(path) => grants.add_read(path)?,
                Allow::Write(path) => grants.add_write(path)?,
                Allow::S1 | Allow::Unsandboxed => {}
            }
        }
        if grants.network && !grants.hosts.is_empty() {
            return Err(ConfineError::Hosts(name));
        }
        let level = if allowed.contains(&&Allow::S1) { Level::S1 } else { Level::S2 };
        draft.confined = Confined { inside: Some((level, grants)), why };
        Ok(())
    }
}

/// Whether this host can provide the sandboxes of these servers. Blocks for a moment.
///
/// # Errors
/// The missing feature, and the options of a person.
pub fn available<'a>(drafts: impl IntoIterator<Item = &'a Draft>) -> Result<(), SandboxError> {
    let levels = Levels::default();
    for draft in drafts {
        let Some((level, _)) = &draft.confined.inside else { continue };
        levels.check(*level).map_err(|cause| SandboxError(cause.into()))?;
    }
    Ok(())
}

/// What its command line, its arguments and its variables name.
fn grants(draft: &Draft, base: &Path) -> Result<Result<Grants, GrantError>, CheckError> {
    let mut free = draft.clone();
    free.confined = Confined::default();
    let server = check(&free, base, &[])?;
    let Transport::Stdio(stdio) = &server.transport else { return Ok(Ok(Grants::default())) };
    let written = draft.reach.1.get("env").and_then(Value::as_object);
    let values = written.into_iter().flatten().filter_map(|(_, value)| value.as_str());
    Ok(Grants::of(stdio, &values.collect::<Vec<_>>()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_allowed_names_a_server_and_one_thing() {
        let parsed = |text| Allow::parse_for(text).map(|(server, allow)| (server, allow.text()));
        for text in [
            "files:network",
            "a:host=api.test",
            "a:host=api.test:8443",
            "a:s1",
            "a:unsandboxed",
            "a:read=/x:y",
            "a:write=/x=y",
        ] {
            let (server, what) = text.split_once(':').unwrap();
            assert_eq!(parsed(text).ok(), Some((server.to_owned(), what.to_owned())), "{text}");
        }
        for text in [
            "network",
            "a:",
            "a:net",
            "a:host=",
            "a:host=a/b",
            "a:host=127.1",
            "a:host=*",
            "a:read=x",
            "a:read",
            "a:Network",
            "a:level=none",
        ] {
            assert!(parsed(text).is_err(), "{text}");
        }
    }
}
