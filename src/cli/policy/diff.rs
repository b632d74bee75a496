//! `wicketgate policy diff`: the differences between two bundles, independent of formatting.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::bundles;
use crate::cli::observed::plain;
use crate::cli::{Exit, fail, present, report, say};
use crate::domain::canonical;
use crate::domain::json::Json;
use crate::domain::pointer::Difference;
use crate::policy::bundle::Bundle;
use crate::policy::diff::{Diff, NamedEdit, RuleEdit};

/// Characters of a value that a person sees.
const SHOWN_MAX: usize = 60;

/// Print the differences between two bundles: rules, data, builtins and `bundle.json`.
///
/// Rules are compared by content: whitespace, comments, order and file names do not matter. Test files that
/// differ are listed, but do not count as a difference.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
        wicketgate policy diff policy new-policy\n\n\
        Exit codes: 0 no difference, 1 a difference, 2 a bundle does not load.")]
pub struct Args {
    /// Old bundle: its directory, or its archive
    old: PathBuf,
    /// New bundle: its directory, or its archive
    new: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> Exit {
    let (old, new) = match (bundles::read(&args.old), bundles::read(&args.new)) {
        (Ok(old), Ok(new)) => (old, new),
        (old, new) => {
            let errors = [old.err(), new.err()].into_iter().flatten();
            errors.for_each(|error| _ = fail(Exit::Unverifiable, error));
            return Exit::Unverifiable;
        }
    };
    let diff = Diff::between(&old, &new);
    report(facts(&old, &new, &diff), || print(&old, &new, &diff));
    if diff.is_empty() { Exit::Ok } else { Exit::Invalid }
}

fn described(bundle: &Bundle) -> Value {
    json!({"digest": bundle.digest().prefixed(), "name": bundle.name(), "version": bundle.version().to_string()})
}

fn facts(old: &Bundle, new: &Bundle, diff: &Diff) -> Value {
    let named = |list: &[NamedEdit]| -> Value {
        list.iter().map(|edit| json!({"name": edit.name, "edit": edit.edit.as_str()})).collect()
    };
    let values = |list: &[Difference]| -> Value {
        let one = |edit: &Difference| {
            let at = ("at", Json::from(edit.at.as_str()));
            let sides = [("old", edit.old.clone()), ("new", edit.new.clone())];
            let sides = sides.into_iter().filter_map(|(name, side)| Some((name, side?)));
            Json::object(std::iter::once(at).chain(sides)).to_serde()
        };
        list.iter().map(one).collect()
    };
    let rule = |edit: &RuleEdit| {
        present(json!({
            "rule": edit.rule,
            "kind": edit.kind,
            "edit": edit.edit.as_str(),
            "text": edit.text,
            "old": edit.old,
            "new": edit.new,
        }))
    };
    json!({
        "v": "wicketgate/policy-diff/1",
        "old": described(old),
        "new": described(new),
        "same": diff.is_empty(),
        "layers": named(&diff.layers),
        "packages": named(&diff.packages),
        "rules": diff.rules.iter().map(rule).collect::<Vec<_>>(),
        "description": values(&diff.description),
        "data": values(&diff.data),
        "builtins": named(&diff.builtins),
        "tests": named(&diff.tests),
    })
}

fn print(old: &Bundle, new: &Bundle, diff: &Diff) {
    for (sign, bundle) in [("---", old), ("+++", new)] {
        let (name, version) = (bundle.name(), bundle.version());
        say(format!("{sign} {name} {version} {}", bundle.digest().prefixed()));
    }
    for RuleEdit { rule, kind, edit, old, new, text } in &diff.rules {
        let place = match (old, new) {
            (Some(old), Some(new)) => format!("{old} -> {new}"),
            (Some(one), None) | (None, Some(one)) => one.clone(),
            (None, None) => String::new(),
        };
        // An allow grants what its conditions describe.
        let kind = if *kind == "allow" { "allow (a grant)" } else { kind };
        say(format!("{:<8} {kind} {rule} {place}\n           {}", edit.as_str(), plain(text)));
    }
    named("package", &diff.packages);
    named("builtin", &diff.builtins);
    values("bundle.json", &diff.description);
    values("data", &diff.data);
    named("test file", &diff.tests);
    if diff.is_empty() {
        let other = old.digest() != new.digest();
        say(if other {
            "the bytes differ, but the rules and data are the same"
        } else {
            "the same bundle"
        });
    }
}

fn named(what: &str, list: &[NamedEdit]) {
    for NamedEdit { name, edit } in list {
        say(format!("{:<8} {what} {name}", edit.as_str()));
    }
}

fn values(what: &str, list: &[Difference]) {
    let shown = |value: &Option<Json>| {
        let text = value.as_ref().map_or_else(|| "(nothing)".to_owned(), canonical::text);
        let mut short: String = text.chars().take(SHOWN_MAX).collect();
        if short.len() < text.len() {
            short.push_str("...");
        }
        plain(&short)
    };
    for Difference { at, old, new } in list {
        say(format!("{what} {}: {} -> {}", plain(at), shown(old), shown(new)));
    }
}
