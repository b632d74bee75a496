//! `wicketgate policy`: rules from the first draft to what is in force; one file per subcommand.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command prints its answer")]

mod backtest;
mod bundles;
mod diff;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};

use super::{amend, lint, observed, suggest};

pub mod archive;
pub mod bar;
pub mod eval;
pub mod init;
pub mod inputs;
pub mod mutate;
pub mod schema;
pub mod test;

use crate::approval::Word;
use crate::clock::{Clock as _, SystemClock};
use crate::crypto::keys::SecretKey;
use crate::domain::canonical;
use crate::domain::json::Json;
use crate::domain::time::Timestamp;
use crate::policy::bundle::Bundle;
use crate::policy::fault::LoadError;
use crate::policy::lint::malformed;
use crate::policy::rego::{DEADLINE, RegoEngine};
use crate::policy::selftest;

/// Checks, signs and tries policy bundles.
#[derive(Args, Debug)]
pub struct PolicyArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Reads every rule and data file of a bundle and prints all that is wrong with it
    Check {
        /// The bundle's directory
        dir: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Finds rules that never fire, read what no input has, allow anybody, or ask nobody
    ///
    /// Prints what it finds. Ends with 1 if any of it is an error: the gate refuses such a bundle
    /// (`policy.lint`).
    #[command(after_help = "Example:\n  wicketgate policy lint policy --config wicketgate.yaml")]
    Lint(lint::Args),
    /// Signs a bundle: writes `bundle.sig.json` beside its files
    Sign {
        /// The bundle's directory
        dir: PathBuf,
        /// A secret key (PKCS#8 PEM); repeat it for more signatures
        #[arg(long, required = true)]
        key: Vec<PathBuf>,
        /// The bundle's name, when it has no `bundle.json` yet
        #[arg(long, requires = "version")]
        name: Option<String>,
        /// The bundle's version, when it has no `bundle.json` yet
        #[arg(long, requires = "name")]
        version: Option<String>,
    },
    /// Decides about one input document, as the gate would; exits 0 only for allow
    #[command(
        after_help = "Examples:\n  wicketgate policy eval policy --input input.json --explain\n  \
        wicketgate policy eval policy --sqlite ledger.db --entry 42 --explain\n  \
        wicketgate policy eval policy --config wicketgate.yaml --call tickets.create --args '{\"title\": \"x\"}'"
    )]
    Eval(eval::Args),
    /// Runs the tests and decision tables of bundles
    ///
    /// Rules named `test_…` of `*_test.rego` pass if they are true, as under `opa test`; `todo_test_…` are
    /// skipped and said. `tests/*.yaml` and `*.json` of the directory are decision tables, `tests/fixtures/x.json`
    /// is `data.fixtures.x`. Ends with 1 if one fails, or there is none.
    #[command(
        after_help = "Example:\n  wicketgate policy test policy --coverage-min 100 --junit report.xml"
    )]
    Test(test::Args),
    /// Drops, nulls, retypes and empties each place of inputs that are not allowed
    ///
    /// A mutant that is allowed is a failure: some rule counts on a member that may be missing, or be of
    /// another type. Ends with 1 if there is one.
    #[command(after_help = "Example:\n  wicketgate policy mutate policy --below input.args")]
    Mutate(mutate::Args),
    /// Prints the JSON Schema (2020-12) of the input document
    #[command(after_help = "Example:\n  wicketgate policy schema > tests/schema/input.json")]
    Schema(schema::Args),
    /// Writes a bundle to start from: rules, their tests, a decision table, the schema of the input
    #[command(
        after_help = "Example:\n  wicketgate policy init policy && wicketgate policy test policy"
    )]
    Init(init::Args),
    /// Writes a bundle as stock OPA reads it, `bundle.tar.gz`, for `opa test`, `opa eval` and editors
    #[command(
        after_help = "Example:\n  wicketgate policy build policy -o bundle.tar.gz && opa test -b bundle.tar.gz"
    )]
    Build(archive::Build),
    /// Writes the directory of a `bundle.tar.gz`
    #[command(after_help = "Example:\n  wicketgate policy unpack bundle.tar.gz -o policy")]
    Unpack(archive::Unpack),
    /// Say what enforcement would have refused while layers only observe, rule by rule
    Observed(observed::Args),
    /// Write least-privilege rules from what a run really did
    ///
    /// Calls that completed are allowed, also those that only ran because a layer observed: each of these is named.
    /// Calls that were refused are listed and not allowed. Only prose is described by a length: of programs,
    /// statements, URLs and lines for a shell what was seen is allowed, and of numbers the range that was seen.
    Suggest(suggest::Args),
    Backtest(backtest::Args),
    Diff(diff::Args),
    Propose(amend::Propose),
    Amendments(amend::Amendments),
    /// Sign that a proposed bundle may be put in force, and send that
    Approve(amend::Give),
    /// Sign that a proposed bundle may not be put in force, and send that
    Refuse(amend::Give),
    Activate(amend::Activate),
    /// Tries a bundle under limits; the gate runs this in a child before it activates one
    #[command(hide = true)]
    SelfTest {
        /// The bundle's directory
        #[arg(long)]
        bundle: PathBuf,
    },
}

/// Runs one of them.
#[must_use]
pub fn run(args: &PolicyArgs) -> ExitCode {
    let done = match &args.command {
        Command::Check { dir, json } => check(dir, *json),
        Command::Sign { dir, key, name, version } => {
            sign(dir, key, name.as_deref().zip(version.as_deref()))
        }
        Command::Eval(args) => return eval::run(args).into(),
        Command::Test(args) => return test::run(args).into(),
        Command::Mutate(args) => return mutate::run(args).into(),
        Command::Schema(args) => return schema::run(args).into(),
        Command::Init(args) => return init::run(args).into(),
        Command::Build(args) => return archive::build(args).into(),
        Command::Unpack(args) => return archive::unpack_into(args).into(),
        Command::Lint(args) => return lint::run(args).into(),
        Command::Observed(args) => return observed::run(args).into(),
        Command::Suggest(args) => return suggest::run(args).into(),
        Command::Backtest(args) => return backtest::run(args).into(),
        Command::Diff(args) => return diff::run(args).into(),
        Command::Propose(args) => return amend::propose(args).into(),
        Command::Amendments(args) => return amend::amendments(args).into(),
        Command::Approve(args) => return amend::give(Word::Approve, args).into(),
        Command::Refuse(args) => return amend::give(Word::Refuse, args).into(),
        Command::Activate(args) => return amend::activate(args).into(),
        Command::SelfTest { bundle } => self_test(bundle),
    };
    match done {
        Ok(code) => code,
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::from(1)
        }
    }
}

fn lines(errors: &[LoadError]) -> String {
    let lines: Vec<String> = errors.iter().map(|e| format!("\n  {e}")).collect();
    format!("the bundle does not load:{}", lines.concat())
}

fn check(dir: &Path, json: bool) -> Result<ExitCode, String> {
    let loaded = Bundle::load(dir).and_then(|bundle| match RegoEngine::new(&bundle, DEADLINE) {
        Ok(_) => Ok(bundle),
        Err(e) => Err(vec![LoadError::file("policy.engine", ".", e.to_string())]),
    });
    // It would load, and not say what its author means.
    let loaded = loaded.and_then(|bundle| {
        let malformed = malformed(&bundle);
        if malformed.is_empty() { Ok(bundle) } else { Err(malformed) }
    });
    match (loaded, json) {
        (Ok(bundle), true) => print_json(&described(&bundle)),
        (Ok(bundle), false) => {
            println!("{} {} {}", bundle.name(), bundle.version(), bundle.digest().prefixed());
            for layer in bundle.layers() {
                println!("  {:<5} {}", layer.layer, layer.digest.prefixed());
            }
            for (layer, until) in observing(&bundle) {
                println!(
                    "  the {layer} layer observes until {until}: its denials are not enforced"
                );
            }
        }
        (Err(errors), true) => {
            let errors: Vec<Json> = errors.iter().map(error_json).collect();
            print_json(&Json::object([("errors", errors.into()), ("ok", Json::from(false))]));
            return Ok(ExitCode::from(1));
        }
        (Err(errors), false) => return Err(lines(&errors)),
    }
    Ok(ExitCode::SUCCESS)
}

/// Layers in observe mode just now, and until when.
fn observing(bundle: &Bundle) -> Vec<(&'static str, Timestamp)> {
    bundle.meta().enforcement.observing(SystemClock::new().now())
}

fn described(bundle: &Bundle) -> Json {
    let observe = |(layer, until): (&str, Timestamp)| {
        Json::object([("layer", Json::from(layer)), ("until", Json::from(until.to_string()))])
    };
    let layer = |layer: &crate::domain::decision::LayerDigest| {
        Json::object([
            ("digest", Json::from(layer.digest.prefixed())),
            ("layer", Json::from(layer.layer.as_str())),
        ])
    };
    Json::object([
        ("digest", Json::from(bundle.digest().prefixed())),
        ("layers", bundle.layers().iter().map(layer).collect::<Vec<_>>().into()),
        ("name", Json::from(bundle.name())),
        ("observing", observing(bundle).into_iter().map(observe).collect::<Vec<_>>().into()),
        ("ok", Json::from(true)),
        ("version", Json::from(bundle.version().to_string())),
    ])
}

fn error_json(error: &LoadError) -> Json {
    Json::object([
        ("code", Json::from(error.code)),
        ("column", Json::from(u64::from(error.column))),
        ("file", Json::from(error.file.as_str())),
        ("line", Json::from(u64::from(error.line))),
        ("message", Json::from(error.message.as_str())),
    ])
}

fn sign(dir: &Path, keys: &[PathBuf], named: Option<(&str, &str)>) -> Result<ExitCode, String> {
    if let Some((name, version)) = named {
        let meta = Json::object([("name", Json::from(name)), ("version", Json::from(version))]);
        write_new(&Bundle::meta_path(dir), &canonical::bytes(&meta))?;
    }
    let bundle = Bundle::load(dir).map_err(|errors| lines(&errors))?;
    RegoEngine::new(&bundle, DEADLINE).map_err(|e| e.to_string())?;
    let enforcement = &bundle.meta().enforcement;
    enforcement.check(SystemClock::new().now()).map_err(|e| e.to_string())?;
    let loaded: Result<Vec<SecretKey>, _> = keys.iter().map(|k| SecretKey::load(k)).collect();
    let loaded = loaded.map_err(|e| e.to_string())?;
    let envelope = bundle.sign(&loaded.iter().collect::<Vec<_>>());
    let path = Bundle::signature_path(dir);
    std::fs::write(&path, envelope).map_err(|e| format!("`{}`: {e}", path.display()))?;
    println!("{} {} {}", bundle.name(), bundle.version(), bundle.digest().prefixed());
    for key in &loaded {
        println!("  signed by {}", key.public().id());
    }
    println!("  {}", path.display());
    Ok(ExitCode::SUCCESS)
}

/// Writes a file that is not there yet; one with these very bytes is as good.
fn write_new(path: &Path, bytes: &[u8]) -> Result<(), String> {
    use std::io::Write as _;
    let shown = path.display();
    match std::fs::File::create_new(path) {
        Ok(mut file) => file.write_all(bytes).map_err(|e| format!("`{shown}`: {e}")),
        Err(_) if std::fs::read(path).is_ok_and(|found| found == bytes) => Ok(()),
        Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {
            Err(format!("`{shown}` says otherwise; change it there"))
        }
        Err(e) => Err(format!("`{shown}`: {e}")),
    }
}

fn self_test(dir: &Path) -> Result<ExitCode, String> {
    match selftest::child_main(dir) {
        Ok(digest) => {
            println!("{}", digest.prefixed());
            Ok(ExitCode::SUCCESS)
        }
        // The parent reads standard output alone.
        Err(e) => {
            println!("{e}");
            Ok(ExitCode::from(1))
        }
    }
}

fn print_json(value: &Json) {
    println!("{}", canonical::text(value));
}
