//! `wicketgate manifest pin`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Value, json};

use super::fragment::{PinProposal, Surroundings};
use super::requests::{self, RecordedRequests};
use crate::cli::error::Occupied;
use crate::cli::payload::DecryptionKeys;
use crate::cli::reader::{self, LedgerLocation, LedgerSource};
use crate::cli::{Exit, Failure, FileError, note, present, report, say_bytes, wait, write_new};
use crate::config::Config;
use crate::domain::id::RunId;
use crate::domain::plural::many;
use crate::evidence::artifacts::Artifacts;
use crate::identity;
use crate::identity::manifest::Manifest;

/// Propose what a manifest pins, from recorded requests to models.
///
/// Reads the requests that agents made in these runs at `/v1` of the gate, and prints members for `spec` of the
/// manifest: `instructions` (a text that is equal in all requests becomes scope `block`, similar ones become a
/// template), `client_tools` with their definitions, and `model`. Read the fragment and the texts before you sign:
/// whatever the runs held is proposed.
///
/// Writes each template to `templates/<sha256>.txt` and the text of each block to `instructions/<sha256>.txt`, in the
/// directory of --out, or in the working directory. The gate reads the templates beside the manifest; the other
/// texts are for people and for `manifest verify --seen`.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
        wicketgate manifest pin --from-run RUN --config wicketgate.yaml\n  \
        wicketgate manifest pin --from-run RUN RUN --sqlite state/ledger.sqlite --artifacts state/artifacts --out pinned.yaml\n  \
        wicketgate manifest pin --from-run RUN --include-denied --config wicketgate.yaml --json\n\n\
    Name several runs, of other days and directories: what differs between them becomes a hole of a template.\n\
    Exits with 1 if no request can be used, 2 if the ledger cannot be read, 64 if it has no such run.")]
pub(super) struct Args {
    /// Ids of the runs with the requests: the header `wicketgate-run` of an answer names its run.
    #[arg(long, value_name = "RUN", num_args = 1.., required = true, value_parser = crate::cli::evidence::run_id)]
    from_run: Vec<RunId>,
    #[command(flatten)]
    source: LedgerSource,
    /// Directory with the manifests: `artifacts` in the gate's state directory; if omitted, that of the configuration.
    #[arg(long, value_name = "DIR")]
    artifacts: Option<PathBuf>,
    #[command(flatten)]
    keys: DecryptionKeys,
    /// Also use the requests that the gate denied, as it does while the manifest does not list the agent's tools or
    /// instructions.
    #[arg(long)]
    include_denied: bool,
    /// Write the fragment to this new file instead of printing it.
    #[arg(long, value_name = "PATH")]
    out: Option<PathBuf>,
    /// Print one JSON object; its `spec` has the proposed members.
    #[arg(long)]
    json: bool,
}

/// Makes the proposal.
pub(super) fn run(args: &Args) -> Exit {
    wait(async {
        propose(args).await?;
        Ok(Exit::Ok)
    })
}

async fn propose(args: &Args) -> Result<(), Failure> {
    if let Some(out) = args.out.as_ref().filter(|out| out.exists()) {
        return Err(Failure::usage(Occupied::File(out.clone())));
    }
    // A directory that is not there would look like one without manifests, and tools of the gate like the agent's.
    if let Some(dir) = &args.artifacts {
        std::fs::read_dir(dir).map_err(FileError::at(dir)).map_err(Failure::usage)?;
    }
    let vault = args.keys.vault(&args.source)?;
    let reader = reader::open_reader(&args.source).await?;
    let recorded = requests::read(reader.as_ref(), vault.as_deref(), &args.from_run).await?;
    let recorded = recorded.usable(args.include_denied)?;
    let proposal = PinProposal::of(&recorded, surroundings(args, &recorded)?);
    let dir = args.out.as_deref().and_then(Path::parent).unwrap_or(Path::new(""));
    let mut files = Vec::new();
    for (name, text) in proposal.files() {
        let path = dir.join(name);
        put(&path, text.as_bytes()).map_err(Failure::usage)?;
        files.push(path.display().to_string());
    }
    let yaml = proposal.yaml();
    if let Some(out) = &args.out {
        write_new(out, yaml.as_bytes()).map_err(Failure::usage)?;
    }
    let left_out = recorded.left_out.iter().map(
        |one| json!({"run": one.run.to_string(), "call": one.call, "why": one.why.to_string()}),
    );
    let mut facts = proposal.facts();
    if let Value::Object(members) = &mut facts {
        members.insert("left_out".to_owned(), left_out.collect());
        members.insert("files".to_owned(), json!(files));
        let out = args.out.as_ref().map(|out| out.display().to_string());
        members.insert("fragment".to_owned(), json!(out));
    }
    report(present(facts), || print(args, &recorded, (&yaml, &files)));
    Ok(())
}

fn print(args: &Args, recorded: &RecordedRequests, (yaml, files): (&str, &[String])) {
    match &args.out {
        Some(out) => note(format!("wrote {}", out.display())),
        None => say_bytes(yaml.as_bytes()),
    }
    for file in files {
        note(format!("wrote {file}"));
    }
    for left in recorded.left_out.iter().take(requests::NAMED_MAX) {
        note(format!("left out: {left}"));
    }
    let more = recorded.left_out.len().saturating_sub(requests::NAMED_MAX);
    if more > 0 {
        note(format!("left out: {}", many(more, "other request")));
    }
}

/// Writes a file that is named by the digest of its bytes: one that is there has them already, or is
/// refused.
fn put(path: &Path, bytes: &[u8]) -> Result<(), FileError> {
    if std::fs::read(path).is_ok_and(|there| there == bytes) {
        return Ok(());
    }
    if let Some(dir) = path.parent() {
        std::fs::create_dir_all(dir).map_err(FileError::at(dir))?;
    }
    write_new(path, bytes)
}

/// What the configuration says about a tool of kind `model`.
#[derive(Deserialize)]
struct ConfiguredTool {
    model: Option<ConfiguredModel>,
}

#[derive(Deserialize)]
struct ConfiguredModel {
    upstreams: Vec<ConfiguredUpstream>,
}

#[derive(Deserialize)]
struct ConfiguredUpstream {
    provider: Option<String>,
    models: BTreeMap<String, Value>,
}

/// What is known besides the requests.
fn surroundings(args: &Args, recorded: &RecordedRequests) -> Result<Surroundings, Failure> {
    let config = match args.source.place() {
        Some(LedgerLocation::Config(path)) => {
            Some(reader::configuration(path).map_err(Failure::usage)?)
        }
        Some(LedgerLocation::Sqlite(_) | LedgerLocation::PostgresUrlFile(_)) | None => None,
    };
    let of_config = config.as_ref().map(|config| config.evidence.artifacts(config));
    let manifests = match args.artifacts.clone().or(of_config) {
        Some(dir) => manifests(&Artifacts::at(&dir), recorded)?,
        None => Vec::new(),
    };
    let models = recorded.requests.iter().map(|request| request.shown.model.as_str());
    let mut providers = config.as_ref().map(|config| providers(config, &models.collect()));
    if providers.as_ref().is_none_or(BTreeSet::is_empty) {
        let named = manifests.iter().map(|manifest| manifest.model_provider.clone());
        providers = Some(named.filter(|provider| !provider.is_empty()).collect());
    }
    let mut known = Surroundings::default();
    let mut providers = providers.into_iter().flatten();
    known.provider = providers.next().filter(|_| providers.next().is_none());
    for manifest in &manifests {
        let names = manifest.tools.iter().map(|grant| grant.name.to_string());
        known.granted.get_or_insert_default().extend(names);
        let tools = manifest.client_tools.iter();
        known.tiers.extend(tools.map(|tool| (tool.name.clone(), tool.tier)));
    }
    Ok(known)
}

/// The stored manifests of the runs. Their digests are in the entries, so no signature is needed here.
fn manifests(artifacts: &Artifacts, recorded: &RecordedRequests) -> Result<Vec<Manifest>, Failure> {
    let digests: BTreeSet<_> = recorded.runs.iter().filter_map(|run| run.manifest).collect();
    let mut all = Vec::new();
    for digest in digests {
        let found = artifacts.manifest(&digest).map_err(Failure::invalid)?;
        let Some((yaml, _)) = found else { continue };
        all.push(identity::read(&yaml, &digest.prefixed()).map_err(Failure::invalid)?);
    }
    Ok(all)
}

/// The providers of the configured upstreams that know one of these models.
fn providers(config: &Config, models: &BTreeSet<&str>) -> BTreeSet<String> {
    let tools =
        config.tools.iter().filter_map(|tool| ConfiguredTool::deserialize(tool).ok()?.model);
    let upstreams = tools.flat_map(|model| model.upstreams);
    let serving = upstreams
        .filter(|upstream| upstream.models.keys().any(|model| models.contains(model.as_str())));
    serving.filter_map(|upstream| upstream.provider).collect()
}
