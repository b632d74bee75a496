//! `wicketgate config`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Subcommand;

use super::reader::{self, LedgerLocation};
use super::{Exit, completions, doctor, fail, fail_all, keygen, man, new_config, note, pack, say};
use crate::app::lint::configured_approvers;
use crate::app::named::{self, NamedFiles};
use crate::app::never::{asked_in_dialects, never};
use crate::catalog::Bound;
use crate::config::archive::ArchiveSource;
use crate::config::doc::FieldExplanation;
use crate::config::{self, Config};
use crate::identity::callers::Callers;
use crate::identity::manifest::Manifest;
use crate::ledger::fleet::POOL;
use crate::ledger::in_force::Marks;
use crate::ledger::store::StoreError;
use crate::serve::http::openapi::document;

/// Check and print the configuration and the documents of the program, make keys, and test the isolation.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    Init(new_config::Args),
    /// Report everything that is wrong with the configuration and the files it names.
    #[command(after_help = "Examples:\n  \
            wicketgate config check wicketgate.yaml\n\n\
            Exits with 78 if the configuration has an error.")]
    Check {
        #[command(flatten)]
        file: ConfigArgument,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Print the effective configuration from defaults, file and environment, without secrets.
    #[command(
        after_help = "Examples:\n  WICKETGATE__LIMITS__IN_FLIGHT_MAX=64 wicketgate config print wicketgate.yaml"
    )]
    Print {
        #[command(flatten)]
        file: ConfigArgument,
    },
    /// Print the JSON Schema of the configuration file.
    #[command(after_help = "Examples:\n  wicketgate config schema > wicketgate.schema.json")]
    Schema,
    /// Explain a field of the configuration: its type, default and meaning.
    #[command(after_help = "Examples:\n  \
            wicketgate config explain limits.in_flight_max\n  \
            wicketgate config explain agents.callers\n  \
            wicketgate config explain")]
    Explain {
        /// The field, with dots between the names; without it, all sections.
        #[arg(default_value = "", hide_default_value = true)]
        path: String,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Print the reference of the configuration as Markdown: every field.
    #[command(after_help = "Examples:\n  wicketgate config doc > configuration.md")]
    Doc,
    /// Print the OpenAPI document of HTTP/JSON for agents.
    #[command(after_help = "Examples:\n  wicketgate config openapi > openapi.json")]
    Openapi,
    Keygen(keygen::Args),
    Pack(pack::Args),
    Doctor(doctor::Args),
    Completions(completions::Args),
    Man(man::Args),
}

/// The configuration, as an option.
#[derive(clap::Args, Debug)]
pub(super) struct ConfigFile {
    /// Configuration file
    #[arg(
        short,
        long,
        value_name = "FILE",
        default_value = "wicketgate.yaml",
        env = "WICKETGATE_CONFIG",
        hide_env_values = true
    )]
    pub config: PathBuf,
}

/// The signed archive that the configuration is in, if it is in one.
#[derive(clap::Args, Debug)]
pub(super) struct ArchiveArgs {
    /// Read the configuration and the files that it names from this signed archive (`config pack`); `--config` then names
    /// a file inside it
    #[arg(
        long = "config-archive",
        value_name = "FILE",
        env = "WICKETGATE_ARCHIVE",
        hide_env_values = true
    )]
    archive: Option<PathBuf>,
    /// Public key file (PEM) that verifies the archive; repeat it for more keys, of which one has to have signed
    #[arg(long, value_name = "FILE", env = "WICKETGATE_ARCHIVE_KEY", hide_env_values = true)]
    archive_key: Vec<PathBuf>,
}

impl ArchiveArgs {
    /// The archive with this configuration; none if the configuration is in no archive.
    pub fn source(&self, config: &Path) -> Option<ArchiveSource> {
        let (file, keys, config) = (self.archive.clone()?, self.archive_key.clone(), config.into());
        Some(ArchiveSource { file, keys, config })
    }

    /// As [`load()`], from the archive if one is named.
    pub fn load(&self, config: &Path) -> Result<Config, Vec<String>> {
        match self.source(config) {
            Some(source) => with_variables(
                config::variables(),
                Config::load_archive(&source, None, &config::environment),
            ),
            None => load(config),
        }
    }
}

/// The configuration, as an option like everywhere else or as an argument.
#[derive(clap::Args, Debug)]
struct ConfigArgument {
    /// Configuration file, instead of --config
    file: Option<PathBuf>,
    #[command(flatten)]
    at: ConfigFile,
}

impl ConfigArgument {
    fn path(&self) -> &Path {
        self.file.as_deref().unwrap_or(&self.at.config)
    }
}

/// Runs one of the commands.
pub fn run(args: &Args) -> Exit {
    match &args.command {
        Command::Init(args) => new_config::run(args),
        Command::Keygen(args) => keygen::run(args),
        Command::Pack(args) => pack::run(args),
        Command::Doctor(args) => doctor::run(args),
        Command::Completions(args) => completions::run(args),
        Command::Man(args) => man::run(args),
        Command::Check { file, json } => check(file.path(), *json),
        Command::Print { file } => {
            match load(file.path()).and_then(|c| c.to_yaml().map_err(|e| vec![e.to_string()])) {
                Ok(text) => {
                    say(text.trim_end());
                    Exit::Ok
                }
                Err(problems) => fail_all(Exit::Config, &problems),
            }
        }
        Command::Schema => shown(&config::schema()),
        Command::Explain { path, json } => explain(path, *json),
        Command::Doc => {
            say(config::doc::page().trim_end());
            Exit::Ok
        }
        Command::Openapi => shown(&document()),
    }
}

fn explain(path: &str, json: bool) -> Exit {
    let field = match config::doc::explain(path) {
        Ok(field) => field,
        Err(why) => return fail(Exit::Usage, why),
    };
    let FieldExplanation { path, kind, default, meaning, variable, below } = field;
    if json {
        let below: Vec<&String> = below.iter().map(|(name, _)| name).collect();
        say(serde_json::json!({"path": path, "type": kind, "default": default, "meaning": meaning,
            "variable": variable, "below": below})
        .to_string());
        return Exit::Ok;
    }
    if !path.is_empty() {
        let default = match default.as_str() {
            "" => String::new(),
            "required" => ", required".to_owned(),
            value => format!(", default {value}"),
        };
        say(format!("{path}: {kind}{default}"));
        meaning.iter().filter(|line| !line.is_empty()).for_each(|line| say(format!("  {line}")));
        variable.iter().for_each(|name| say(format!("  Variable: {name}")));
    }
    let width = below.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
    below.iter().for_each(|(name, text)| say(format!("  {name:<width$}  {text}")));
    Exit::Ok
}

fn shown(json: &serde_json::Value) -> Exit {
    say(serde_json::to_string_pretty(json).unwrap_or_else(|_| json.to_string()));
    Exit::Ok
}

/// Loads the configuration; every problem as a line, misspelled variables among them.
pub(super) fn load(file: &Path) -> Result<Config, Vec<String>> {
    with_variables(config::variables(), Config::load(file, &config::environment))
}

/// What was read, unless a variable among these is one of a gate and no field.
pub(super) fn with_variables(
    names: impl IntoIterator<Item = String>,
    read: Result<Config, Vec<config::Problem>>,
) -> Result<Config, Vec<String>> {
    let stray = config::stray(names.into_iter()).into_iter();
    let mut problems: Vec<String> =
        stray.map(|name| format!("environment: {name}: unknown field")).collect();
    match read {
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
        problems.iter().for_each(note);
        warnings.iter().for_each(|warning| note(format!("warning: {warning}")));
        if problems.is_empty() {
            say(format!("{}: ok", file.display()));
        }
    }
    if problems.is_empty() { Exit::Ok } else { Exit::Config }
}

/// Loads everything that is named, by the code that `serve` loads it with.
fn whole(config: &Config, warnings: &mut Vec<String>) -> Vec<String> {
    warnings.extend(config::operators::unheard(config));
    warnings.extend(passing(config, &config::environment));
    match super::block_on(named_files(config)) {
        Ok((found, uncompared)) => {
            warnings.extend(uncompared.map(|why| why.to_string()));
            warnings.extend(found.warnings.into_iter().map(|line| line.text));
            found.problems.into_iter().map(|line| line.text).collect()
        }
        Err(_) => vec!["no runtime: the files of the configuration were not checked".to_owned()],
    }
}

/// Everything that the configuration names, and why its versions were not compared with those in
/// force. Within a runtime, as tools are opened in one.
pub(super) async fn named_files(config: &Config) -> (NamedFiles, Option<Uncompared>) {
    match in_force(config).await {
        Ok(in_force) => (named::check(config, in_force), None),
        Err(why) => (named::check(config, Vec::new()), Some(why)),
    }
}

/// Why versions were not compared with those in force.
#[derive(Debug, thiserror::Error)]
pub(super) enum Uncompared {
    /// The gate's own login does not read.
    #[error(
        "versions were not compared with those in force: the ledger is in Postgres, and `hub.reader_url_file` names no login that may read it"
    )]
    NoLogin,
    /// The ledger cannot be opened.
    #[error("versions were not compared with those in force: {0}")]
    Open(#[from] reader::Error),
    /// The ledger cannot be read.
    #[error("versions were not compared with those in force: {}", .0.reason())]
    Read(#[from] StoreError),
    /// The ledger takes too long.
    #[error("versions were not compared with those in force: no answer in time")]
    Late,
}

/// How long a database may take to answer what is in force.
const WITHIN: Duration = Duration::from_secs(10);

/// What the chains of this gate's slots have had in force, with their logs; why that is not known.
async fn in_force(config: &Config) -> Result<Vec<(String, Marks)>, Uncompared> {
    let (place, slots) = match &config.ledger {
        config::Ledger::Sqlite(sqlite) if !sqlite.path.exists() => return Ok(Vec::new()),
        // Its pool has the name from the file, and the only other one is the fleet log's.
        config::Ledger::Sqlite(sqlite) => (LedgerLocation::Sqlite(&sqlite.path), None),
        config::Ledger::Postgres(postgres) => match &config.hub.reader_url_file {
            Some(file) => (LedgerLocation::PostgresUrlFile(file), Some(postgres.slots.as_str())),
            None => {
                return Err(Uncompared::NoLogin);
            }
        },
    };
    let tenant = match &config.ledger {
        config::Ledger::Sqlite(_) => "default",
        config::Ledger::Postgres(postgres) => postgres.tenant.as_str(),
    };
    let reading = async {
        let reader = reader::open_place(place).await?;
        let mut found = Vec::new();
        for row in reader.chains().await? {
            let pool = row.slot.rsplit_once('/').map(|(pool, _)| pool);
            let ours = pool.is_some_and(|pool| slots.map_or(pool != POOL, |slots| pool == slots));
            if row.tenant == tenant && ours {
                let marks = Marks::read(reader.as_ref(), &row.chain).await;
                found.push((row.origin, marks?));
            }
        }
        Ok(found)
    };
    let read = tokio::time::timeout(WITHIN, reading).await;
    read.unwrap_or(Err(Uncompared::Late))
}

/// Set by Kubernetes in every container.
const IN_A_POD: &str = "KUBERNETES_SERVICE_HOST";

/// A note about a ledger that ends with its pod. The process cannot see whether a volume outlives
/// the pod.
pub(super) fn passing(config: &Config, env: &dyn Fn(&str) -> Option<String>) -> Option<String> {
    let config::Ledger::Sqlite(sqlite) = &config.ledger else { return None };
    env(IN_A_POD).map(|_| {
        format!(
            "ledger: `{}` ends with its directory: in an emptyDir every entry is gone with the pod, and the next pod begins another chain; \
             set `ledger.postgres`, or mount a volume that outlives the pod",
            sqlite.path.display()
        )
    })
}

/// Granted tools that can never run, each with its remedy.
pub(super) fn never_run(
    config: &Config,
    manifests: &[Arc<Manifest>],
    bound: &Bound,
) -> Vec<String> {
    let tools: Vec<_> = bound.bindings.iter().map(|b| (b.name.to_string(), b.tier)).collect();
    never(manifests, &tools, (&asked_in_dialects(config), configured_approvers(config)))
}

/// Loads the agents' manifests, as `serve` will.
pub(super) fn manifests(config: &Config) -> Result<Callers, Vec<String>> {
    named::callers(config)
}
