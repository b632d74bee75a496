//! `wicketgate config`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Subcommand;

use super::{Exit, complain, say};
use crate::app::lint::configured_approvers;
use crate::app::never::never;
use crate::catalog::Bound;
use crate::catalog::binding::Kind;
use crate::clock::{Clock as _, SystemClock};
use crate::config::{self, Config};
use crate::crypto::keys::PublicKey;
use crate::identity::callers::{Callers, Trust};
use crate::identity::manifest::Manifest;
use crate::identity::token::RunTokens;
use crate::operator::staff::Staff;
use crate::tool::sandbox::Levels;

/// Check and show the configuration.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Report everything that is wrong with the configuration and the manifests it names.
    #[command(
        after_help = "Example:\n  wicketgate config check wicketgate.yaml\n\nEnds with 78 if anything is wrong."
    )]
    Check {
        /// The configuration file.
        #[arg(default_value = "wicketgate.yaml")]
        file: PathBuf,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Print the effective configuration: defaults, file and environment; never a secret.
    #[command(
        after_help = "Example:\n  WICKETGATE__LIMITS__IN_FLIGHT_MAX=64 wicketgate config print wicketgate.yaml"
    )]
    Print {
        /// The configuration file.
        #[arg(default_value = "wicketgate.yaml")]
        file: PathBuf,
    },
    /// Print the JSON Schema of the configuration file.
    #[command(after_help = "Example:\n  wicketgate config schema > wicketgate.schema.json")]
    Schema,
}

/// Runs one of the commands.
pub fn run(args: &Args) -> Exit {
    match &args.command {
        Command::Check { file, json } => check(file, *json),
        Command::Print { file } => {
            match load(file).and_then(|c| c.to_yaml().map_err(|e| vec![e])) {
                Ok(text) => {
                    say(text.trim_end());
                    Exit::Ok
                }
                Err(problems) => {
                    problems.iter().for_each(complain);
                    Exit::Config
                }
            }
        }
        Command::Schema => {
            let schema = config::schema();
            say(serde_json::to_string_pretty(&schema).unwrap_or_else(|_| schema.to_string()));
            Exit::Ok
        }
    }
}

/// Loads the configuration; every problem as a line, misspelled variables among them.
pub(super) fn load(file: &Path) -> Result<Config, Vec<String>> {
    let present = config::variables();
    let mut problems: Vec<String> = config::stray(present.into_iter())
        .into_iter()
        .map(|name| format!("environment: {name}: no such field"))
        .collect();
    match Config::load(file, &config::environment) {
        Ok(config) if problems.is_empty() => return Ok(config),
        Ok(_) => {}
        Err(more) => problems.extend(more.iter().map(ToString::to_string)),
    }
    Err(problems)
}

fn check(file: &Path, json: bool) -> Exit {
    let mut warnings = Vec::new();
    let problems = match load(file) {
        Ok(config) => whole(&config, &mut warnings),
        Err(problems) => problems,
    };
    if json {
        let ok = problems.is_empty();
        say(serde_json::json!({"ok": ok, "problems": problems, "warnings": warnings}).to_string());
    } else {
        problems.iter().for_each(complain);
        warnings.iter().for_each(|warning| complain(format!("warning: {warning}")));
        if problems.is_empty() {
            say(format!("{}: ok", file.display()));
        }
    }
    if problems.is_empty() { Exit::Ok } else { Exit::Config }
}

/// Loads everything that is named, as `serve` will.
fn whole(config: &Config, warnings: &mut Vec<String>) -> Vec<String> {
    if let Err(wrong) = Staff::load(&config.operators) {
        return wrong;
    }
    warnings.extend(config::operators::unheard(config));
    warnings.extend(passing(config, &config::environment));
    let bound = config.bindings(&config::environment);
    match (manifests(config), bound) {
        (Ok(callers), Ok(bound)) => {
            warnings.extend(bound.warnings.iter().cloned());
            for manifest in callers.manifests() {
                warnings.extend(ungranted(manifest, &bound));
            }
            warnings.extend(callers.strangers());
            warnings.extend(never_run(config, callers.manifests(), &bound));
            isolation(&bound)
        }
        (callers, bound) => callers.err().into_iter().chain(bound.err()).flatten().collect(),
    }
}

/// Set by Kubernetes in every container.
const IN_A_POD: &str = "KUBERNETES_SERVICE_HOST";

/// A ledger that ends with its pod, if this is one. Whether a volume outlives the pod cannot be seen from inside.
fn passing(config: &Config, env: &dyn Fn(&str) -> Option<String>) -> Option<String> {
    let config::Ledger::Sqlite(sqlite) = &config.ledger else { return None };
    env(IN_A_POD).map(|_| {
        format!(
            "ledger: `{}` ends with its directory: in an emptyDir every entry is gone with the pod, and the next pod begins another chain; \
             set `ledger.postgres`, or mount a volume that outlives the pod",
            sqlite.path.display()
        )
    })
}

/// Commands and servers that this machine cannot isolate as they must be.
fn isolation(bound: &Bound) -> Vec<String> {
    let levels = Levels::default();
    let mut missing = Vec::new();
    for binding in &bound.bindings {
        if let Kind::Command(command) = &binding.kind
            && let Err(why) = levels.meet(command.demand())
        {
            missing.push(format!("tool `{}`: {why}", binding.name));
        }
    }
    for server in &bound.servers {
        if let Some(Err(why)) = server.demand().map(|demand| levels.meet(demand)) {
            missing.push(format!("server `{}`: {why}", server.name));
        }
    }
    missing
}

/// Granted tools that can never run, each with what to write.
pub(super) fn never_run(
    config: &Config,
    manifests: &[Arc<Manifest>],
    bound: &Bound,
) -> Vec<String> {
    let tools: Vec<_> = bound.bindings.iter().map(|b| (b.name.to_string(), b.tier)).collect();
    never(manifests, &tools, configured_approvers(config))
}

/// Grants that come to nothing: of tools that nobody bound, or from a lock that another key signed.
fn ungranted(manifest: &Manifest, bound: &Bound) -> Vec<String> {
    let agent = &manifest.name;
    let mut said = Vec::new();
    for grant in &manifest.tools {
        let name = &grant.name;
        let other = grant.signers.iter().find(|key| !bound.lock_signers().contains(key));
        if !bound.bindings.iter().any(|binding| &binding.name == name) {
            said.push(format!("agent `{agent}` is granted `{name}`, and no such tool is bound"));
        } else if let Some(signer) = other {
            said.push(format!(
                "agent `{agent}` is granted `{name}` from a lock signed by `{signer}`, and it did not sign"
            ));
        }
    }
    said
}

/// Loads what the agents name, as `serve` will.
pub(super) fn manifests(config: &Config) -> Result<Callers, Vec<String>> {
    let mut keys = Vec::new();
    for path in &config.trust.manifest_keys {
        match PublicKey::load_all(path) {
            Ok(more) => keys.extend(more),
            Err(error) => return Err(vec![error.to_string()]),
        }
    }
    let socket = config.listen.socket.as_deref();
    let trust = Trust { keys: &keys, threshold: config.trust.manifest_threshold, socket };
    // Only the thumbprints depend on this key, and nobody sees them here.
    let tokens = Arc::new(RunTokens::new([0; 32]));
    Callers::load(&config.agents, &trust, &tokens, SystemClock::new().now()).map_err(|errors| {
        let lines = errors.iter().flat_map(|error| {
            let code = error.code();
            error.to_string().lines().map(|l| format!("{l} ({code})")).collect::<Vec<_>>()
        });
        lines.collect()
    })
}
