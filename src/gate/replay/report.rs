//! The result of a replay, for people, machines and readers of JUnit files.

use super::drift::Drift;
use super::player::{BreakGlassUse, Played};
use super::recording::Header;
use crate::domain::canonical;
use crate::domain::digest::Digest;
use crate::domain::id::RunId;
use crate::domain::json::Json;
use crate::domain::plural::many;
use crate::domain::xml::escaped;

/// Version of the JSON report.
pub const VERSION: &str = "wicketgate/replay/1";
/// The most bytes of one value in a text.
const VALUE_MAX: usize = 120;

/// The result of a replay.
#[derive(Clone, PartialEq, Debug)]
pub struct ReplayReport<'a> {
    /// What was replayed.
    pub header: &'a Header,
    /// SHA-256 of the recording.
    pub recording: Digest,
    /// Names of the steps' tools, in order.
    pub tools: Vec<&'a str>,
    /// How far it was played.
    pub played: Played,
    /// For a run that continues from the recording: its first live step, and its id if it was
    /// opened.
    pub forked: Option<(u64, Option<RunId>)>,
    /// Why the replay has no result: the agent's command failed, or the agent never connected.
    pub unsure: Option<String>,
}

impl ReplayReport<'_> {
    /// Whether the agent behaved as recorded, as far as the replay shows.
    #[must_use]
    pub const fn same(&self) -> bool {
        self.played.drifts.is_empty() && self.unsure.is_none()
    }

    fn count(n: usize) -> Json {
        Json::from(u64::try_from(n).unwrap_or(u64::MAX))
    }

    /// One object.
    pub fn to_json(&self) -> String {
        let verdict = match (self.played.drifts.is_empty(), &self.unsure) {
            (false, _) => "drift",
            (true, Some(_)) => "unknown",
            (true, None) => "same",
        };
        let drifts: Vec<Json> = self.played.drifts.iter().map(Drift::to_json).collect();
        let mut members = vec![
            ("v", Json::from(VERSION)),
            ("verdict", Json::from(verdict)),
            ("run", Json::from(self.header.run.to_string())),
            ("agent", Json::from(self.header.agent.as_str())),
            ("recording", Json::from(self.recording.prefixed())),
            ("steps", Self::count(self.played.steps)),
            ("asked", Self::count(self.played.made)),
            ("drifts", drifts.into()),
        ];
        let broken = &self.played.broken;
        members.extend((!broken.is_empty()).then(|| ("break_glass", Json::of(broken))));
        members.extend(self.forked.map(|(at, run)| {
            let run = run.map_or(Json::Null, |run| Json::from(run.to_string()));
            ("fork", Json::object([("at", Json::from(at)), ("run", run)]))
        }));
        members.extend(self.unsure.as_deref().map(|why| ("why", Json::from(why))));
        canonical::text(&Json::object(members))
    }

    /// Lines for a person.
    pub fn to_text(&self) -> String {
        let Played { steps, made: asked, drifts, broken, .. } = &self.played;
        let break_glass_line = |one: &BreakGlassUse| {
            let BreakGlassUse { step, tool, nonce, by } = one;
            let by = by.join(", ");
            format!(
                "break-glass: step {step} (`{tool}`) ran without an approver, by order {nonce} of {by}"
            )
        };
        let mut lines: Vec<String> = broken.iter().map(break_glass_line).collect();
        for drift in drifts {
            lines.push(format!("{}: {}", drift.kind.as_str(), drift.message));
            for change in &drift.changes {
                let shown = |value: &Option<Json>| {
                    value
                        .as_ref()
                        .map_or_else(|| "nothing".to_owned(), |v| clipped(&canonical::text(v)))
                };
                let (was, is) = (shown(&change.old), shown(&change.new));
                lines.push(format!("  {}: recorded {was}, now {is}", path(&change.at)));
            }
        }
        let end = match (drifts.len(), &self.unsure) {
            (0, None) => format!("no drift: {asked} of {steps} steps replayed"),
            (0, Some(why)) => format!("cannot tell: {why}; {asked} of {steps} steps replayed"),
            (n, _) => format!("{}: {asked} of {steps} steps replayed", many(n, "drift")),
        };
        lines.push(end);
        lines.extend(self.forked.and_then(|(at, run)| {
            Some(format!("run {} goes on from step {at} of run {}", run?, self.header.run))
        }));
        lines.join("\n")
    }

    /// One test case per step, and one for drifts outside a step; each drift is a failure.
    pub fn to_junit(&self) -> String {
        let mut cases = String::new();
        let mut failures: usize = 0;
        let mut case = |name: &str, drifts: &[&Drift]| {
            cases.push_str(&format!(
                "  <testcase classname=\"wicketgate.replay\" name=\"{}\">\n",
                escaped(name)
            ));
            failures = failures.saturating_add(usize::from(!drifts.is_empty()));
            for drift in drifts {
                cases.push_str(&format!(
                    "    <failure type=\"{}\" message=\"{}\">{}</failure>\n",
                    drift.kind.as_str(),
                    escaped(&drift.message),
                    escaped(&canonical::text(&drift.to_json()))
                ));
            }
            cases.push_str("  </testcase>\n");
        };
        for (number, tool) in (1_u64..).zip(&self.tools) {
            let about = self.played.drifts.iter().filter(|d| d.step == Some(number));
            case(&format!("step {number} {tool}"), &about.collect::<Vec<_>>());
        }
        let beyond: Vec<_> = self.played.drifts.iter().filter(|d| d.step.is_none()).collect();
        case("nothing beside the steps", &beyond);
        let tests = self.tools.len().saturating_add(1);
        let mut errors: usize = 0;
        if let Some(why) = &self.unsure {
            errors = 1;
            cases.push_str(&format!(
                "  <testcase classname=\"wicketgate.replay\" name=\"the command\">\n    \
                 <error message=\"{}\"/>\n  </testcase>\n",
                escaped(why)
            ));
        }
        let tests = tests.saturating_add(errors);
        format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"{}\" tests=\"{tests}\" \
             failures=\"{failures}\" errors=\"{errors}\">\n{cases}</testsuite>\n",
            escaped(&format!("replay of {}", self.header.run))
        )
    }
}

fn path(path: &str) -> &str {
    if path.is_empty() { "/" } else { path }
}

fn clipped(text: &str) -> String {
    let clipped = crate::record::decided::clip(text, VALUE_MAX);
    if clipped.len() < text.len() { format!("{clipped}…") } else { clipped }
}
