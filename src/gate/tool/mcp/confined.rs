//! A server in a sandbox: the program that its command line names, and how it is started.
//!
//! The gate finds the program by its own search path and executes it by descriptor, as it does
//! commands: inside the sandbox no `PATH` is searched and the kernel starts no interpreter for a
//! script. The gate therefore reads the script's first line to find its interpreter.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::AsFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::net::UnixStream;
use tokio::net::unix::pipe;
use tokio::process::Child;
use tokio::task::JoinSet;

use super::{Error, tunnel};
use crate::catalog::command::{Level, inspect};
use crate::catalog::server::{Network, Sandbox, Stdio};
use crate::tool::sandbox::{self, Cgroups, Leaf, SandboxPlan, Scratch, host, loopback};

/// Longest chain of scripts that are interpreters of scripts.
const SCRIPTS_MAX: usize = 4;
/// Bytes of a program that are read to determine its format.
const HEAD_BYTES: u64 = 64 << 10;
/// The search path if the configuration sets none.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// A supervisor that has received its plan.
pub(super) struct ServerSupervisor {
    /// The supervisor; it ends after the server has ended.
    pub child: Child,
    /// Shutting it down or dropping it ends the server and all its processes.
    pub control: UnixStream,
    /// The server's standard input.
    pub input: pipe::Sender,
    /// The control group of the server and its processes, if there are control groups.
    pub leaf: Option<Leaf>,
    /// The server's proxy to the hosts it may reach. Dropping it closes every connection.
    pub tunnel: Option<JoinSet<()>>,
}

/// Starts this server in this sandbox. Blocks until the supervisor has received its plan; needs a
/// runtime.
///
/// # Errors
/// The program cannot be found or has an unknown format, or the supervisor cannot be started.
pub(super) fn start(
    stdio: &Stdio,
    sandbox: &Sandbox,
    cgroups: Option<Arc<Cgroups>>,
) -> Result<ServerSupervisor, Error> {
    let found = find(stdio)?;
    let failed = |source| Error::Start { program: stdio.program.clone(), source };
    let (reads, writes) = std::io::pipe().map_err(failed)?;
    let program = found.file.try_clone().map_err(failed)?;
    let plan = plan(stdio, sandbox, found);
    let leaf = cgroups.map(|cgroups| cgroups.leaf(&plan)).transpose().map_err(failed)?;
    let (command, control) = sandbox::supervisor().map_err(failed)?;
    let child = tokio::process::Command::from(command).spawn().map_err(failed)?;
    let handles = (None, leaf.as_ref());
    sandbox::hand_over(&control, &plan, program.as_fd(), reads.as_fd(), handles).map_err(failed)?;
    let tunnel = match &sandbox.network {
        Network::Hosts(hosts) => {
            let listener = loopback::take(&control)?;
            Some(tunnel::serve(listener, hosts, &stdio.program).map_err(failed)?)
        }
        Network::None | Network::Host => None,
    };
    control.set_nonblocking(true).map_err(failed)?;
    let control = UnixStream::from_std(control).map_err(failed)?;
    let input = pipe::Sender::from_owned_fd(writes.into()).map_err(failed)?;
    Ok(ServerSupervisor { child, control, input, leaf, tunnel })
}

/// A program, and how to start it.
#[derive(Debug)]
struct ConfinedProgram {
    file: File,
    /// The dynamic loader of the program.
    loader: Option<PathBuf>,
    /// The program's name, and the arguments before the configured ones.
    argv: Vec<String>,
    /// The scripts that the program reads.
    scripts: Vec<PathBuf>,
}

fn plan(stdio: &Stdio, confined: &Sandbox, found: ConfinedProgram) -> SandboxPlan {
    let literal = stdio.env.iter().cloned();
    let secrets = stdio.secrets.iter();
    let secrets = secrets.map(|(name, secret, _)| (name.clone(), secret.latest().to_string()));
    let scratch = if confined.level >= Level::S2 { Scratch::Tmp } else { Scratch::None };
    let children = confined.programs.iter();
    let children = children.flat_map(|one| one.interpreter.iter().chain([&one.path])).cloned();
    let network = match &confined.network {
        Network::None => sandbox::Network::None,
        Network::Hosts(_) => sandbox::Network::Proxy,
        Network::Host => sandbox::Network::Host,
    };
    let mut env: Vec<_> = literal.chain(secrets).collect();
    if network == sandbox::Network::Proxy {
        tunnel::tell(&mut env);
    }
    let links = if network == sandbox::Network::None { Vec::new() } else { host::targets() };
    let read = confined.read.iter().cloned().chain(found.scripts).chain(links);
    SandboxPlan {
        level: confined.level,
        argv: found.argv.into_iter().chain(stdio.args.iter().cloned()).collect(),
        env,
        interpreter: found.loader,
        read: read.collect(),
        write: confined.write.clone(),
        children: children.collect(),
        scratch,
        cwd: stdio.cwd.clone(),
        network,
        serves: true,
        // Paths that an operator made writable for sandboxes are writable for one fixed user.
        uid: if confined.write.is_empty() { sandbox::next_uid() } else { sandbox::NOBODY },
        cpu: sandbox::next_cpu(),
        limits: confined.limits,
    }
}

/// The program that this command line names.
fn find(stdio: &Stdio) -> Result<ConfinedProgram, Error> {
    let mut name = locate(&stdio.program, stdio)?;
    let mut argv: Vec<String> = Vec::new();
    let mut scripts = Vec::new();
    for _ in 0..=SCRIPTS_MAX {
        let failed = |source| Error::Open { path: name.clone(), source };
        let real = name.canonicalize().map_err(failed)?;
        let file = File::open(&real).map_err(failed)?;
        let facts = file.metadata().map_err(failed)?;
        if !facts.is_file() || facts.permissions().mode() & 0o111 == 0 {
            return Err(Error::NotExecutable(name));
        }
        let mut head = Vec::new();
        file.try_clone()
            .map_err(failed)?
            .take(HEAD_BYTES)
            .read_to_end(&mut head)
            .map_err(failed)?;
        let Some(first) = head.strip_prefix(b"#!") else {
            let loader = match inspect(&head) {
                Ok(elf) => elf.interpreter,
                Err(why) => return Err(Error::Format { path: name, why }),
            };
            // The name as configured, because some runtimes locate their files by it.
            argv.insert(0, name.display().to_string());
            return Ok(ConfinedProgram { file, loader, argv, scripts });
        };
        let Some((next, argument)) = interpreter(first) else {
            return Err(Error::NoInterpreter(name));
        };
        let args = argument.into_iter().chain([real.display().to_string()]);
        argv.splice(0..0, args);
        scripts.push(real);
        name = locate(&next, stdio)?;
    }
    Err(Error::Scripts(stdio.program.clone()))
}

/// The interpreter in a script's first line and its one argument; for `env`, the program that it
/// would search for.
pub(super) fn interpreter(line: &[u8]) -> Option<(String, Option<String>)> {
    let line = line.split(|byte| *byte == b'\n').next()?;
    let line = std::str::from_utf8(line).ok()?.trim();
    let (name, rest) = line.split_once([' ', '\t']).unwrap_or((line, ""));
    let rest = rest.trim();
    if name.rsplit('/').next() != Some("env") {
        return (name.starts_with('/'))
            .then(|| (name.to_owned(), (!rest.is_empty()).then(|| rest.to_owned())));
    }
    let rest = rest.strip_prefix("-S").map_or(rest, str::trim_start);
    let (name, rest) = rest.split_once([' ', '\t']).unwrap_or((rest, ""));
    let plain = !name.is_empty() && !name.starts_with('-') && !name.contains('=');
    let rest = rest.trim();
    plain.then(|| (name.to_owned(), (!rest.is_empty()).then(|| rest.to_owned())))
}

/// The file of this name: the name itself if it has a slash, otherwise the first executable in the
/// `PATH`.
///
/// # Errors
/// There is no such file.
pub fn locate(name: &str, stdio: &Stdio) -> Result<PathBuf, Error> {
    if name.contains('/') {
        return Ok(PathBuf::from(name));
    }
    let path = stdio.path.as_deref().unwrap_or(PATH);
    let runs = |file: &PathBuf| {
        let facts = file.metadata();
        facts.is_ok_and(|facts| facts.is_file() && facts.permissions().mode() & 0o111 != 0)
    };
    let dirs = path.split(':').filter(|dir| dir.starts_with('/'));
    let mut files = dirs.map(|dir| Path::new(dir).join(name));
    files.find(runs).ok_or_else(|| Error::NoProgram(name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::interpreter;

    #[test]
    fn the_first_line_of_a_script_names_its_interpreter() {
        for (line, name, argument) in [
            ("/usr/bin/python3\nimport x", "/usr/bin/python3", None),
            (" /bin/sh -e \n", "/bin/sh", Some("-e")),
            ("/usr/bin/env node", "node", None),
            ("/usr/bin/env -S node --no-warnings", "node", Some("--no-warnings")),
        ] {
            let expected = (name.to_owned(), argument.map(str::to_owned));
            assert_eq!(interpreter(line.as_bytes()), Some(expected), "{line}");
        }
        for line in ["", "python3", "/usr/bin/env", "/usr/bin/env A=1 node", "/usr/bin/env -i x"] {
            assert_eq!(interpreter(line.as_bytes()), None, "{line}");
        }
    }
}
