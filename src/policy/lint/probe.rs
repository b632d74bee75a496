//! Calls that no rule can name, put to the engine: a call allowed then is allowed to every agent.

use super::{Finding, Level, Surroundings};
use crate::PolicyEngine as _;
use crate::bundle::Bundle;
use crate::domain::canonical;
use crate::domain::decision::Verdict;
use crate::domain::effect::ToolKind;
use crate::domain::json::Json;
use crate::domain::tier::Tier;
use crate::effect;
use crate::rego::{RegoEngine, UNHURRIED};
use crate::testing::sample;

/// A name that no bundle contains by accident.
const NOBODY: &str = "zz.lint.probe";

/// Asks the engine where the rules alone do not decide. `open`: allow rules that hold for any call;
/// `holds`: where a rule requires an approval.
pub(super) fn ask(
    bundle: &Bundle,
    surroundings: &Surroundings<'_>,
    open: &[String],
    holds: Option<&str>,
) -> Vec<Finding> {
    let engine = match RegoEngine::new(bundle, UNHURRIED) {
        Ok(engine) => engine,
        Err(why) => {
            let (level, code, message) = (Level::Error, "lint.engine", why.to_string());
            return vec![Finding { level, code, message, place: String::new() }];
        }
    };
    let mut findings = default_allow(&engine, open);
    let mut waits = holds.map(str::to_owned);
    for (tool, _) in surroundings.tools.iter().filter(|(_, tier)| *tier == Tier::T3) {
        let verdicts: Vec<_> =
            ToolKind::ALL.iter().map(|kind| verdict(&engine, tool, *kind, Tier::T3)).collect();
        if verdicts.contains(&Some(Verdict::Allow)) {
            let message = format!("the irreversible tool `{tool}` is allowed without an approval");
            let (level, code) = (Level::Error, "lint.irreversible_unapproved");
            findings.push(Finding { level, code, message, place: String::new() });
        }
        if verdicts.contains(&Some(Verdict::RequireApproval)) {
            waits.get_or_insert_with(String::new);
        }
    }
    if let Some(place) = waits.filter(|_| surroundings.approvers == 0) {
        let message = "an approval is required and no approvers are configured: such a call waits until it \
                       expires (`approvals.signers`)";
        let (level, code) = (Level::Warning, "lint.no_channel");
        findings.push(Finding { level, code, message: message.to_owned(), place });
    }
    findings
}

/// A tool and an agent that no rule names, changing something, of every kind.
fn default_allow(engine: &RegoEngine, open: &[String]) -> Vec<Finding> {
    let allowed = |tier: Tier| {
        ToolKind::ALL
            .iter()
            .all(|kind| verdict(engine, NOBODY, *kind, tier) == Some(Verdict::Allow))
    };
    let any_tier = allowed(Tier::T2) || allowed(Tier::T3);
    let code = "lint.default_allow";
    if open.is_empty() && any_tier {
        let message =
            "a call of a tool that no rule names, by an agent that no rule names, is allowed";
        let (message, place) = (message.to_owned(), String::new());
        return vec![Finding { level: Level::Error, code, message, place }];
    }
    // If other rules deny such a call to every agent, it is no default allow, and `allow` still
    // covers more than it names.
    let level = if any_tier { Level::Error } else { Level::Warning };
    let message = "`allow` holds for any call: only a rule that names what it allows is one";
    let one =
        |place: &String| Finding { level, code, message: message.to_owned(), place: place.clone() };
    open.iter().map(one).collect()
}

/// The verdict about one such call; `None`: the engine gives none, which is a denial.
fn verdict(engine: &RegoEngine, tool: &str, kind: ToolKind, tier: Tier) -> Option<Verdict> {
    let input = canonical::bytes(&document(engine, tool, kind, tier));
    engine.decide(&input).ok().map(|answer| answer.verdict)
}

fn document(engine: &RegoEngine, tool: &str, kind: ToolKind, tier: Tier) -> Json {
    let unusual = [Json::object::<String>([]), Json::Null, Json::from("\u{0}../")];
    let agent = [("id", NOBODY), ("version", "0.0.0"), ("owner", NOBODY)];
    let tool = [("name", tool), ("kind", kind.as_str()), ("tier", tier.as_str())];
    let tool = tool.map(|(name, value)| (name, Json::from(value)));
    let id = || Json::object([("id", Json::from(NOBODY))]);
    let mut document = sample::document(engine.by_hand());
    let probe = Json::object([
        ("agent", Json::object(agent.map(|(name, value)| (name, Json::from(value))))),
        ("run", id()),
        ("tool", Json::object(tool.into_iter().chain([("read_only", Json::from(false))]))),
        ("call", id()),
        ("args", Json::object([("a", Json::Array(unusual.to_vec()))])),
        ("effect", effect::unnamed(kind, NOBODY).to_json()),
    ]);
    sample::merge(&mut document, &probe);
    document
}
