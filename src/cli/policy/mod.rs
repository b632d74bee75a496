//! `wicketgate policy`: rules from the first draft to enforcement; one file per subcommand.

mod backtest;
mod bundles;
mod diff;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::{
    BundleError, Exit, Failure, FileError, JsonArg, amend, fail, lint, observed, print_facts, say,
    say_json, suggest, write_new,
};

pub mod archive;
pub mod eval;
mod firewall;
pub mod init;
pub mod inputs;
mod learn;
pub mod mutate;
pub mod schema;
pub mod test;

use crate::approval::ApproverVerdict;
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

/// Check, test, sign, propose and activate policy bundles.
#[derive(Args, Debug)]
pub struct PolicyArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Read every rule and data file of a bundle, and print everything that is wrong
    Check {
        /// The bundle's directory
        dir: PathBuf,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Find rules that never fire, read members that no input has, allow every caller, or need approvers that do not
    /// exist.
    ///
    /// Exits with 1 if a finding is an error: the gate refuses such a bundle (`policy.lint`).
    #[command(after_help = "Examples:\n  wicketgate policy lint policy --config wicketgate.yaml")]
    Lint(lint::Args),
    /// Sign a bundle: write `bundle.sig.json` beside its files
    Sign {
        /// The bundle's directory
        dir: PathBuf,
        /// Sign with this secret key (PKCS#8 PEM); repeat it for more signatures
        #[arg(long, value_name = "KEY", required = true)]
        key: Vec<PathBuf>,
        /// The bundle's name, if it has no `bundle.json` yet
        #[arg(long, requires = "version")]
        name: Option<String>,
        /// The bundle's version, if it has no `bundle.json` yet
        #[arg(long, requires = "name")]
        version: Option<String>,
        #[command(flatten)]
        json: JsonArg,
    },
    /// Decide one input document as the gate would; exit with 0 only for allow
    #[command(
        after_help = "Examples:\n  wicketgate policy eval policy --input input.json --explain\n  \
        wicketgate policy eval policy --sqlite ledger.db --entry 42 --explain\n  \
        wicketgate policy eval policy --config wicketgate.yaml --call tickets.create --args '{\"title\": \"x\"}'"
    )]
    Eval(eval::Args),
    /// Run the tests and decision tables of bundles.
    ///
    /// A rule named `test_…` in `*_test.rego` passes if it is true, as with `opa test`; `todo_test_…` is skipped and
    /// listed. `tests/*.yaml` and `tests/*.json` are decision tables; `tests/fixtures/x.json` is `data.fixtures.x`.
    /// Exits with 1 if a test fails or there are no tests.
    #[command(
        after_help = "Examples:\n  wicketgate policy test policy --coverage-min 100 --junit report.xml"
    )]
    Test(test::Args),
    /// Mutate inputs that are not allowed, and report each mutant that is allowed.
    ///
    /// The command drops each member of an input, sets it to null, changes its type or empties it. A mutant
    /// that is allowed is a failure: it shows that a rule depends on a member that may be missing or have
    /// another type. Exits with 1 if there is one.
    #[command(after_help = "Examples:\n  wicketgate policy mutate policy --below input.args")]
    Mutate(mutate::Args),
    /// Print the JSON Schema (2020-12) of the input document
    #[command(after_help = "Examples:\n  wicketgate policy schema > tests/schema/input.json")]
    Schema(schema::Args),
    /// Write a first bundle: rules, their tests, a decision table, the schema of the input
    #[command(
        after_help = "Examples:\n  wicketgate policy init policy && wicketgate policy test policy"
    )]
    Init(init::Args),
    /// Write a bundle as an OPA archive, for `opa test`, `opa eval` and editors
    #[command(
        after_help = "Examples:\n  wicketgate policy build policy -o bundle.tar.gz && opa test -b bundle.tar.gz"
    )]
    Build(archive::Build),
    /// Write the directory of a `bundle.tar.gz`
    #[command(after_help = "Examples:\n  wicketgate policy unpack bundle.tar.gz -o policy")]
    Unpack(archive::Unpack),
    /// Print, rule by rule, which calls enforcement would have denied while layers only observe
    Observed(observed::Args),
    /// Write least-privilege rules from the calls of a recorded run.
    ///
    /// The rules allow each completed call. They also allow a call that ran only because a layer observed, and
    /// mark it. Denied calls are listed and stay denied. The rules limit prose to its length, numbers to their
    /// range, and programs, SQL statements, URLs and shell commands to the values in the run.
    Suggest(suggest::Args),
    Backtest(backtest::Args),
    Learn(learn::Args),
    Firewall(firewall::Args),
    Diff(diff::Args),
    Propose(amend::Propose),
    Amendments(amend::ListAmendments),
    /// Sign and send an approval of a proposed bundle
    Approve(amend::SignAmendment),
    /// Sign and send a refusal of a proposed bundle
    Refuse(amend::SignAmendment),
    Activate(amend::Activate),
    /// Test a bundle under limits; the gate runs this in a child before it activates one
    #[command(hide = true)]
    SelfTest {
        /// The bundle's directory
        #[arg(long)]
        bundle: PathBuf,
    },
}

/// Runs one of them.
pub fn run(args: &PolicyArgs) -> Exit {
    match &args.command {
        Command::Check { dir, json } => check(dir, *json),
        Command::Sign { dir, key, name, version, .. } => {
            let named = name.as_deref().zip(version.as_deref());
            sign(dir, key, named).map_or_else(Failure::print, |()| Exit::Ok)
        }
        Command::Eval(args) => eval::run(args),
        Command::Test(args) => test::run(args),
        Command::Mutate(args) => mutate::run(args),
        Command::Schema(args) => schema::run(args),
        Command::Init(args) => init::run(args),
        Command::Build(args) => archive::build(args),
        Command::Unpack(args) => archive::unpack_into(args),
        Command::Lint(args) => lint::run(args),
        Command::Observed(args) => observed::run(args),
        Command::Suggest(args) => suggest::run(args),
        Command::Backtest(args) => backtest::run(args),
        Command::Learn(args) => learn::run(args),
        Command::Firewall(args) => firewall::run(args),
        Command::Diff(args) => diff::run(args),
        Command::Propose(args) => amend::propose(args),
        Command::Amendments(args) => amend::amendments(args),
        Command::Approve(args) => amend::give(ApproverVerdict::Approve, args),
        Command::Refuse(args) => amend::give(ApproverVerdict::Refuse, args),
        Command::Activate(args) => amend::activate(args),
        Command::SelfTest { bundle } => self_test(bundle),
    }
}

fn check(dir: &Path, json: bool) -> Exit {
    let loaded = Bundle::load(dir).and_then(|bundle| match RegoEngine::new(&bundle, DEADLINE) {
        Ok(_) => Ok(bundle),
        Err(e) => Err(vec![LoadError::file("policy.engine", ".", e.to_string())]),
    });
    // It would load, and mean something else than its author intended.
    let loaded = loaded.and_then(|bundle| {
        let malformed = malformed(&bundle);
        if malformed.is_empty() { Ok(bundle) } else { Err(malformed) }
    });
    match (loaded, json) {
        (Ok(bundle), true) => say_json(described(&bundle)),
        (Ok(bundle), false) => {
            say(format!("{} {} {}", bundle.name(), bundle.version(), bundle.digest().prefixed()));
            for layer in bundle.layers() {
                say(format!("  {:<5} {}", layer.layer, layer.digest.prefixed()));
            }
            for (layer, until) in observing(&bundle) {
                say(format!(
                    "  the {layer} layer observes until {until}: its denials are not enforced"
                ));
            }
        }
        (Err(errors), true) => {
            let errors: Vec<Value> = errors.iter().map(error_json).collect();
            say_json(json!({"errors": errors, "ok": false}));
            return Exit::Invalid;
        }
        (Err(errors), false) => return fail(Exit::Invalid, BundleError::at(dir)(errors)),
    }
    Exit::Ok
}

/// Layers in observe mode just now, and until when.
fn observing(bundle: &Bundle) -> Vec<(&'static str, Timestamp)> {
    bundle.meta().enforcement.observing(SystemClock::new().now())
}

fn described(bundle: &Bundle) -> Value {
    let layers = bundle.layers().iter();
    let layers = layers.map(|one| json!({"digest": one.digest.prefixed(), "layer": one.layer}));
    let observing = observing(bundle).into_iter();
    let observing = observing.map(|(layer, until)| json!({"layer": layer, "until": until}));
    json!({
        "digest": bundle.digest().prefixed(),
        "layers": layers.collect::<Vec<_>>(),
        "name": bundle.name(),
        "observing": observing.collect::<Vec<_>>(),
        "ok": true,
        "version": bundle.version().to_string(),
    })
}

fn error_json(error: &LoadError) -> Value {
    json!({"code": error.code, "column": error.column, "file": error.file, "line": error.line,
        "message": error.message})
}

/// The text of a bundle's `bundle.json`.
fn meta(name: &str, version: &str) -> Json {
    Json::from(json!({"name": name, "version": version}))
}

fn sign(dir: &Path, keys: &[PathBuf], named: Option<(&str, &str)>) -> Result<(), Failure> {
    if let Some((name, version)) = named {
        write_meta(&Bundle::meta_path(dir), &canonical::bytes(&meta(name, version)))?;
    }
    let bundle = Bundle::load(dir).map_err(BundleError::at(dir)).map_err(Failure::invalid)?;
    RegoEngine::new(&bundle, DEADLINE).map_err(Failure::invalid)?;
    let enforcement = &bundle.meta().enforcement;
    enforcement.check(SystemClock::new().now()).map_err(Failure::invalid)?;
    let loaded: Result<Vec<SecretKey>, _> = keys.iter().map(|k| SecretKey::load(k)).collect();
    let loaded = loaded.map_err(Failure::invalid)?;
    let envelope = bundle.sign(&loaded.iter().collect::<Vec<_>>());
    let path = Bundle::signature_path(dir);
    std::fs::write(&path, envelope).map_err(FileError::at(&path)).map_err(Failure::invalid)?;
    let (name, version, digest) =
        (bundle.name(), bundle.version().to_string(), bundle.digest().prefixed());
    let line = format!("{name} {version} {digest}");
    print_facts(json!({"name": name, "version": version, "digest": digest}), line);
    for key in &loaded {
        let id = key.public().id();
        print_facts(json!({"signers": [id]}), format!("  signed by {id}"));
    }
    print_facts(json!({"wrote": path}), format!("  {}", path.display()));
    Ok(())
}

/// Writes a new file; an existing one with the same bytes is fine.
fn write_meta(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    if std::fs::read(path).is_ok_and(|found| found == bytes) {
        return Ok(());
    }
    if path.exists() {
        return Err(Failure::invalid(OtherName(path.to_owned())));
    }
    write_new(path, bytes).map_err(Failure::invalid)
}

/// The bundle's name or version differs from the command line's.
#[derive(Debug, thiserror::Error)]
#[error("`{}` differs from `--name` and `--version`; change it there, and sign without these options", .0.display())]
struct OtherName(PathBuf);

fn self_test(dir: &Path) -> Exit {
    match selftest::child_main(dir) {
        Ok(digest) => {
            say(digest.prefixed());
            Exit::Ok
        }
        // The parent reads standard output alone.
        Err(e) => {
            say(format!("{e}"));
            Exit::Invalid
        }
    }
}
