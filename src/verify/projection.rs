//! The three files for people, as pure functions of entries and payloads: always the same bytes.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use super::bundle::{AGENT_RUN, DECISION, PlaceForm, TOOL_TRACE};
use super::conversation::{RunMessages, json};
use super::payloads::{Payload, Payloads};
use super::scope::Scope;
use crate::domain::canonical;
use crate::domain::effect::EffectKind;
use crate::domain::id::{CallId, ChainId, RunId, Seq};
use crate::domain::json::Json;
use crate::domain::tier::Binding;
use crate::domain::time::Timestamp;
use crate::entries::EntryLine;
use crate::record::call::CallProgress;
use crate::record::conversation::said;
use crate::record::run::RunOpened;
use crate::record::{Kind, Role};

/// The material of a bundle: the lines of one run among those that introduce it.
#[derive(Clone, Debug)]
pub struct BundleMaterial<'a> {
    /// The run.
    pub run: &'a RunId,
    /// Name of the log.
    pub origin: &'a str,
    /// All lines of the chain that the bundle has, ascending.
    pub lines: &'a [EntryLine],
    /// The lines of the run among them.
    own: Vec<&'a EntryLine>,
    /// Which ends of the run lie outside the selection.
    pub cut: Cut,
    /// What opens them.
    pub payloads: &'a Payloads,
}

/// Which ends of a run a range leaves out. A cut run is never called complete.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Cut {
    /// It was opened before the range.
    pub begin: bool,
    /// The range ends before the log does, and the run is not sealed in it.
    pub end: bool,
}

impl Cut {
    /// Whether anything is left out.
    #[must_use]
    pub const fn any(self) -> bool {
        self.begin || self.end
    }
}

/// One call from its first entry to its last.
#[derive(Clone, Debug)]
pub struct ProjectedCall<'a> {
    /// The call.
    pub id: &'a CallId,
    /// Its lines.
    pub lines: Vec<&'a EntryLine>,
}

impl ProjectedCall<'_> {
    /// Number of bytes of the answer that the newest progress covers, if the gate ended before it could
    /// record the rest.
    #[must_use]
    pub fn covered_bytes(&self) -> Option<u64> {
        let last = self.lines.last().filter(|line| line.is(Kind::CallUnknown))?;
        let observed = last.entry.draft.body.observed();
        if observed.is_some_and(|observed| observed.stream.is_some()) {
            return None;
        }
        let newest = self.lines.iter().rev().find_map(|line| line.get::<CallProgress>());
        newest.map(|progress| progress.bytes.get())
    }
}

impl<'a> BundleMaterial<'a> {
    /// The run `run` among these lines of the log `origin`.
    pub fn new(
        run: &'a RunId,
        origin: &'a str,
        lines: &'a [EntryLine],
        payloads: &'a Payloads,
    ) -> Self {
        let of_run =
            |line: &&EntryLine| line.entry.run.as_ref().is_some_and(|link| link.run == *run);
        let own = lines.iter().filter(of_run).collect();
        Self { run, origin, lines, own, cut: Cut::default(), payloads }
    }

    /// A run whose lines were found, cut like this.
    pub fn part(
        run: &'a RunId,
        origin: &'a str,
        (lines, own): (&'a [EntryLine], Vec<&'a EntryLine>),
        cut: Cut,
        payloads: &'a Payloads,
    ) -> Self {
        Self { run, origin, lines, own, cut, payloads }
    }

    /// The lines of the run.
    pub fn of_run(&self) -> impl Iterator<Item = &'a EntryLine> {
        self.own.iter().copied()
    }

    /// The run's `run.opened`, even if it precedes the selected range.
    #[must_use]
    pub fn opening(&self) -> Option<&'a RunOpened> {
        self.opened().map(|(_, opened)| opened)
    }

    /// The same, with its time.
    #[must_use]
    pub fn opened(&self) -> Option<(Timestamp, &'a RunOpened)> {
        let of_run =
            |l: &&EntryLine| l.entry.run.as_ref().is_some_and(|link| link.run == *self.run);
        let mut all = self.own.iter().copied().take(1).chain(self.lines.iter().filter(of_run));
        all.find_map(|line| Some((line.entry.ts, line.get()?)))
    }

    /// Whether the bundle has the run from its opening to its seal.
    #[must_use]
    pub fn sealed(&self) -> bool {
        !self.cut.any() && self.of_run().any(|line| line.is(Kind::RunSealed))
    }

    /// `sealed`, `open` (more may have happened since), or `cut` by the ends of a range.
    pub fn status(&self) -> &'static str {
        match (self.cut.any(), self.sealed()) {
            (true, _) => "cut",
            (false, true) => "sealed",
            (false, false) => "open",
        }
    }

    /// How many decisions were recorded and not enforced.
    pub fn unenforced_count(&self) -> usize {
        self.of_run().filter(|line| unenforced(line)).count()
    }

    /// How many calls there are.
    pub fn calls_count(&self) -> usize {
        self.calls().len()
    }

    /// The calls, by their first entries.
    pub fn calls(&self) -> Vec<ProjectedCall<'a>> {
        let mut places = BTreeMap::new();
        let mut calls: Vec<ProjectedCall<'a>> = Vec::new();
        for line in self.of_run() {
            let Some(id) = &line.entry.draft.call else { continue };
            let index = *places.entry(id).or_insert(calls.len());
            match calls.get_mut(index) {
                Some(call) => call.lines.push(line),
                None => calls.push(ProjectedCall { id, lines: vec![line] }),
            }
        }
        calls
    }
}

/// Whether this line is a decision about a call.
#[must_use]
pub fn decides(line: &EntryLine) -> bool {
    line.entry.draft.kind().decides()
}

/// Whether this line is a decision that was recorded and not enforced: the call ran all the same.
#[must_use]
pub fn unenforced(line: &EntryLine) -> bool {
    line.decision().is_some_and(|decision| !decision.enforced)
}

/// Whether this line is a decision about a call that the gate saw a model ask for, or about a call to
/// a model whose model and instructions it saw.
#[must_use]
pub fn is_observed(line: &EntryLine) -> bool {
    line.decision().is_some_and(|decision| decision.binding == Binding::Observed)
}

/// The places that a file names, and when those entries were recorded.
struct Places {
    form: PlaceForm,
    times: RefCell<BTreeMap<(ChainId, Seq), Timestamp>>,
}

impl Places {
    /// The position of a line, and its time if that is part of this form.
    fn place(&self, line: &EntryLine) -> Json {
        let entry = &line.entry;
        self.times.borrow_mut().insert((entry.chain, entry.seq), entry.ts);
        let mut members = vec![("seq", Json::from(entry.seq)), ("leaf", line.leaf.hex().into())];
        if self.form == PlaceForm::Timed {
            members.push(("ts", Json::from(entry.ts.to_string())));
        }
        members.extend(entry.run.as_ref().map(|link| ("run_seq", Json::from(link.seq))));
        Json::object(members)
    }

    /// The times of all places that were named, by chain and position.
    fn times(self) -> Json {
        let times = self.times.into_inner().into_iter().map(|((chain, seq), ts)| {
            Json::object([
                ("chain", Json::from(chain.to_string())),
                ("seq", Json::from(seq)),
                ("ts", Json::from(ts.to_string())),
            ])
        });
        times.collect::<Vec<_>>().into()
    }
}

/// One of the three files.
struct RunFile {
    name: &'static str,
    /// What it is called in `v`, for one run and for several.
    v: [&'static str; 2],
    /// What it has for a run.
    members: fn(&BundleMaterial<'_>, &Places) -> JsonMembers,
}

type JsonMembers = Vec<(&'static str, Json)>;

const RUN_FILES: [RunFile; 3] = [
    RunFile { name: AGENT_RUN, v: ["agent_run", "agent_runs"], members: agent_run },
    RunFile { name: DECISION, v: ["decision", "decisions"], members: decisions },
    RunFile { name: TOOL_TRACE, v: ["tool_trace", "tool_traces"], members: tool_trace },
];

impl RunFile {
    fn bytes(&self, scope: Scope, materials: &[BundleMaterial<'_>], form: PlaceForm) -> Vec<u8> {
        let ([one, many], places) = (self.v, Places { form, times: RefCell::default() });
        let v = |name| Json::from(format!("wicketgate/{name}/{}", form.version()));
        let of_run = |material: &BundleMaterial<'_>| {
            let mut members = (self.members)(material, &places);
            members.push(("v", v(one)));
            members.push(("run", Json::from(material.run.to_string())));
            members
        };
        let mut members = match (scope, materials) {
            (Scope::Run, [material]) => of_run(material),
            (Scope::Run | Scope::Range | Scope::Population, several) => {
                let runs = several.iter().map(|material| Json::object(of_run(material)));
                vec![("v", v(many)), ("runs", runs.collect::<Vec<_>>().into())]
            }
        };
        if form == PlaceForm::Untimed {
            members.push(("times", places.times()));
        }
        canonical::bytes(&Json::object(members))
    }
}

/// The three files for people, by name.
pub fn files(
    scope: Scope,
    materials: &[BundleMaterial<'_>],
    form: PlaceForm,
) -> [(&'static str, Vec<u8>); 3] {
    RUN_FILES.map(|file| (file.name, file.bytes(scope, materials, form)))
}

/// `agent_run.json`: the run, and its transcript call by call.
fn agent_run(material: &BundleMaterial<'_>, places: &Places) -> JsonMembers {
    let lines: Vec<&EntryLine> = material.of_run().collect();
    let conversations = RunMessages::of(material.of_run(), material.payloads);
    let mut members = vec![
        ("origin", Json::from(material.origin)),
        ("status", Json::from(material.status())),
        ("entries", count(lines.len())),
        ("calls", count(material.calls_count())),
        ("policies", Json::of(&policies(material))),
        (
            "steps",
            material
                .calls()
                .iter()
                .map(|call| step(material, (&conversations, places), call))
                .collect::<Vec<_>>()
                .into(),
        ),
    ];
    let unenforced = material.unenforced_count();
    members.extend((unenforced > 0).then(|| ("unenforced", count(unenforced))));
    let missing = [(material.cut.begin, "begin"), (material.cut.end, "end")];
    if material.cut.any() {
        let missing = missing.iter().filter(|(cut, _)| *cut);
        members
            .push(("cut", missing.map(|(_, name)| Json::from(*name)).collect::<Vec<_>>().into()));
    }
    if let Some(first) = lines.first() {
        members.push(("chain", Json::from(first.entry.chain.to_string())));
    }
    if let Some(first) = lines.first().filter(|first| first.is(Kind::RunOpened)) {
        members.push(("opened", places.place(first)));
        // `run.opened` names the caller, the agent and the manifest: all of it, as recorded.
        members.push(("opening", Json::of(&first.entry.draft.body)));
    }
    let below = delegated(material);
    members.extend((!below.is_empty()).then(|| ("delegated", Json::of(&below))));
    if let Some(seal) = lines.iter().find(|line| line.is(Kind::RunSealed)) {
        members.push(("sealed", places.place(seal)));
        members.push(("seal", Json::of(&seal.entry.draft.body)));
    }
    members
}

/// The direct children of this run, of those opened here. Only looks if the run may delegate.
pub(crate) fn delegated(material: &BundleMaterial<'_>) -> Vec<String> {
    let may = material.opening().is_some_and(|opened| opened.delegates.is_some());
    let parent = |line: &EntryLine| line.get::<RunOpened>().and_then(|opened| opened.parent);
    let below = material.lines.iter().filter(|line| may && parent(line) == Some(*material.run));
    let ids = below.filter_map(|line| line.entry.run.as_ref());
    ids.map(|link| link.run.to_string()).collect()
}

/// `decision.json`: every decision in order.
fn decisions(material: &BundleMaterial<'_>, places: &Places) -> JsonMembers {
    let decided = material.of_run().filter(|line| decides(line));
    let list: Vec<Json> = decided.map(|line| decision(line, places)).collect();
    vec![("decisions", list.into())]
}

/// `tool_trace.json`: every call with its inputs, outputs and times.
fn tool_trace(material: &BundleMaterial<'_>, places: &Places) -> JsonMembers {
    let list: Vec<Json> =
        material.calls().iter().map(|call| trace(material, call, places)).collect();
    vec![("calls", list.into())]
}

fn count(n: usize) -> Json {
    Json::from(u64::try_from(n).unwrap_or(u64::MAX))
}

/// Digests of the bundles that decided.
pub(crate) fn policies(material: &BundleMaterial<'_>) -> BTreeSet<String> {
    let used = material.of_run().filter_map(|line| line.entry.draft.policy);
    used.map(|policy| policy.prefixed()).collect()
}

/// The payload of this role that the call's lines commit to, if any does.
pub(crate) fn payload(
    material: &BundleMaterial<'_>,
    call: &ProjectedCall<'_>,
    role: Role,
) -> Option<Json> {
    let mut commitments = call.lines.iter().flat_map(|line| &line.entry.draft.commit);
    commitments.rfind(|c| c.role == role).map(|c| material.payloads.shown(c))
}

/// Every payload of this role that the call's lines commit to.
pub(crate) fn payloads<'m>(
    material: &'m BundleMaterial<'_>,
    call: &'m ProjectedCall<'_>,
    role: Role,
) -> impl Iterator<Item = Json> + 'm {
    let commitments = call.lines.iter().flat_map(|line| &line.entry.draft.commit);
    commitments.filter(move |c| c.role == role).map(|c| material.payloads.shown(c))
}

fn step(
    material: &BundleMaterial<'_>,
    (conversations, places): (&RunMessages<'_>, &Places),
    call: &ProjectedCall<'_>,
) -> Json {
    let mut members = vec![("call", Json::from(call.id.as_str()))];
    if let Some(first) = call.lines.first() {
        let draft = &first.entry.draft;
        members.push(("asked", places.place(first)));
        members.extend(draft.tool.as_ref().map(|tool| ("tool", Json::from(tool.as_str()))));
        members.extend(draft.verdict.map(|v| ("verdict", Json::from(v.as_str()))));
        members.extend(draft.rule.as_ref().map(|rule| ("rule", Json::from(rule.as_str()))));
        members.extend(unenforced(first).then(|| ("enforced", Json::from(false))));
        let by = first.decision().and_then(|decision| decision.proposed_by);
        members.extend(by.map(|by| ("proposed_by", Json::from(by))));
        let of = first.decision().and_then(|decision| decision.gate_of);
        members.extend(of.map(|of| ("gate_of", Json::from(of.as_str()))));
    }
    if let Some(last) = call.lines.last() {
        members.push(("ended", places.place(last)));
        members.push(("outcome", Json::from(last.kind())));
    }
    members.extend(call.covered_bytes().map(|bytes| ("covered_bytes", Json::from(bytes))));
    members.extend(payload(material, call, Role::Args).map(|shown| ("request", shown)));
    members.extend(payload(material, call, Role::Result).map(|shown| ("result", shown)));
    let asked = conversations.shown(&call.lines, material.payloads);
    members.extend(answer(material, call, asked.is_some()).map(|shown| ("answer", shown)));
    members.extend(asked.map(|shown| ("conversation", shown)));
    Json::object(members)
}

/// What a model said: the messages in the result of a call to one. `in_parts`: the arguments of the
/// call are stored as those of a model.
fn answer(material: &BundleMaterial<'_>, call: &ProjectedCall<'_>, in_parts: bool) -> Option<Json> {
    let payloads = material.payloads;
    let all = |role| {
        let all = call.lines.iter().flat_map(|line| &line.entry.draft.commit);
        all.filter(move |c| c.role == role)
    };
    let of_model = |input: Json| input.get("effect").is_some_and(is_of_model);
    let inputs = || all(Role::PolicyInput).filter_map(|c| json(payloads, &c.c.0));
    if !in_parts && !inputs().any(of_model) {
        return None;
    }
    let result = all(Role::Result).next_back()?;
    let state = payloads.0.get(&result.c.0).map_or("withheld", Payload::state);
    let mut members =
        vec![("commitment", Json::from(result.c.hex())), ("state", Json::from(state))];
    let said = json(payloads, &result.c.0).and_then(|result| said(&result));
    members.extend(said.map(|messages| ("messages", messages.into())));
    Some(Json::object(members))
}

/// Whether this is the effect of a call to a model, as a policy saw it.
pub(crate) fn is_of_model(effect: &Json) -> bool {
    effect.get("kind").and_then(Json::as_str) == Some(EffectKind::Model.as_str())
}

fn decision(line: &EntryLine, places: &Places) -> Json {
    let draft = &line.entry.draft;
    let mut members = vec![
        ("at", places.place(line)),
        ("kind", Json::from(line.kind())),
        // Tier, definition, reasons, obligations, layers, engine…: all of it, as recorded.
        ("decision", Json::of(&draft.body)),
    ];
    members.extend(draft.call.as_ref().map(|call| ("call", Json::from(call.as_str()))));
    members.extend(draft.tool.as_ref().map(|tool| ("tool", Json::from(tool.as_str()))));
    members.extend(draft.verdict.map(|v| ("verdict", Json::from(v.as_str()))));
    members.extend(draft.rule.as_ref().map(|rule| ("rule", Json::from(rule.as_str()))));
    members.extend(draft.policy.map(|policy| ("policy", Json::from(policy.prefixed()))));
    members.extend(unenforced(line).then(|| ("enforced", Json::from(false))));
    Json::object(members)
}

fn trace(material: &BundleMaterial<'_>, call: &ProjectedCall<'_>, places: &Places) -> Json {
    let events: Vec<Json> = call
        .lines
        .iter()
        .map(|line| {
            let data = if decides(line) { None } else { Some(Json::of(&line.entry.draft.body)) };
            let mut members = vec![("at", places.place(line)), ("kind", Json::from(line.kind()))];
            members.extend(data.map(|data| ("data", data)));
            Json::object(members)
        })
        .collect();
    let mut members = vec![("call", Json::from(call.id.as_str())), ("events", events.into())];
    if let Some(draft) = call.lines.first().map(|line| &line.entry.draft) {
        members.extend(draft.tool.as_ref().map(|tool| ("tool", Json::from(tool.as_str()))));
        if let Some(decision) = draft.body.decision() {
            members.extend(decision.tier.map(|tier| ("tier", Json::from(tier.as_str()))));
            let definition = decision.definition.map(|digest| digest.prefixed());
            members.extend(definition.map(|digest| ("definition", Json::from(digest))));
            members.push(("binding", Json::from(decision.binding.as_str())));
            members.extend(decision.proposed_by.map(|by| ("proposed_by", Json::from(by))));
            members.extend(decision.effect.map(|effect| ("effect", Json::from(effect.hex()))));
        }
    }
    members.extend(payload(material, call, Role::Args).map(|shown| ("input", shown)));
    members.extend(payload(material, call, Role::Result).map(|shown| ("output", shown)));
    Json::object(members)
}
