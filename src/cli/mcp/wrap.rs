//! `wicketgate serve mcp wrap`: one command governs one server, with no configuration by hand.
//!
//! The first start makes in the state directory the files that `init` makes for a client's file,
//! for this one server; every later start with the same command line uses them again.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::catalog::secret::Secret;
use crate::cli::argument::ArgumentError;
use crate::cli::init::confine::{Allow, Choice, ConfinementTerms, available};
use crate::cli::init::draft::{self, Draft};
use crate::cli::init::error::Exclusion;
use crate::cli::init::expand::{ExpansionSources, is_credential};
use crate::cli::init::furnish::{self, ConfigKeys, Plan, StagingDirectory};
use crate::cli::init::probe::{self, Governed};
use crate::cli::init::shape::{Entry, Reach};
use crate::cli::init::text;
use crate::cli::{
    BundleError, Exit, FileError, block_on, config as configuration, fail_all, init, note, observed,
};
use crate::clock::{Clock as _, SystemClock};
use crate::config::{self, Config, Ledger};
use crate::domain::canonical;
use crate::domain::digest::Digest;
use crate::domain::json::Json;
use crate::domain::plural::many;
use crate::domain::time::Timestamp;
use crate::identity::manifest::Manifest;
use crate::policy::bundle::Bundle;

/// How long before the end of observing the command announces it.
const SOON: Duration = Duration::from_secs(3 * 86_400);
const DAY: Duration = Duration::from_secs(86_400);

/// Put a gate in front of one MCP server that a command starts.
///
/// In the client, replace the server's own command with this one. The first start makes keys, starts the server
/// once, signs the tools that it offers, and grants all of them to this user. The agent layer of the policy
/// only observes, so that nothing breaks; the org layer denies arguments that name secret files. The server
/// always starts in a sandbox (S2) without a network, even this first time; only --allow gives it more. Later
/// starts of the same command line in the same directory use the same files.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
        wicketgate serve mcp wrap -- node server.js /tmp\n  \
        wicketgate serve mcp wrap --allow unsandboxed -- npx -y @modelcontextprotocol/server-filesystem /tmp\n  \
        wicketgate serve mcp wrap --env GITHUB_TOKEN -- github-mcp-server stdio\n\n\
        The server gets HOME, LANG, LOGNAME, PATH, SHELL, TERM, TMPDIR, USER and the variables of --env.\n\
        A tool that changes after it was signed is denied until --relock, which starts the server and signs the tools\n\
        that it offers now.\n\
        Observe mode ends on its last day and is never extended silently: --observe-days signs a new end, at most 30 days\n\
        ahead. After that day, tools without a review are denied.\n\
        Before it exits, it writes one line to standard error about the calls that would have been denied.")]
pub struct Args {
    /// State directory; if omitted, $XDG_STATE_HOME/wicketgate or ~/.local/state/wicketgate.
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// Name of the server in entries: [a-z0-9_-]{1,32}; if omitted, made from the command line.
    #[arg(long, value_name = "NAME", value_parser = crate::cli::argument::server)]
    name: Option<String>,
    /// Environment variable to pass to the server; credentials are passed by reference, never copied.
    #[arg(long = "env", value_name = "NAME")]
    env: Vec<String>,
    /// Number of days, from now, for which the agent layer only observes; if omitted at the first start, 14.
    /// Used later, it signs a new end.
    #[arg(long, value_name = "DAYS", value_parser = clap::value_parser!(u16).range(1..=30))]
    observe_days: Option<u16>,
    /// Sign the tools that the server offers now.
    #[arg(long)]
    relock: bool,
    /// Whether the server starts in a sandbox; read at the first start and with --relock.
    #[arg(long, value_name = "LEVEL", default_value = "auto")]
    sandbox: Choice,
    /// Access of the server beyond its command line: `host=HOST[:PORT]` (through a proxy of the gate),
    /// `network` (everything that this host can reach), `read=PATH`, `write=PATH`, `s1` (no namespaces) or
    /// `unsandboxed`; repeat it for more. Read at the first start and with --relock.
    #[arg(long, value_name = "WHAT", value_parser = allow)]
    allow: Vec<Allow>,
    /// Accept tools whose texts have invisible characters (tags, bidirectional controls, escapes, …).
    #[arg(long)]
    accept_hidden: bool,
    /// Seconds that a server has to start and answer.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=600))]
    probe_seconds: u64,
    /// The server's command and its arguments.
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<String>,
}

/// One wrapped server.
struct Wrapped {
    dir: PathBuf,
    name: String,
    entry: Entry,
    cwd: PathBuf,
    within: Duration,
    sandbox: Choice,
    allowed: Vec<(String, Allow)>,
    accept_hidden: bool,
}

/// Why a server is not wrapped.
#[derive(Debug, thiserror::Error)]
enum Error {
    /// The command line has no command.
    #[error("name the command to run")]
    NoCommand,
    /// The current directory is missing.
    #[error("the current directory: {0}")]
    Directory(#[source] std::io::Error),
    /// No variable names the directory for state.
    #[error("neither XDG_STATE_HOME nor HOME is set: add --state")]
    NoState,
    /// A variable of `--env`.
    #[error("--env {0}: the variable is not set")]
    Unset(String),
    /// The server is not governed.
    #[error("the gate cannot serve this server's tools: {0}")]
    LeftOut(Exclusion),
    /// Its command line cannot be written, or needs a path that no sandbox can give.
    #[error(transparent)]
    Excluded(#[from] Exclusion),
    /// The files of the configuration.
    #[error(transparent)]
    Init(#[from] init::error::Error),
}

/// As `init` takes it too, with the server's name before it or without.
fn allow(text: &str) -> Result<Allow, ArgumentError> {
    Allow::parse(text).or_else(|why| Allow::parse_for(text).map(|it| it.1).map_err(|_| why))
}

/// Runs it.
pub fn run(args: &Args) -> Exit {
    let began = SystemClock::new().now();
    let failed = |error: Error| {
        note(format!("wicketgate: error: {error}"));
        Exit::Invalid
    };
    let wrapped = match Wrapped::of(args) {
        Ok(wrapped) => wrapped,
        Err(error) => return failed(error),
    };
    match block_on(wrapped.prepare(args)) {
        Ok(Ok(())) => {}
        Ok(Err(error)) => return failed(error),
        Err(exit) => return exit,
    }
    let file = wrapped.dir.join("wicketgate.yaml");
    let config = match configuration::load(&file) {
        Ok(config) => config,
        Err(problems) => {
            return fail_all(Exit::Config, &problems);
        }
    };
    wrapped.say_until();
    let ledger = ledger(&config);
    let (exit, drifted) = super::serve(config, Some(&wrapped.name), None);
    if drifted {
        note(
            "wicketgate: tools of the server differ from the signed ones, and some were denied; \
             check them, then start once with --relock",
        );
    }
    if exit == Exit::Ok
        && let Some(ledger) = ledger
        && let Ok(Ok(line)) = block_on(observed::line(&ledger, began))
    {
        note(format!(
            "wicketgate: {line}; ledger {}; wicketgate policy observed --config {}",
            ledger.display(),
            file.display()
        ));
    }
    exit
}

fn ledger(config: &Config) -> Option<PathBuf> {
    match &config.ledger {
        Ledger::Sqlite(sqlite) => Some(sqlite.path.clone()),
        Ledger::Postgres(_) => None,
    }
}

impl Wrapped {
    fn of(args: &Args) -> Result<Self, Error> {
        let (command, rest) = args.command.split_first().ok_or(Error::NoCommand)?;
        let cwd = std::env::current_dir().map_err(Error::Directory)?;
        let env = variables(&args.env)?;
        let name = match &args.name {
            Some(name) => name.clone(),
            None => called(command, rest),
        };
        let list = |items: &[String]| {
            items.iter().map(|item| Json::from(item.as_str())).collect::<Vec<_>>()
        };
        let mut names = args.env.clone();
        names.sort();
        let what = Json::object([
            ("command", Json::from(list(&args.command))),
            ("cwd", Json::from(cwd.display().to_string())),
            ("env", Json::from(list(&names))),
        ]);
        let digest = Digest::of(&[&canonical::bytes(&what)]).hex();
        let short = digest.get(..12).unwrap_or_default();
        let dir = state(args.state.as_deref())?.join("wrap").join(format!("{name}-{short}"));
        let reach = Reach::Stdio {
            command: escaped(command),
            args: rest.iter().map(|arg| escaped(arg)).collect(),
            env,
            cwd: None,
        };
        let (ignored, disabled) = (Vec::new(), false);
        let entry = Entry { name: name.clone(), reach, disabled, ignored };
        let within = Duration::from_secs(args.probe_seconds);
        let allowed = args.allow.iter().map(|allow| (name.clone(), allow.clone())).collect();
        let (sandbox, accept_hidden) = (args.sandbox, args.accept_hidden);
        Ok(Self { dir, name, entry, cwd, within, sandbox, allowed, accept_hidden })
    }

    /// Makes the missing files, and renews the signatures that the options ask for.
    async fn prepare(&self, args: &Args) -> Result<(), Error> {
        if !self.dir.join("wicketgate.yaml").is_file() {
            return self.first(args.observe_days.unwrap_or(14)).await;
        }
        if args.relock {
            self.relock().await?;
        }
        if let Some(days) = args.observe_days {
            self.observe(days)?;
        }
        Ok(())
    }

    fn plan(&self, observe_days: u16) -> Plan {
        Plan {
            agent: "wrapped".to_owned(),
            uid: rustix::process::getuid().as_raw(),
            from: "`wicketgate serve mcp wrap`".to_owned(),
            now: SystemClock::new().now(),
            observe: DAY.saturating_mul(observe_days.into()),
            http: None,
            log: "warn",
        }
    }

    async fn first(&self, observe_days: u16) -> Result<(), Error> {
        let stage = match StagingDirectory::begin(&self.dir) {
            Ok(stage) => stage,
            // Another process made it meanwhile.
            Err(_) if self.dir.join("wicketgate.yaml").is_file() => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let draft = self.draft()?;
        for (file, secret) in &draft.secrets {
            stage.write(file, secret.as_bytes(), 0o600).map_err(init::error::Error::from)?;
        }
        let governed = self.probed(draft, stage.part()).await?;
        furnish::furnish(&stage, &self.plan(observe_days), &governed)?;
        match stage.finish() {
            Ok(dir) => {
                let tools: usize = governed.iter().map(|one| one.locked.tools.len()).sum();
                note(format!(
                    "wicketgate: `{}` is governed from now on: {} signed in {}",
                    self.name,
                    many(tools, "tool"),
                    dir.display()
                ));
                Ok(())
            }
            Err(_) if self.dir.join("wicketgate.yaml").is_file() => Ok(()),
            Err(error) => Err(init::error::Error::from(error).into()),
        }
    }

    fn draft(&self) -> Result<Draft, Exclusion> {
        let inputs = BTreeMap::new();
        let sources =
            ExpansionSources { env: &config::environment, inputs: &inputs, folder: &self.cwd };
        Ok(Draft::of(&self.entry, &self.name, &sources)?)
    }

    async fn probed(&self, mut draft: Draft, base: &Path) -> Result<Vec<Governed>, Error> {
        for remark in &draft.notes {
            note(format!("wicketgate: note: {remark}"));
        }
        let terms = ConfinementTerms { choice: self.sandbox, allowed: &self.allowed, base };
        terms.confine(&mut draft).map_err(Exclusion::from)?;
        available([&draft]).map_err(init::error::Error::from)?;
        let forbidden = [base.to_owned(), self.dir.clone()];
        let server = probe::check(&draft, base, &forbidden).map_err(Exclusion::from)?;
        let probing = vec![(draft, Arc::clone(&server))];
        let (governed, silent) = probe::probe(probing, self.within, self.accept_hidden).await;
        if let Some(silent) = silent.into_iter().next() {
            return Err(Error::LeftOut(silent.why));
        }
        for tool in governed.iter().flat_map(|one| &one.left_out) {
            note(format!("wicketgate: note: {tool}"));
        }
        for one in &governed {
            note(format!("wicketgate: `{}` {}", self.name, one.draft.confined.description()));
        }
        Ok(governed)
    }

    /// Signs the server's current tools, and grants them.
    async fn relock(&self) -> Result<(), Error> {
        let governed = self.probed(self.draft()?, &self.dir).await?;
        self.sign(&governed)?;
        note(format!("wicketgate: signed a lock of the tools that `{}` offers now", self.name));
        Ok(())
    }

    fn sign(&self, governed: &[Governed]) -> Result<(), init::error::Error> {
        let keys = ConfigKeys::load(&self.dir)?;
        let version = self.manifest_version()?;
        for (name, bytes) in furnish::signed(&self.plan(0), &version, governed, &keys)? {
            replace(&self.dir.join(name), &bytes)?;
        }
        furnish::tried(&self.dir)
    }

    /// The version after the one that is there.
    fn manifest_version(&self) -> Result<String, init::error::Error> {
        let path = self.dir.join("agent.yaml");
        let bytes = std::fs::read(&path).map_err(FileError::at(&path))?;
        let manifest: Manifest = crate::identity::read(&bytes, "agent.yaml")?;
        Ok(after(&manifest.version))
    }

    /// Signs a new end of observing.
    fn observe(&self, days: u16) -> Result<(), init::error::Error> {
        let keys = ConfigKeys::load(&self.dir)?;
        let policy = self.dir.join("policy");
        let version = after(self.bundle()?.version());
        let plan = self.plan(days);
        replace(&policy.join("bundle.json"), text::bundle(&plan, &version).as_bytes())?;
        furnish::sign_policy(&policy, &keys, plan.now).map(drop)
    }

    fn bundle(&self) -> Result<Bundle, BundleError> {
        let policy = self.dir.join("policy");
        Bundle::load(&policy).map_err(BundleError::at(&policy))
    }

    /// Says that observing ends soon, or has ended.
    fn say_until(&self) {
        let Ok(bundle) = self.bundle() else { return };
        let now = SystemClock::new().now();
        let until: Option<Timestamp> =
            bundle.meta().enforcement.observing(now).into_iter().map(|(_, until)| until).min();
        match until {
            Some(until) if until > now.plus(SOON) => {}
            Some(until) => note(format!(
                "wicketgate: the policy observes until {until} and denies tools without a review \
                 after that; --observe-days signs a new end"
            )),
            None => note(format!(
                "wicketgate: the policy is enforced: tools that are neither read-only nor in {} are denied",
                self.dir.join("policy/data/reviewed.json").display()
            )),
        }
    }
}

fn after(version: &semver::Version) -> String {
    semver::Version::new(version.major, version.minor, version.patch.saturating_add(1)).to_string()
}

/// Replaces a file in one step.
fn replace(path: &Path, bytes: &[u8]) -> Result<(), FileError> {
    let failed = FileError::at(path);
    let mut part = path.as_os_str().to_owned();
    part.push(".part");
    let part = PathBuf::from(part);
    let mode = std::fs::metadata(path).map_err(&failed)?.permissions();
    std::fs::write(&part, bytes).map_err(&failed)?;
    std::fs::set_permissions(&part, mode).map_err(&failed)?;
    std::fs::rename(&part, path).map_err(failed)
}

/// The state directory.
fn state(given: Option<&Path>) -> Result<PathBuf, Error> {
    if let Some(dir) = given {
        let absolute = std::path::absolute(dir).map_err(FileError::at(dir));
        return Ok(absolute.map_err(init::error::Error::from)?);
    }
    let xdg = config::environment("XDG_STATE_HOME").filter(|dir| dir.starts_with('/'));
    let home = || config::environment("HOME").map(|home| format!("{home}/.local/state"));
    let base = xdg.or_else(home).ok_or(Error::NoState)?;
    Ok(PathBuf::from(base).join("wicketgate"))
}

/// The variables to pass on: credentials as references, the rest as they are now.
fn variables(names: &[String]) -> Result<BTreeMap<String, String>, Error> {
    let mut variables = BTreeMap::new();
    for name in names {
        let value = config::environment(name).ok_or_else(|| Error::Unset(name.clone()))?;
        let secret = is_credential(name, &value) && Secret::parse(&value).is_ok();
        let text = if secret { format!("${{{name}}}") } else { escaped(&value) };
        variables.insert(name.clone(), text);
    }
    Ok(variables)
}

/// Text that stays as it is: a shell has expanded everything already.
fn escaped(text: &str) -> String {
    text.replace("${", "${dollar}{")
}

/// A name for this command line: of the package or the program it starts.
fn called(command: &str, args: &[String]) -> String {
    const RUNNERS: [&str; 12] = [
        "npx", "uvx", "uv", "node", "deno", "bun", "bunx", "python", "python3", "docker", "pnpm",
        "sh",
    ];
    let last = |text: &str| text.rsplit('/').find(|part| !part.is_empty()).map(str::to_owned);
    let program = last(command).unwrap_or_default();
    let is_word = |arg: &&String| {
        !arg.starts_with('-') && !matches!(arg.as_str(), "run" | "dlx" | "exec" | "x" | "tool")
    };
    let package = RUNNERS.contains(&program.as_str()).then(|| args.iter().find(is_word)).flatten();
    let called = package.and_then(|package| last(package)).unwrap_or(program);
    let called = called.trim_end_matches(".py").trim_end_matches(".js");
    let called = called.split_once('@').map_or(called, |(name, _)| name);
    draft::names([called]).into_iter().next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_gives_its_server_a_name() {
        for (line, name) in [
            ("npx -y @modelcontextprotocol/server-filesystem /tmp", "server-filesystem"),
            ("npx -y some-server@1.2.3", "some-server"),
            ("uvx mcp-server-git --repository .", "mcp-server-git"),
            ("python3 /srv/My_Server.py", "my_server"),
            ("/usr/bin/github-mcp-server stdio", "github-mcp-server"),
            ("docker run -i ghcr.io/x/y", "y"),
        ] {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            let (command, rest) = words.split_first().unwrap();
            assert_eq!(called(command, rest), name, "{line}");
        }
    }

    #[test]
    fn the_next_version_is_the_next_patch() {
        assert_eq!(after(&semver::Version::new(1, 2, 3)), "1.2.4");
    }
}
