//! The sandbox of a server over stdio: checks `sandbox:` and derives paths and limits from it.
//!
//! The vocabulary is that of command tools. A server is a third party's program that runs as long
//! as the gate and receives requests all the time, so its sandbox also says what it may write and
//! whether it has the network.

use std::path::{Path, PathBuf};

use super::config;
use crate::address::Cidr;
use crate::check::{self, Surroundings};
use crate::command::{self, CommandLimits, Level, Program};
use crate::domain::json::Json;
use crate::host::{self, Origin};
use crate::{Problems, definition, outbound};

/// Bytes of memory a server may use: 16 MiB, 1 GiB, 64 GiB. Node alone sets 512 MiB aside that it could write to.
pub(super) const MEMORY: (u64, u64, u64) = (16 << 20, 1 << 30, 64 << 30);
/// Processes and threads: runtimes start a dozen before the first request.
pub(super) const PIDS: (u64, u64) = (128, 1024);

/// What a server runs in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Isolation {
    /// No sandbox: it can do what the gate's user can. `stated`: the operator wrote `level: none`.
    None {
        /// Whether that was written.
        stated: bool,
    },
    /// A sandbox, or it does not run at all.
    Sandbox(Box<Sandbox>),
}

impl Isolation {
    /// Whether what it holds can connect to nothing.
    pub fn is_offline(&self) -> bool {
        self.sandbox().is_some_and(|sandbox| sandbox.network == Network::None)
    }

    /// The hosts that the gate connects to for the program.
    pub fn origins(&self) -> Vec<Origin> {
        match self {
            Self::Sandbox(sandbox) => match &sandbox.network {
                Network::Hosts(hosts) => hosts.origins.clone(),
                Network::None | Network::Host => Vec::new(),
            },
            Self::None { .. } => Vec::new(),
        }
    }
}

/// What a server may connect to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Network {
    /// Nothing.
    None,
    /// These hosts, through the gate.
    Hosts(Hosts),
    /// Whatever the gate's host can reach.
    Host,
}

/// Hosts that a server may connect to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hosts {
    /// Their names and ports; the gate does not inspect the traffic to them.
    pub origins: Vec<Origin>,
    /// Ranges beyond the public Internet that their names may lead to.
    pub private_addresses: Vec<Cidr>,
}

/// A host that a server may connect to: `NAME`, or `NAME:PORT`; the port is 443 if none is given.
///
/// # Errors
/// See [`host::Error`].
pub fn host(text: &str) -> Result<Origin, host::Error> {
    if text.contains('/') {
        return Err(host::Error::Form(text.to_owned()));
    }
    Origin::parse(&format!("https://{text}")).map(|(origin, _)| origin)
}

/// A sandbox of a server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sandbox {
    /// It runs in exactly this.
    pub level: Level,
    /// What it may read besides the system's programs and libraries: absolute, without symbolic links.
    pub read: Vec<PathBuf>,
    /// What it may change: as above.
    pub write: Vec<PathBuf>,
    /// What it may connect to.
    pub network: Network,
    /// What it may start itself.
    pub programs: Vec<Program>,
    /// Memory in all that it writes to, and processes; processor time is not limited.
    pub limits: CommandLimits,
}

impl Network {
    /// `none`, `hosts` or `host`.
    const fn as_str(&self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Hosts(_) => "hosts",
            Self::Host => "host",
        }
    }
}

impl Isolation {
    /// The sandbox, if there is one.
    pub fn sandbox(&self) -> Option<&Sandbox> {
        match self {
            Self::None { .. } => None,
            Self::Sandbox(sandbox) => Some(sandbox),
        }
    }

    /// `none`, `S1` or `S2`.
    pub fn as_str(&self) -> &'static str {
        self.sandbox().map_or("none", |sandbox| sandbox.level.as_str())
    }
}

/// The sandbox facts that a lock pins, as written. Empty without a sandbox, so that older locks
/// stay valid.
pub(super) fn facts(raw: Option<&config::SandboxConfig>, checked: &Isolation) -> Option<Json> {
    let (raw, sandbox) = (raw?, checked.sandbox()?);
    let path = |path: &PathBuf| path.to_string_lossy().into_owned();
    let paths = |all: &[PathBuf]| all.iter().map(path).collect::<Vec<_>>();
    let members = serde_json::json!({
        "level": sandbox.level,
        "read": paths(&raw.read),
        "write": paths(&raw.write),
        "network": sandbox.network.as_str(),
        "programs": paths(&raw.programs),
        "memory_bytes": sandbox.limits.memory_bytes,
        "pids": sandbox.limits.pids,
    });
    let hosts = match &sandbox.network {
        Network::Hosts(hosts) => Some(hosts),
        Network::None | Network::Host => None,
    };
    let more = [
        ("hosts", hosts.map(|hosts| hosts.origins.iter().map(Origin::authority).collect())),
        (
            "private_addresses",
            hosts.map(|hosts| definition::ranges(&hosts.private_addresses).to_serde()),
        ),
        ("cgroup", sandbox.limits.together.then(|| "required".into())),
    ];
    Some(definition::with(members, more).into())
}

pub(super) fn check(
    raw: Option<&config::SandboxConfig>,
    at: &str,
    surroundings: &Surroundings<'_>,
    problems: &mut Problems,
) -> Option<Isolation> {
    let Some(raw) = raw else { return Some(Isolation::None { stated: false }) };
    let before = problems.0.len();
    let at = format!("{at}.sandbox");
    if raw.level == "none" {
        return plain(raw, &at, problems);
    }
    let level = Level::parse(&raw.level, "`none`, `S1`, `S2`");
    let level = problems.take(&format!("{at}.level"), level);
    let read = paths(&raw.read, &format!("{at}.read"), surroundings, problems);
    let write = paths(&raw.write, &format!("{at}.write"), surroundings, problems);
    let network = network(raw, &at, problems);
    let needs_s2 = [
        ("programs", !raw.programs.is_empty(), "processes of its own need `level: S2`"),
        ("hosts", !raw.hosts.is_empty(), "a network of its own needs `level: S2`"),
    ];
    for (name, _, why) in needs_s2.into_iter().filter(|(_, given, _)| *given) {
        if level == Some(Level::S1) {
            problems.add(format!("{at}.{name}"), why);
        }
    }
    let programs = raw.programs.iter().enumerate().filter_map(|(i, path)| {
        problems.take(&format!("{at}.programs[{i}]"), command::program(path, surroundings))
    });
    let programs = programs.collect();
    let limits = limits(raw, &at, problems);
    if problems.0.len() > before {
        return None;
    }
    let sandbox = Sandbox { level: level?, read, write, network, programs, limits };
    Some(Isolation::Sandbox(Box::new(sandbox)))
}

fn network(raw: &config::SandboxConfig, at: &str, problems: &mut Problems) -> Network {
    let named = !raw.hosts.is_empty();
    let network = match raw.network.as_deref() {
        None | Some("none") => Network::None,
        Some("host") => Network::Host,
        Some(other) => {
            let why = format!("`{other}` is neither `none` nor `host`");
            problems.add(format!("{at}.network"), why);
            Network::None
        }
    };
    if named && raw.network.is_some() {
        problems.add(format!("{at}.hosts"), "means nothing beside `network`; give one of them");
    }
    let private_addresses = outbound::ranges(&raw.private_addresses, at, problems);
    let one = |text: &String| {
        let origin = host(text)?;
        outbound::allowed(&origin, &private_addresses).map(|()| origin)
    };
    let origins = raw.hosts.iter().enumerate();
    let origins = origins
        .filter_map(|(i, text)| problems.take(&format!("{at}.hosts[{i}]"), one(text)))
        .collect();
    if !named {
        if !raw.private_addresses.is_empty() {
            problems.add(format!("{at}.private_addresses"), "means nothing without `hosts`");
        }
        return network;
    }
    Network::Hosts(Hosts { origins, private_addresses })
}

/// Refuses sandbox fields at `level: none`: without a sandbox they would have no effect.
fn plain(raw: &config::SandboxConfig, at: &str, problems: &mut Problems) -> Option<Isolation> {
    let given = [
        ("read", !raw.read.is_empty()),
        ("write", !raw.write.is_empty()),
        ("network", raw.network.is_some()),
        ("hosts", !raw.hosts.is_empty()),
        ("private_addresses", !raw.private_addresses.is_empty()),
        ("programs", !raw.programs.is_empty()),
        ("memory_bytes", raw.memory_bytes.is_some()),
        ("pids", raw.pids.is_some()),
        ("cgroup", raw.cgroup.is_some()),
    ];
    let nothing = given.iter().all(|(_, given)| !given);
    problems.foreign(at, given, "means nothing with `level: none`");
    nothing.then_some(Isolation::None { stated: true })
}

fn paths(
    raw: &[PathBuf],
    at: &str,
    surroundings: &Surroundings<'_>,
    problems: &mut Problems,
) -> Vec<PathBuf> {
    let found = raw.iter().enumerate().filter_map(|(i, path)| {
        let joined = surroundings.base_dir.join(path);
        let path = joined
            .canonicalize()
            .map_err(|e| check::Error::Open(joined, e))
            .and_then(|path| surroundings.apart(&path, &[]).map(|()| path));
        problems.take(&format!("{at}[{i}]"), path)
    });
    found.collect()
}

fn limits(raw: &config::SandboxConfig, at: &str, problems: &mut Problems) -> CommandLimits {
    let memory_bytes = raw.memory_bytes.unwrap_or(MEMORY.1);
    if !(MEMORY.0..=MEMORY.2).contains(&memory_bytes) {
        problems.add(format!("{at}.memory_bytes"), format!("is {} to {}", MEMORY.0, MEMORY.2));
    }
    let pids = raw.pids.unwrap_or(PIDS.0);
    if !(1..=PIDS.1).contains(&pids) {
        problems.add(format!("{at}.pids"), format!("is 1 to {}", PIDS.1));
    }
    let together = command::together(raw.cgroup.as_deref());
    let together = problems.take(&format!("{at}.cgroup"), together).unwrap_or_default();
    CommandLimits { memory_bytes, cpu_seconds: 0, pids, together }
}

/// Where it runs: as it is written, if it may read that; else in the first directory it may write, or read, or in
/// the root.
pub(super) fn cwd(
    sandbox: &Sandbox,
    written: Option<PathBuf>,
    at: &str,
    problems: &mut Problems,
) -> PathBuf {
    let given = || sandbox.write.iter().chain(&sandbox.read);
    match written {
        None => given().find(|path| path.is_dir()).cloned().unwrap_or_else(|| PathBuf::from("/")),
        Some(dir) => {
            if dir != Path::new("/") && !given().any(|path| dir.starts_with(path)) {
                let why = "is neither below `sandbox.read` nor below `sandbox.write`";
                problems.add(format!("{at}.cwd"), why);
            }
            dir
        }
    }
}
