//! P5: makes every decision of a policy again, offline, from the recorded input and policy bytes.
//!
//! The engine is the gate's own (`policy::ask`). Before the evaluation, the input is compared with
//! the entry: an input about another call, agent, run, tool, time or other observing layers is a
//! forgery. What the entry does not show is taken as recorded: the counters of the run, the facts
//! the sidecar attests, whether the tool only reads.

use std::collections::BTreeMap;
use std::time::Duration;

use super::arguments;
use super::both;
use super::case::Case;
use super::contradiction::{Error, Undecidable};
use super::input::Input;
use super::report::{Outcome, Report};
use super::same::same;
use crate::approval::Approval;
use crate::approvals::broken;
use crate::bundle::{AGENT, Files, agent_files};
use crate::conversation::RunMessages;
use crate::domain::canonical;
use crate::domain::code::Code;
use crate::domain::commitment::derived;
use crate::domain::digest::Digest;
use crate::domain::json::{Json, Limits};
use crate::domain::plural::many;
use crate::domain::tier::{Binding, Tier};
use crate::domain::time::Timestamp;
use crate::entries::EntryLine;
use crate::entries::approval;
use crate::firewall;
use crate::payloads::Payload;
use crate::policy::bundle::Bundle;
use crate::policy::flow::{floored, is_irreversible, is_released};
use crate::policy::rego::{ENGINE, RegoEngine};
use crate::policy::{self, EngineError, PolicyEngine as _, input};
use crate::projection::{BundleMaterial, decides, is_of_model};
use crate::record::Role;
use crate::record::call::{CallDenied, Decision};
use crate::record::run::{ReplayMode, RunOpened};
use crate::trust::SKEW_MILLIS;
use crate::yaml;

/// Prefix of the item that stays unproven unless this check holds.
pub const NOT_MADE: &str = "that the policy engine would decide the same again";
/// Deadline of one evaluation. The gate's own is shorter and applies to another machine: a decision
/// refused for being late is not made again, and a sound one must not fail on a slow laptop.
const DEADLINE: Duration = Duration::from_secs(30);

/// The result for one decision.
enum ReplayedDecision {
    /// The same decision.
    Same,
    /// No policy was evaluated: an earlier step refused the call.
    NotAsked,
    /// It cannot be made again, for this reason.
    Cannot(Undecidable),
}

/// Makes every decision again. For a bundle that has already failed, nothing is evaluated.
pub fn check(case: &Case<'_>, report: &mut Report) {
    let outcome = match report.failed().first() {
        Some(failed) => Outcome::Unverifiable(format!("not reproduced, because {failed} fails")),
        None => made_again(case.files, &case.materials()),
    };
    report.put("P5", outcome);
}

fn made_again(files: &Files, materials: &[BundleMaterial<'_>]) -> Outcome {
    let mut replay = Replay { files, engines: BTreeMap::new() };
    let (mut same, mut not_asked, mut other_rules) = (0_usize, 0_usize, 0_usize);
    let rules = firewall::rules_digest();
    let mut cannot: BTreeMap<String, usize> = BTreeMap::new();
    let said: Vec<RunMessages<'_>> = materials
        .iter()
        .map(|material| RunMessages::of(material.of_run(), material.payloads))
        .collect();
    let decisions = materials.iter().zip(&said).flat_map(|(material, said)| {
        let (about, opened) = ((material, said), material.opened());
        material.of_run().filter(|line| decides(line)).map(move |line| (about, opened, line))
    });
    for (about, opened, line) in decisions {
        match replay.one(about, opened, line) {
            Ok(ReplayedDecision::Same) => {
                same = same.saturating_add(1);
                let searched_with = line.decision().and_then(|decision| decision.firewall);
                if searched_with.is_some_and(|with| with != rules) {
                    other_rules = other_rules.saturating_add(1);
                }
            }
            Ok(ReplayedDecision::NotAsked) => not_asked = not_asked.saturating_add(1),
            Ok(ReplayedDecision::Cannot(why)) => {
                let count = cannot.entry(why.to_string()).or_default();
                *count = count.saturating_add(1);
            }
            Err(why) => return Outcome::Invalid(format!("seq {}: {why}", line.entry.seq)),
        }
    }
    let mut summary = format!("{} reproduced with the same result", many(same, "decision"));
    if not_asked > 0 {
        summary = format!("{summary}; {not_asked} refused before any policy was evaluated");
    }
    if other_rules > 0 {
        summary = format!(
            "{summary}; the arguments of {} were searched by another rule set, so their findings are not compared",
            many(other_rules, "call")
        );
    }
    if cannot.is_empty() {
        return Outcome::Valid(summary);
    }
    let left: Vec<String> = cannot.iter().map(|(why, n)| format!("{n} not: {why}")).collect();
    Outcome::Unverifiable(format!("{summary}; {}", left.join("; ")))
}

struct Replay<'a> {
    files: &'a Files,
    /// Policies seen so far; `None`: the bundle lacks the bytes.
    engines: BTreeMap<Digest, Option<RegoEngine>>,
}

impl Replay<'_> {
    fn one(
        &mut self,
        (material, said): (&BundleMaterial<'_>, &RunMessages<'_>),
        opened: Option<(Timestamp, &RunOpened)>,
        line: &EntryLine,
    ) -> Result<ReplayedDecision, Error> {
        let draft = &line.entry.draft;
        let Some(input) = draft.committed(Role::PolicyInput) else {
            return not_asked(line).map(|()| ReplayedDecision::NotAsked);
        };
        let Some(Payload::Opened { body, .. }) = material.payloads.0.get(&input.c.0) else {
            return Ok(ReplayedDecision::Cannot(Undecidable::Input));
        };
        let decision = line.decision().ok_or(Error::NoDecision)?;
        let engine = decision.engine;
        if engine != ENGINE {
            return Ok(ReplayedDecision::Cannot(Undecidable::Engine(engine.to_owned())));
        }
        let digest = draft.policy.ok_or(Error::NoPolicy)?;
        let input = Json::parse(body, &Limits::FILE)?;
        if canonical::bytes(&input) != *body {
            return Err(Error::Form);
        }
        let Some((opened_at, opened)) = opened else {
            return Ok(ReplayedDecision::Cannot(Undecidable::Opening));
        };
        let files = self.files;
        let Some(engine) = self.engine(&digest)? else {
            return Ok(ReplayedDecision::Cannot(Undecidable::Policy(digest)));
        };
        let input = Input::of(&input)?;
        let recorded = RecordedInput { material, said, opened, opened_at, files, line, input };
        recorded.fits(engine)?;
        if !recorded.arguments()? {
            return Ok(ReplayedDecision::Cannot(Undecidable::Arguments));
        }
        if detail_of_error(line) == Some("deadline") {
            return Ok(ReplayedDecision::Cannot(Undecidable::Deadline));
        }
        let observing = !recorded.input.observe.is_empty();
        let answered = policy::ask_naming(engine, body, observing);
        if matches!(answered, Err(EngineError::Deadline(_))) {
            return Ok(ReplayedDecision::Cannot(Undecidable::Slow));
        }
        let by = decision.asked_by.map(|by| by.subject.as_str());
        let given = recorded.granted();
        let (answer, rule) = answered.unwrap_or_else(|failure| (policy::denial(&failure), None));
        let answer = policy::weighed(answer, by, &given);
        let released = is_released(by, &given) || broken(line).is_some();
        let tier = decision.tier.unwrap_or(Tier::T3);
        let irreversible = is_irreversible(tier, &recorded.input.tool.kind);
        let answer = floored(answer, recorded.input.taint.as_ref(), irreversible, released);
        let answer = policy::justified(answer, decision.justification.is_some());
        same(line, (&answer, rule.as_deref()), engine)?;
        Ok(ReplayedDecision::Same)
    }

    fn engine(&mut self, digest: &Digest) -> Result<Option<&RegoEngine>, Error> {
        if !self.engines.contains_key(digest) {
            let carried = self.files.0.iter().filter(|(name, _)| name.starts_with("policy/"));
            let mut carried = carried.map(|(_, bytes)| bytes);
            let made = match carried.find(|bytes| Digest::of(&[bytes]) == *digest) {
                None => None,
                Some(archive) => {
                    let bundle = Bundle::from_tar(archive)?;
                    Some(RegoEngine::new(&bundle, DEADLINE)?)
                }
            };
            self.engines.insert(*digest, made);
        }
        Ok(self.engines.get(digest).and_then(Option::as_ref))
    }
}

/// How the rules begin that the gate itself denies by. Those of a policy begin with its package.
const GATE_RULES: [&str; 2] = ["control.", "approval"];

/// A decision without an input came from no policy: it refuses, for reasons that no policy gives.
fn not_asked(line: &EntryLine) -> Result<(), Error> {
    let denied = line.get::<CallDenied>();
    let denied = denied.ok_or_else(|| Error::Unasked(line.kind().to_owned()))?;
    if denied.reasons.is_empty() {
        return Err(Error::NoReason);
    }
    for reason in denied.reasons.iter() {
        let (code, detail) = (reason.code.as_str(), reason.detail.as_str());
        let is_gates = GATE_RULES.iter().any(|rule| reason.rule.starts_with(rule));
        let of_policy =
            [Code::PolicyDenied, Code::BindingInsufficient, Code::PolicyError, Code::CallHeld]
                .into_iter()
                .any(|policy| policy.as_str() == code);
        if of_policy && !is_gates && !matches!(detail, "no_policy" | "policy_ended") {
            return Err(Error::NoInput(code.to_owned()));
        }
    }
    Ok(())
}

/// The detail of `policy.error`, if that is the recorded reason.
fn detail_of_error(line: &EntryLine) -> Option<&str> {
    let reason = line.decision()?.reasons.first()?;
    (reason.code == Code::PolicyError.as_str()).then_some(&*reason.detail)
}

/// One recorded input, and the entry it must match.
struct RecordedInput<'a> {
    material: &'a BundleMaterial<'a>,
    said: &'a RunMessages<'a>,
    opened: &'a RunOpened,
    opened_at: Timestamp,
    files: &'a Files,
    line: &'a EntryLine,
    input: Input,
}

impl RecordedInput<'_> {
    /// Whether the input is about this very call, by this agent, in this run, at this time.
    fn fits(&self, engine: &RegoEngine) -> Result<(), Error> {
        let draft = &self.line.entry.draft;
        let opened = self.opened;
        let run = self.material.run.to_string();
        let decision = self.line.decision().ok_or(Error::NoDecision)?;
        let manifest = opened.manifest.to_string();
        let definition = decision.definition.map(|digest| digest.prefixed());
        let Input { v, agent, call, run: run_input, tool, .. } = &self.input;
        let pairs = [
            ("v", v, Some(self.input.version())),
            ("agent.id", &agent.id, Some(opened.agent.as_str())),
            ("agent.version", &agent.version, Some(opened.version.as_str())),
            ("agent.manifest", &agent.manifest, Some(manifest.as_str())),
            ("agent.binding", &agent.binding, Some(decision.binding.as_str())),
            ("run.id", &run_input.id, Some(run.as_str())),
            ("run.mode", &run_input.mode, Some(opened.mode.as_str())),
            ("tool.name", &tool.name, draft.tool.as_ref().map(|tool| tool.as_str())),
            ("tool.tier", &tool.tier, decision.tier.map(Tier::as_str)),
            ("tool.definition", &tool.definition, definition.as_deref()),
            ("call.id", &call.id, draft.call.as_ref().map(|call| call.as_str())),
        ];
        let incognito = opened.incognito.is_some();
        if run_input.incognito.is_some_and(|given| given != incognito) {
            return Err(Error::Member("run.incognito"));
        }
        if let Some((name, ..)) =
            pairs.into_iter().find(|(_, given, recorded)| Some(given.as_str()) != *recorded)
        {
            return Err(Error::Member(name));
        }
        self.binding(&decision)?;
        self.approvals(engine)?;
        self.delegation(opened)?;
        self.labels(opened)?;
        self.manifest()?;
        self.counters()?;
        // What is played again is judged by what the recorded run had read and by its search, and brings its
        // own labels and findings.
        if !self.is_played() {
            both::taint(&self.input, &decision)?;
            both::search(&self.input, &decision)?;
        }
        let at = self.time()?;
        if engine.valid_until().is_some_and(|until| until <= at) {
            return Err(Error::Ended);
        }
        self.observing(engine, at)
    }

    /// Whether its facts come from a recording.
    fn is_played(&self) -> bool {
        let mode = self.opened.replay.as_ref().map(|replay| replay.mode);
        matches!(mode, Some(ReplayMode::Replay | ReplayMode::Fork))
    }

    /// The binding is that of the run; or the gate saw the model: then this is a call to a model, or
    /// names one.
    fn binding(&self, decision: &Decision<'_>) -> Result<(), Error> {
        if decision.binding != Binding::Observed {
            let same = decision.binding == self.opened.binding;
            return if same { Ok(()) } else { Err(Error::Member("agent.binding")) };
        }
        let Some(by) = decision.proposed_by else {
            return if is_of_model(&self.input.effect) { Ok(()) } else { Err(Error::Unproposed) };
        };
        let of_call = |line: &&EntryLine| {
            let call = line.entry.draft.call.as_ref();
            decides(line) && call.is_some_and(|call| call.as_str() == by)
        };
        // Without its input, the kind of its tool is not known.
        let inputs = self.material.of_run().filter(of_call).filter_map(|line| {
            let c = line.entry.draft.committed(Role::PolicyInput)?;
            crate::conversation::json(self.material.payloads, &c.c.0)
        });
        let mut models = inputs.filter_map(|input| input.get("effect").map(is_of_model));
        if models.all(|is_model| is_model) { Ok(()) } else { Err(Error::ProposedBy(by.to_owned())) }
    }

    /// The ancestors of the run, as its opening records them.
    fn delegation(&self, opened: &RunOpened) -> Result<(), Error> {
        let recorded = Json::of(&opened.delegation.as_deref().unwrap_or_default());
        if self.input.agent.delegation == recorded { Ok(()) } else { Err(Error::Delegation) }
    }

    /// The labels of the run's opening, which are claims.
    fn labels(&self, opened: &RunOpened) -> Result<(), Error> {
        let labels = opened.labels.iter().map(|label| (&*label.k, Json::from(&*label.v)));
        let labels = Json::object(labels);
        let given = [&self.input.run.labels, &self.input.context.claimed];
        if given.iter().all(|given| **given == labels) { Ok(()) } else { Err(Error::Labels) }
    }

    /// Owner, labels and binding, if the bundle has the manifest. A1 checks the manifest itself.
    fn manifest(&self) -> Result<(), Error> {
        let digest = Some(self.opened.manifest.0);
        let names = digest.map(|digest| [AGENT.to_owned(), agent_files(&digest).0]);
        let mut there = names.iter().flatten().filter_map(|name| self.files.get(name));
        let bytes = there.find(|bytes| Some(Digest::of(&[bytes])) == digest);
        let Some(bytes) = bytes else { return Ok(()) };
        let value: serde_json::Value = yaml::from_slice(bytes, AGENT)?;
        let part = |name: &str| value.pointer(name).map(Json::of);
        let owner = part("/metadata/owner").unwrap_or_else(|| Json::from(""));
        let labels = part("/metadata/labels").unwrap_or_else(|| Json::Object(BTreeMap::new()));
        let agent = &self.input.agent;
        if agent.owner != owner || agent.labels != labels {
            return Err(Error::Owner);
        }
        self.accepted(value.pointer("/spec").unwrap_or(&serde_json::Value::Null))
    }

    /// The run is bound at least as strongly as the manifest requires, and the policy saw the
    /// requirement for T3 calls: the manifest's, or a stricter one below another run. Inputs of a
    /// version without this member required `observed`.
    fn accepted(&self, spec: &serde_json::Value) -> Result<(), Error> {
        let member = |name: &str| spec.pointer(name).and_then(serde_json::Value::as_str);
        let list = |name: &str| spec.pointer(name).and_then(serde_json::Value::as_array);
        let listed = |name: &str| list(name).is_some_and(|all| !all.is_empty());
        let least = member("/binding/minimum").map_or_else(
            || match listed("/model/names") || listed("/instructions") {
                true => Some(Binding::Claimed),
                false => Some(Binding::Unclaimed),
            },
            Binding::parse,
        );
        // The gate's own test calls belong to no agent.
        let own = self.opened.auth.method == "internal";
        if !own && least.is_none_or(|least| self.opened.binding < least) {
            return Err(Error::Binding);
        }
        let demand = Binding::parse(member("/binding/tier3").unwrap_or("observed"));
        let tier = Binding::parse(self.input.agent.tier3.as_deref().unwrap_or("observed"));
        let below = self.opened.delegation.is_some();
        if tier.is_some() && (tier == demand || below && tier > demand) {
            return Ok(());
        }
        Err(Error::Tier3)
    }

    /// The approvals of the call that were counted before its decision.
    fn granted(&self) -> Vec<Approval> {
        let (call, seq) = (&self.line.entry.draft.call, self.line.entry.seq);
        let before =
            move |line: &&EntryLine| line.entry.draft.call == *call && line.entry.seq < seq;
        let granted = self.material.of_run().filter(before);
        Approval::counted(granted.filter_map(|line| approval::granted(&line.entry)))
    }

    /// The approvals of the call when it was decided, and the layers that count them for
    /// themselves.
    fn approvals(&self, engine: &RegoEngine) -> Result<(), Error> {
        let granted: Vec<Json> = self.granted().iter().map(input::approval_json).collect();
        // Answers before the span were not read.
        if !self.material.cut.begin && self.input.approvals != Json::Array(granted) {
            return Err(Error::Approvals);
        }
        if self.input.quorum != input::quorum_json(engine.by_hand()) {
            return Err(Error::Quorum);
        }
        // P4 checks that order.
        let broken = broken(self.line);
        if self.input.break_glass == input::break_glass_json(broken.as_ref()) {
            Ok(())
        } else {
            Err(Error::BreakGlass)
        }
    }

    /// The counters, which the input has twice, agree.
    fn counters(&self) -> Result<(), Error> {
        let same = self.input.run.counters == self.input.history;
        if same { Ok(()) } else { Err(Error::Counters) }
    }

    /// When the policy was evaluated: close to the entry's own time, and spelt correctly.
    fn time(&self) -> Result<Timestamp, Error> {
        let is_near = |at: Timestamp, of: Timestamp| {
            at.millis().abs_diff(of.millis()) <= SKEW_MILLIS.unsigned_abs()
        };
        let at = self.input.evaluated_at()?;
        if !is_near(at, self.line.entry.ts) {
            return Err(Error::Time { seen: at, recorded: self.line.entry.ts });
        }
        if input::time_json(at) != self.input.time {
            return Err(Error::TwoTimes);
        }
        if !is_near(self.input.run.opened_at, self.opened_at) {
            return Err(Error::OpenedAt);
        }
        Ok(at)
    }

    fn observing(&self, engine: &RegoEngine, at: Timestamp) -> Result<(), Error> {
        let tier = self.line.decision().and_then(|decision| decision.tier);
        let layers = match tier {
            Some(Tier::T0 | Tier::T1 | Tier::T2) => engine.observing(at),
            Some(Tier::T3) | None => Vec::new(),
        };
        let given = self.input.observe.iter().map(String::as_str);
        if given.eq(layers.iter().map(|(layer, _)| *layer)) {
            Ok(())
        } else {
            Err(Error::Observing)
        }
    }

    /// Whether the firewall of this verifier has the rules of the gate's, whose digest is in the entry.
    /// Entries of earlier versions have none.
    fn is_searched_by_these_rules(&self) -> bool {
        let rules = self.line.decision().and_then(|decision| decision.firewall);
        rules.is_some_and(|rules| rules == firewall::rules_digest())
    }

    /// Whether the arguments are disclosed; if so, they are those that the policy saw, and the
    /// firewall's findings are reproduced.
    fn arguments(&self) -> Result<bool, Error> {
        let args = self.line.entry.draft.committed(Role::Args);
        let args = args.ok_or(Error::NoArguments)?;
        let Some(Payload::Opened { salt, body, .. }) = self.material.payloads.0.get(&args.c.0)
        else {
            return Ok(false);
        };
        // Keyed with the salt of the arguments, from which the effect is made.
        let effect = derived(salt, &[b"effect:", &canonical::bytes(&self.input.effect)]);
        let recorded = self.line.decision().and_then(|decision| decision.effect);
        if recorded != Some(Digest::from_bytes(effect)) {
            return Err(Error::Effect);
        }
        let about = (self.said, self.material.payloads);
        let Some(seen) = arguments::compare(&self.input, body, about)? else { return Ok(false) };
        if self.is_searched_by_these_rules() {
            seen.finds(&self.input)?;
        }
        Ok(true)
    }
}
