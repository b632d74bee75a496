//! `wicketgate policy lint`.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::{Exit, fail_all, report, say};
use crate::app::lint;
use crate::config;
use crate::policy::bundle::Bundle;
use crate::policy::lint::{Finding, Level, Surroundings};

/// `policy lint`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The bundle's directory
    #[arg(value_name = "DIR", required_unless_present = "bundle")]
    dir: Option<PathBuf>,
    /// The bundle's directory, as an option
    #[arg(long, value_name = "DIR", conflicts_with = "dir")]
    bundle: Option<PathBuf>,
    /// Configuration file with the tools, manifests and approvers to check against. If omitted, checks that need them
    /// are skipped
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Prints the findings; 1 if any of them is an error.
pub fn run(args: &Args) -> Exit {
    // Clap guarantees one of the two.
    let dir = args.dir.as_ref().or(args.bundle.as_ref()).cloned().unwrap_or_default();
    let bundle = match Bundle::load(&dir) {
        Ok(bundle) => bundle,
        Err(errors) => {
            let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
            return fail_all(Exit::Invalid, &lines);
        }
    };
    let findings = match &args.config {
        None => {
            // Without a configuration the approvers are unknown, so the lints report none as
            // missing.
            let surroundings = Surroundings { tools: &[], approvers: usize::MAX, webhook: false };
            crate::policy::lint::lint(&bundle, &surroundings)
        }
        Some(file) => match configured(&bundle, file) {
            Ok(findings) => findings,
            Err(problems) => {
                return fail_all(Exit::Config, &problems);
            }
        },
    };
    let ok = findings.iter().all(|finding| finding.level != Level::Error);
    report(facts(&bundle, &findings, ok), || {
        for finding in &findings {
            say(finding.to_string());
            say(format!("    {}", finding.hint()));
        }
        if findings.is_empty() {
            say(format!("{} {}: no finding", bundle.name(), bundle.version()));
        }
    });
    if ok { Exit::Ok } else { Exit::Invalid }
}

fn configured(bundle: &Bundle, file: &std::path::Path) -> Result<Vec<Finding>, Vec<String>> {
    let config = super::config::load(file)?;
    let callers = super::config::manifests(&config)?;
    let bound = config.bindings(&config::environment)?;
    let named = bound.bindings.iter().map(|binding| (binding.name.to_string(), binding.tier));
    let tools = lint::tiers(named, callers.manifests());
    let approvers = lint::configured_approvers(&config);
    Ok(lint::of(bundle, &config, &tools, approvers, callers.manifests()))
}

fn facts(bundle: &Bundle, findings: &[Finding], ok: bool) -> Value {
    let one = |finding: &Finding| {
        json!({"code": finding.code, "hint": finding.hint(), "level": finding.level.as_str(),
            "message": finding.message, "place": finding.place})
    };
    let findings: Vec<Value> = findings.iter().map(one).collect();
    json!({"findings": findings, "ok": ok, "policy": bundle.digest().prefixed()})
}
