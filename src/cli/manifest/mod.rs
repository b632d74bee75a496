//! `wicketgate manifest init | sign | verify | pin`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Subcommand;

use serde_json::json;

use super::payload::DecryptionKeys;
use super::reader::{self, LedgerSource};
use super::{Exit, Failure, JsonArg, fail, note, print_facts, say, wait, write_new};
use crate::clock::{Clock as _, SystemClock};
use crate::crypto::keys::{PublicKey, SecretKey};
use crate::domain::digest::Digest;
use crate::domain::id::RunId;
use crate::identity::manifest::Manifest;
use crate::identity::{self, Error};

mod fragment;
mod pin;
mod requests;
mod seen;

use seen::SeenReport;

/// Write, pin, sign and verify agent manifests.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Write an example manifest with comments, valid for six months.
    #[command(
        after_help = "Examples:\n  wicketgate manifest init agent.yaml --name code-review-agent"
    )]
    Init {
        /// The file to write; an existing one is never replaced.
        #[arg(default_value = "agent.yaml")]
        file: PathBuf,
        /// The agent's name: [a-z0-9-]{1,63}.
        #[arg(long, default_value = "example-agent")]
        name: String,
    },
    /// Sign a manifest; the envelope goes to FILE.sig.json and replaces an older one.
    #[command(
        after_help = "Examples:\n  wicketgate manifest sign agent.yaml --key keys/a.pem --key keys/b.pem"
    )]
    Sign {
        /// The manifest.
        file: PathBuf,
        /// Sign with this secret key (PKCS#8 PEM); repeat it for more signatures.
        #[arg(long = "key", value_name = "KEY", required = true)]
        keys: Vec<PathBuf>,
        #[command(flatten)]
        json: JsonArg,
    },
    Verify(VerifyArgs),
    Pin(pin::Args),
}

/// Check signatures, fields and validity of a manifest, and that it is not older than another.
///
/// With --seen, also compare the instructions of recorded requests with those that the manifest pins, and show where a
/// text differs from the closest pinned one. The manifest has only digests: the texts come from `templates/` and
/// `instructions/` beside it (`manifest pin` writes them) or from the requests. If the files are gone, also name a run
/// that still matched.
#[derive(clap::Args, Debug)]
#[command(
    mut_group("LedgerSource", |group| group.required(false)),
    after_help = "Examples:\n  wicketgate manifest verify agent.yaml --public-key keys/a.pem.pub\n  \
    wicketgate manifest verify agent.yaml --public-key a.pub --public-key b.pub --threshold 2 --json\n  \
    wicketgate manifest verify new.yaml --previous agent.yaml --public-key a.pub\n  \
    wicketgate manifest verify agent.yaml --public-key a.pub --seen RUN --config wicketgate.yaml\n\n\
    Exits with 1 if the manifest is not valid or a request differs, 2 if a file or the ledger cannot be read, 64 if the\n\
    ledger has no such run."
)]
struct VerifyArgs {
    /// The manifest; its envelope is FILE.sig.json.
    file: PathBuf,
    /// Public key file (PEM) with one or more trusted keys.
    #[arg(long = "public-key", alias = "trust", value_name = "FILE", required = true)]
    trust: Vec<PathBuf>,
    /// How many different trusted keys must have signed.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=64))]
    threshold: u8,
    /// Manifest used before: refuse an older version, or the same version with other bytes.
    #[arg(long, value_name = "FILE")]
    previous: Option<PathBuf>,
    /// Also compare the instructions in the requests of these runs, by their ids, with those that the manifest lists.
    #[arg(long, value_name = "RUN", num_args = 1.., requires = "LedgerSource", value_parser = super::evidence::run_id)]
    seen: Vec<RunId>,
    // A ledger may be named, and need not be.
    #[command(flatten)]
    ledger: Option<LedgerSource>,
    #[command(flatten)]
    keys: DecryptionKeys,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Runs one of the commands.
pub fn run(args: &Args) -> Exit {
    match &args.command {
        Command::Init { file, name } => init(file, name),
        Command::Sign { file, keys, .. } => match sign(file, keys) {
            Ok(()) => Exit::Ok,
            Err(error) => refuse(&error, false),
        },
        Command::Verify(args) => verified(args),
        Command::Pin(args) => pin::run(args),
    }
}

fn verified(args: &VerifyArgs) -> Exit {
    let VerifyArgs { file, trust, threshold, previous, json, .. } = args;
    let manifest = match verify(file, trust, usize::from(*threshold), previous.as_deref()) {
        Ok(manifest) => manifest,
        Err(error) => return refuse(&error, *json),
    };
    let Some(source) = args.ledger.as_ref().filter(|_| !args.seen.is_empty()) else {
        show(&manifest, *json, None);
        return Exit::Ok;
    };
    wait(async {
        let seen = compare(args, &manifest, source).await?;
        show(&manifest, *json, Some(&seen));
        Ok(if seen.is_fine() { Exit::Ok } else { Exit::Invalid })
    })
}

/// Compares the requests of the named runs with the manifest.
async fn compare(
    args: &VerifyArgs,
    manifest: &Manifest,
    source: &LedgerSource,
) -> Result<SeenReport, Failure> {
    let vault = args.keys.vault(source)?;
    let reader = reader::open_reader(source).await?;
    let recorded = requests::read(reader.as_ref(), vault.as_deref(), &args.seen).await?;
    let ledger = source.place().map(|place| place.to_string()).unwrap_or_default();
    Ok(SeenReport::of(manifest, &args.file, recorded.usable(true)?, ledger))
}

/// Prints the errors, line by line, with their codes.
fn refuse(error: &Error, json: bool) -> Exit {
    if json {
        let text = error.to_string();
        let lines: Vec<_> = text.lines().collect();
        say(serde_json::json!({"ok": false, "code": error.code(), "errors": lines}).to_string());
    } else {
        for line in error.to_string().lines() {
            note(format!("{line} ({})", error.code()));
        }
    }
    match error {
        // The manifest itself was not examined.
        Error::Io { .. } | Error::Key(_) => Exit::Unverifiable,
        Error::Format(_)
        | Error::Schema(_)
        | Error::Signature { .. }
        | Error::Threshold { .. }
        | Error::Algorithm { .. }
        | Error::Template { .. }
        | Error::Expired { .. }
        | Error::NotYetValid { .. }
        | Error::Downgrade { .. }
        | Error::Equivocation { .. }
        | Error::Callers { .. }
        | Error::TokenKey { .. } => Exit::Invalid,
    }
}

fn init(file: &Path, name: &str) -> Exit {
    let now = SystemClock::new().now();
    let day = |days: u64| {
        let at = now.plus(Duration::from_secs(days.saturating_mul(86_400))).to_string();
        format!("{}T00:00:00Z", at.split('T').next().unwrap_or_default())
    };
    let text = EXAMPLE
        .replace("{name}", name)
        .replace("{not_before}", &day(0))
        .replace("{not_after}", &day(180));
    let shown = file.display();
    if let Err(error) = identity::read(text.as_bytes(), &shown.to_string()) {
        return fail(Exit::Invalid, error);
    }
    if let Err(error) = write_new(file, text.as_bytes()) {
        return fail(Exit::Invalid, error);
    }
    say(format!("wrote {shown}; next: wicketgate manifest sign {shown} --key KEY"));
    Exit::Ok
}

fn sign(file: &Path, keys: &[PathBuf]) -> Result<(), Error> {
    let shown = file.display().to_string();
    let failed = |path: &Path| {
        let path = path.display().to_string();
        move |source| Error::Io { path, source }
    };
    let yaml = std::fs::read(file).map_err(failed(file))?;
    let keys = keys.iter().map(|path| SecretKey::load(path)).collect::<Result<Vec<_>, _>>()?;
    let envelope = identity::sign(&yaml, &shown, &keys.iter().collect::<Vec<_>>())?;
    identity::read(&yaml, &shown)?.load_templates(file)?;
    let envelope_file = identity::envelope_path(file);
    // Written aside and renamed, so that no reader sees half an envelope.
    let aside = envelope_file.with_extension("json.new");
    std::fs::write(&aside, envelope).map_err(failed(&aside))?;
    std::fs::rename(&aside, &envelope_file).map_err(failed(&envelope_file))?;
    print_facts(json!({"wrote": envelope_file}), format!("wrote {}", envelope_file.display()));
    for key in keys {
        let id = key.public().id();
        print_facts(json!({"signers": [id]}), format!("signed by {id}"));
    }
    Ok(())
}

fn verify(
    file: &Path,
    trust: &[PathBuf],
    threshold: usize,
    previous: Option<&Path>,
) -> Result<Manifest, Error> {
    let mut keys = Vec::new();
    for path in trust {
        keys.extend(PublicKey::load_all(path)?);
    }
    let manifest = Manifest::load(file, &keys, threshold, SystemClock::new().now())?;
    if let Some(path) = previous {
        // WHY: its signature and time are history; only its contents count here.
        let shown = path.display().to_string();
        let bytes =
            std::fs::read(path).map_err(|source| Error::Io { path: shown.clone(), source })?;
        let previous = identity::read(&bytes, &shown)?;
        identity::succeeds(Some((&previous.version, &Digest::of(&[&bytes]))), &manifest)?;
    }
    Ok(manifest)
}

fn show(manifest: &Manifest, json: bool, seen: Option<&SeenReport>) {
    let tools: Vec<_> = manifest.tools.iter().map(|grant| grant.name.as_str()).collect();
    if json {
        let mut value = serde_json::json!({
            "ok": seen.is_none_or(SeenReport::is_fine),
            "name": manifest.name,
            "version": manifest.version.to_string(),
            "owner": manifest.owner,
            "status": manifest.status.as_str(),
            "digest": manifest.digest.prefixed(),
            "signers": manifest.signers,
            "tools": tools,
            "delegates": manifest.delegates.iter().map(Digest::prefixed).collect::<Vec<_>>(),
            "not_before": manifest.not_before.to_string(),
            "not_after": manifest.not_after.to_string(),
        });
        if let (serde_json::Value::Object(members), Some(seen)) = (&mut value, seen) {
            members.insert("seen".to_owned(), seen.facts());
        }
        say(value.to_string());
        return;
    }
    say(format!("{} {} ({})", manifest.name, manifest.version, manifest.status.as_str()));
    say(format!("digest      {}", manifest.digest.prefixed()));
    say(format!("valid       {} to {}", manifest.not_before, manifest.not_after));
    say(format!("tools       {}", tools.join(", ")));
    for delegate in &manifest.delegates {
        say(format!("delegates   {}", delegate.prefixed()));
    }
    for signer in &manifest.signers {
        say(format!("signed by   {signer}"));
    }
    if let Some(seen) = seen {
        seen.print();
    }
}

/// What `manifest init` writes.
const EXAMPLE: &str = r#"# What this agent may ever use. Sign it: wicketgate manifest sign <this file> --key KEY
# Every change needs a new version and a new signature.
apiVersion: wicketgate.dev/v1
kind: AgentManifest
metadata:
  name: {name}                     # [a-z0-9-]{1,63}
  version: 1.0.0                   # semantic version; it can only grow
  owner: platform@example.com
  labels: {team: example}
spec:
  status: active                   # active | suspended | retired | revoked
  mode: enforce                    # enforce | simulate: decide and record, run nothing
  model:
    provider: openai
    names: [gpt-5-mini]            # exact ids; the agent must name one of them
  # SHA-256 of the instructions the agent may run with; several are allowed. Once one is listed,
  # an agent that claims none, or another, cannot open a run.
  # scope: whole | block | first_block | prefix:<bytes> | template. From recorded requests: wicketgate manifest pin
  instructions: []
  #  - {sha256: "<64 hex digits>", scope: whole}
  #  - {name: prompt, sha256: "<64 hex digits of templates/<sha256>.txt>", scope: template, required: true}
  # Pin of the agent layer of the policy bundle (optional).
  # policy: {agent: "sha256:<64 hex digits>"}
  # The only tools that exist for this agent. tier can raise a binding's tier, never lower it.
  tools:
    - {name: repo.read_file, tier: T0}
  # Tools of an MCP server, by its own names for them, from a lock that this key signed:
  #  - {server: github, lock: {signer: "<key id>"}, allow: [create_issue, resources/read]}
  # Tools that the agent runs itself when its model asks for them. The gate judges and records what the model asks for:
  # client_tools: [{name: Bash, tier: T2}]
  # Limits of one run; what is left out is not limited here.
  limits:
    calls: 500
    calls_per_minute: 60
    concurrency: 4
    wall_seconds: 3600
    consecutive_errors: 3
    repeated_calls: 2
  # Manifests whose runs may be opened as children of this one's; their grants can only narrow. Name each by
  # the digest that `manifest verify` shows:
  # delegates: [{manifest: "sha256:<64 hex digits>"}]
  validity:
    not_before: {not_before}
    not_after: {not_after}
"#;
