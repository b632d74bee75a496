//! `wicketgate init`: from an MCP client's configuration to a governed one.
//!
//! Reads the client's file, takes credentials out of it, starts every server once to see what it offers,
//! and writes configuration, manifest, lock and policy, signed, in one step or not at all. The client
//! then needs one changed command per server.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use zeroize::Zeroizing;

use super::error::Occupied;
use super::{Exit, FileError, argument, block_on, fail_all};
use crate::clock::{Clock as _, SystemClock};
use crate::config;

pub mod confine;
pub mod draft;
pub mod error;
pub mod expand;
pub mod furnish;
mod grants;
pub mod probe;
mod problem;
mod report;
pub mod shape;
pub mod snippet;
pub mod text;
pub mod yaml;

use confine::{Allow, Choice, ConfinementTerms};
use draft::Draft;
use error::{Error, Exclusion, UngovernedServer};
use furnish::{Plan, StagingDirectory};
use probe::Governed;
use report::InitReport;
use shape::{ClientFile, Reach};
use snippet::ServerLocation;

/// Put a gate in front of the servers of an MCP client.
///
/// Reads the configuration of Claude Desktop, Claude Code, Cursor or VS Code, starts every server in it once to
/// see what it offers, and writes everything a gate needs into a directory: keys, configuration, a signed
/// manifest, a signed lock of the servers' tools, and a signed policy. A server that is a program always starts
/// in a sandbox (S2), even this first time: it has no network, and only the files that its command line names.
/// Only `--allow` gives it more. The agent layer of the policy only observes: calls that it would deny still
/// run, and are recorded. The org layer is enforced: it denies arguments that name secret files or cloud
/// metadata addresses.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
    wicketgate init --from .mcp.json\n  \
    wicketgate init --from .vscode/mcp.json --input github_token=pat.txt --write\n  \
    wicketgate init --from .mcp.json --allow github:host=api.github.com --write\n\n\
    Values that look like credentials go into files of mode 0600 and never into wicketgate.yaml.\n\
    Either everything is written or nothing is; an existing directory is never replaced.\n\
    Exits with 0, or with 1 if nothing was written.")]
pub struct Args {
    /// Configuration file of the client: `mcpServers` (Claude, Cursor) or `servers` (VS Code).
    #[arg(long, value_name = "FILE")]
    from: PathBuf,
    /// Directory to write; it must not exist.
    #[arg(long, value_name = "DIR", default_value = "wicketgate")]
    dir: PathBuf,
    /// The agent's name: [a-z0-9-]{1,63}.
    #[arg(long, value_name = "NAME", default_value = "desktop", value_parser = argument::agent)]
    name: String,
    /// Days during which the agent layer of the policy observes.
    #[arg(long, value_name = "DAYS", default_value_t = 14, value_parser = clap::value_parser!(u16).range(1..=30))]
    observe_days: u16,
    /// Value of an input that VS Code would prompt for, read from this file.
    #[arg(long = "input", value_name = "ID=FILE", value_parser = argument::input)]
    inputs: Vec<(String, PathBuf)>,
    /// Seconds that a server has to start and answer.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=600))]
    probe_seconds: u64,
    /// Whether servers that are programs start in a sandbox.
    #[arg(long, value_name = "LEVEL", default_value = "auto")]
    sandbox: Choice,
    /// Access of one server beyond its command line: `host=HOST[:PORT]` (through a proxy of the gate),
    /// `network` (everything that this host can reach), `read=PATH`, `write=PATH`, `s1` (no namespaces) or
    /// `unsandboxed`; repeat it for more.
    #[arg(long, value_name = "NAME:WHAT", value_parser = Allow::parse_for)]
    allow: Vec<(String, Allow)>,
    /// Accept tools whose texts have invisible characters (tags, bidirectional controls, escapes, …).
    #[arg(long)]
    accept_hidden: bool,
    /// Write nothing if one server cannot be governed.
    #[arg(long)]
    strict: bool,
    /// Also serve clients over HTTP on this loopback address, and print the client's entries in that form.
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = "127.0.0.1:7300", value_parser = argument::loopback)]
    http: Option<SocketAddr>,
    /// Change the client's file so that it starts the gate; the original, without its credentials, is kept as
    /// FILE.before-wicketgate.
    #[arg(long)]
    write: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Runs it.
pub fn run(args: &Args) -> Exit {
    match block_on(init(args)) {
        Ok(Ok(report)) => {
            report.print(args.json);
            Exit::Ok
        }
        Ok(Err(error)) => fail_all(Exit::Invalid, &error.lines()),
        Err(exit) => exit,
    }
}

async fn init(args: &Args) -> Result<InitReport, Error> {
    let source = ClientFile::load(&args.from).map_err(Error::Source)?;
    let exe = std::env::current_exe().map_err(Error::Program)?;
    not_governed_yet(&source)?;
    let kept = snippet::backup(&source.file);
    if args.write && kept.exists() {
        return Err(Occupied::File(kept).into());
    }
    let inputs = read_inputs(&args.inputs)?;
    let staging = StagingDirectory::begin(&args.dir)?;
    let folder = draft::folder(&source.file);
    let sources =
        expand::ExpansionSources { env: &config::environment, inputs: &inputs, folder: &folder };
    known(&args.allow, &source)?;
    let terms =
        ConfinementTerms { choice: args.sandbox, allowed: &args.allow, base: staging.part() };
    let (drafts, mut left_out) = drafts(&source, &sources, &staging, terms)?;
    confine::available(drafts.iter().map(|(draft, _)| draft))?;
    let within = Duration::from_secs(args.probe_seconds);
    let (governed, silent) = probe::probe(drafts, within, args.accept_hidden).await;
    left_out.extend(silent);
    if governed.is_empty() || (args.strict && !left_out.is_empty()) {
        return Err(Error::NothingWritten(left_out));
    }
    forget_unused(&staging, &governed);
    let plan = Plan {
        agent: args.name.clone(),
        uid: rustix::process::getuid().as_raw(),
        from: source.file.display().to_string(),
        now: SystemClock::new().now(),
        observe: Duration::from_secs(u64::from(args.observe_days).saturating_mul(86_400)),
        http: args.http,
        log: "info",
    };
    furnish::furnish(&staging, &plan, &governed)?;
    let dir = staging.finish()?;
    let way = match args.http {
        Some(address) => ServerLocation::Http(address),
        None => ServerLocation::Command { exe, config: dir.join("wicketgate.yaml") },
    };
    let mut report = InitReport::new(&plan, dir, &source, &way, governed, left_out);
    if args.write {
        report.rewrite(&source, &way)?;
    }
    Ok(report)
}

/// Refuses a file whose servers run through a gate already: it would govern them twice.
fn not_governed_yet(source: &ClientFile) -> Result<(), Error> {
    for entry in &source.entries {
        let Reach::Stdio { command, args, .. } = &entry.reach else { continue };
        let is_ours = Path::new(command).file_name().is_some_and(|name| name == "wicketgate");
        // Entries that an earlier `init` wrote call it by its name at the top level.
        let serves =
            args.first().filter(|first| *first == "serve").map_or(args.first(), |_| args.get(1));
        if is_ours && serves.is_some_and(|arg| arg == "mcp") {
            let (file, server) = (source.file.clone(), entry.name.clone());
            return Err(Error::Governed { kept: snippet::backup(&file), file, server });
        }
    }
    Ok(())
}

/// Refuses rights for unknown servers: they were meant for another one.
fn known(allowed: &[(String, Allow)], source: &ClientFile) -> Result<(), Error> {
    let there = |name: &String| source.entries.iter().any(|entry| &entry.name == name);
    let Some((name, _)) = allowed.iter().find(|(name, _)| !there(name)) else { return Ok(()) };
    let servers = source.entries.iter().map(|entry| entry.name.clone()).collect();
    Err(Error::UnknownServer { server: name.clone(), file: source.file.clone(), servers })
}

fn read_inputs(
    given: &[(String, PathBuf)],
) -> Result<BTreeMap<String, Zeroizing<String>>, FileError> {
    let mut inputs = BTreeMap::new();
    for (id, file) in given {
        let text = std::fs::read_to_string(file).map_err(FileError::at(file))?;
        let text = Zeroizing::new(text);
        inputs.insert(id.clone(), Zeroizing::new(text.trim_end_matches(['\n', '\r']).to_owned()));
    }
    Ok(inputs)
}

type Drafts = Vec<(Draft, std::sync::Arc<crate::catalog::server::Server>)>;

/// Every server as it will stand in the configuration; its credentials are written already.
fn drafts(
    source: &ClientFile,
    sources: &expand::ExpansionSources<'_>,
    staging: &StagingDirectory,
    terms: ConfinementTerms<'_>,
) -> Result<(Drafts, Vec<UngovernedServer>), Error> {
    let names = draft::names(source.entries.iter().map(|entry| entry.name.as_str()));
    let (mut drafts, mut left_out) = (Vec::new(), Vec::new());
    for (entry, name) in source.entries.iter().zip(names) {
        let left = |why: Exclusion| UngovernedServer { client_name: entry.name.clone(), why };
        if entry.disabled {
            left_out.push(left(Exclusion::Disabled));
            continue;
        }
        let mut draft = match Draft::of(entry, &name, sources) {
            Ok(draft) => draft,
            Err(error) => {
                left_out.push(left(error.into()));
                continue;
            }
        };
        for (file, secret) in &draft.secrets {
            staging.write(file, secret.as_bytes(), 0o600)?;
        }
        let forbidden = [staging.part().to_owned(), staging.place().to_owned()];
        let confined = terms.confine(&mut draft).map_err(Exclusion::from);
        match confined.and_then(|()| Ok(probe::check(&draft, staging.part(), &forbidden)?)) {
            Ok(server) => drafts.push((draft, server)),
            Err(why) => {
                draft.secrets.iter().for_each(|(file, _)| staging.forget(file));
                left_out.push(left(why));
            }
        }
    }
    Ok((drafts, left_out))
}

/// Takes away the credentials of servers that did not answer.
fn forget_unused(staging: &StagingDirectory, governed: &[Governed]) {
    let used: Vec<&str> =
        governed.iter().flat_map(|one| &one.draft.secrets).map(|(f, _)| f.as_str()).collect();
    let entries = std::fs::read_dir(staging.part().join("credentials"));
    for entry in entries.into_iter().flatten().flatten() {
        let name = format!("credentials/{}", entry.file_name().to_string_lossy());
        if !used.contains(&name.as_str()) {
            staging.forget(&name);
        }
    }
}
