//! The current suspensions and revocations, built from the rows of the list.

use std::collections::BTreeMap;

use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::approval::order::Loosening;
use crate::control::{Action, Row, Target};
use crate::domain::effect::{Effect, Upstream};
use crate::domain::id::{RunId, ToolName};
use crate::domain::tier::Face;
use crate::domain::time::Timestamp;
use crate::enforce::run::Run;
use crate::identity::manifest::Manifest;
use crate::judge::Prepared;
use crate::record;
use crate::record::control::ControlApplied;

/// The subject of a decision, in the terms of orders.
#[derive(Clone, Copy, Debug)]
pub(super) struct OrderSubject<'a> {
    pub manifest: &'a Manifest,
    pub run: Option<&'a RunId>,
    /// The run that delegated to it. A stop of this run or of one above it applies to the subject
    /// too.
    pub parent: Option<&'a Run>,
    pub tool: Option<&'a ToolName>,
    /// The face of the request, if it is one of an agent.
    pub face: Option<Face>,
    /// What the tool is and what it would touch.
    pub part: PartUse<'a>,
}

/// The parts of the gate that a call uses.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::enforce) struct PartUse<'a> {
    /// The kind of its tool.
    kind: Option<&'a str>,
    /// What it touches.
    effect: Option<&'a Effect>,
}

impl<'a> PartUse<'a> {
    pub fn of(prepared: &'a Prepared) -> Self {
        let kind = prepared.tool().map(|tool| tool.kind.as_str());
        Self { kind, effect: Some(prepared.effect()) }
    }

    fn server(&self) -> Option<&'a str> {
        let Some(Effect::Mcp { server, .. }) = self.effect else { return None };
        Some(server)
    }

    /// The upstreams of models that the call may ask, in order.
    fn upstreams(&self) -> &'a [Upstream] {
        let Some(Effect::Model { upstreams, .. }) = self.effect else { return &[] };
        upstreams
    }
}

impl<'a> OrderSubject<'a> {
    pub fn call(run: &'a Run, prepared: &'a Prepared) -> Self {
        let call = prepared.call();
        let (tool, face, part) = (Some(call.tool()), call.face(), PartUse::of(prepared));
        Self { tool, face, part, ..Self::run(run) }
    }

    pub fn run(run: &'a Run) -> Self {
        let parent = run.parent.as_deref();
        let part = PartUse { kind: None, effect: None };
        Self { manifest: &run.manifest, run: Some(&run.id), parent, tool: None, face: None, part }
    }

    pub const fn opening(
        manifest: &'a Manifest,
        parent: Option<&'a Run>,
        face: Option<Face>,
    ) -> Self {
        let part = PartUse { kind: None, effect: None };
        Self { manifest, run: None, parent, tool: None, face, part }
    }

    /// Its own manifest and those of the runs above.
    fn manifests(&self) -> impl Iterator<Item = &'a Manifest> {
        std::iter::once(self.manifest).chain(self.above().map(|run| &*run.manifest))
    }

    fn above(&self) -> impl Iterator<Item = &'a Run> {
        std::iter::successors(self.parent, |run| run.parent.as_deref())
    }

    /// Whether an order about this target applies to the subject or to a run above it. A key
    /// applies to every manifest that has fewer than `needed` signatures without it.
    pub fn is(&self, target: &Target, needed: usize) -> bool {
        match target {
            Target::All => true,
            Target::Agent(name) => self.manifests().any(|manifest| manifest.name == *name),
            Target::Run(run) => self.run == Some(run) || self.above().any(|above| above.id == *run),
            Target::Tool(tool) => self.tool == Some(tool),
            Target::Manifest(digest) => self.manifests().any(|manifest| manifest.digest == *digest),
            Target::Key(key) => self.manifests().any(|Manifest { signers, .. }| {
                signers.contains(key)
                    && signers.iter().filter(|signer| *signer != key).count() < needed
            }),
            Target::Face(face) => self.face == Some(*face),
            Target::Kind(kind) => self.part.kind == Some(kind.as_str()),
            Target::Server(server) => self.part.server() == Some(server.as_str()),
            // Only if no other is left: `Switches::against` counts them.
            Target::Upstream(_) => false,
        }
    }
}

/// One order that stops a target.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct StopOrder {
    /// The number of the order.
    seq: u64,
    action: Action,
    until: Option<Timestamp>,
    /// The order is taken back until then.
    lifted: Option<Timestamp>,
}

impl StopOrder {
    fn is_in_force(&self, now: Timestamp) -> bool {
        self.until.is_none_or(|until| now < until) && self.lifted.is_none_or(|until| until <= now)
    }
}

/// An order that stops the subject of a decision.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct StandingOrder {
    /// `suspended` or `revoked`; of a part of the gate, the switch.
    pub detail: &'static str,
    /// The kind of its target.
    pub kind: &'static str,
    name: String,
}

impl StandingOrder {
    pub fn message(&self) -> String {
        let Self { detail, kind, name } = self;
        match *kind {
            "all" => format!("an operator has {detail} every call"),
            "key" => format!("an operator has {detail} a key that signed the agent's manifest"),
            "face" => format!(
                "an operator has switched off the face `{name}`: call at another one, or wait"
            ),
            "kind" => format!("an operator has switched off the tools of kind `{name}`"),
            "server" => format!("an operator has switched off the MCP server `{name}`"),
            "upstream" => format!(
                "an operator has switched off the model upstream `{name}`, and the call has no other"
            ),
            kind => format!("an operator has {detail} the {kind} `{name}`"),
        }
    }
}

/// The current stops, shared across the gate.
#[derive(Debug, Default)]
pub struct Stops(RwLock<Switches>);

impl Stops {
    /// Whether an order suspends or revokes this key, of an approver or of a signer of manifests or
    /// bundles.
    #[must_use]
    pub fn has_key(&self, key: &str, now: Timestamp) -> bool {
        self.read().key(key, now)
    }

    pub(super) fn read(&self) -> RwLockReadGuard<'_, Switches> {
        self.0.read()
    }

    pub(super) fn write(&self) -> RwLockWriteGuard<'_, Switches> {
        self.0.write()
    }
}

/// The stops by target.
#[derive(Clone, Debug, Default)]
pub(super) struct Switches {
    stops: BTreeMap<Target, Vec<StopOrder>>,
}

impl Switches {
    /// Applies one order that stops; taking back a stop needs [`Self::lift`].
    pub fn stop(&mut self, row: &Row, action: Action, target: &Target) {
        self.put(row.seq, action, (target, row.given.expires), None);
    }

    fn put(
        &mut self,
        seq: u64,
        action: Action,
        (target, until): (&Target, Option<Timestamp>),
        lifted: Option<Timestamp>,
    ) {
        match action {
            Action::Suspend | Action::Revoke => {
                let stops = self.stops.entry(target.clone()).or_default();
                if !stops.iter().any(|stop| stop.seq == seq) {
                    stops.push(StopOrder { seq, action, until, lifted });
                }
            }
            // These actions leave no stop behind.
            Action::Reinstate | Action::Kill => {}
        }
    }

    /// Takes back the stops of a target that preceded the signed order.
    pub fn lift(&mut self, order: &Loosening, target: &Target) {
        let statement = order.statement();
        self.lift_after(statement.previous.seq, target, statement.expires);
    }

    fn lift_after(&mut self, after: u64, target: &Target, until: Option<Timestamp>) {
        let Some(stops) = self.stops.get_mut(target) else { return };
        match until {
            None => stops.retain(|stop| stop.seq > after),
            // A lift with an end: the earlier stops apply again afterwards.
            Some(_) => {
                let then = stops.iter_mut().filter(|stop| stop.seq <= after);
                then.for_each(|stop| stop.lifted = until);
            }
        }
        if stops.is_empty() {
            self.stops.remove(target);
        }
    }

    /// Restores the stops from an entry that this gate recorded.
    pub fn take_up(&mut self, applied: &ControlApplied) -> Option<()> {
        for one in applied.standing.iter().flat_map(|list| list.iter()) {
            let action = match one.action {
                record::control::Stop::Suspend => Action::Suspend,
                record::control::Stop::Revoke => Action::Revoke,
            };
            let target = Target::parse(one.target.as_str(), &one.name)?;
            self.put(one.seq.get(), action, (&target, one.expires), one.lifted);
        }
        let seq = Some(applied.seq.get()).filter(|seq| *seq > 0)?;
        let action = Action::parse(applied.action.as_str())?;
        let target = Target::parse(applied.target.as_str(), &applied.name)?;
        if action == Action::Reinstate {
            self.lift_after(applied.after?.get(), &target, applied.expires);
        } else {
            self.put(seq, action, (&target, applied.expires), None);
        }
        Some(())
    }

    /// Every stop that has not ended, as the entry lists them.
    pub fn standing(&self, now: Timestamp) -> Vec<record::control::Standing> {
        let all =
            self.stops.iter().flat_map(|(target, stops)| stops.iter().map(move |s| (target, s)));
        let left = all.filter(|(_, stop)| stop.until.is_none_or(|until| now < until));
        let standing = left.filter_map(|(target, stop)| {
            Some(record::control::Standing {
                action: record::control::Stop::parse(stop.action.as_str())?,
                expires: stop.until,
                lifted: stop.lifted,
                name: target.name().into(),
                seq: stop.seq.into(),
                target: target.recorded(),
            })
        });
        standing.collect()
    }

    /// The order that stops this subject; a revocation takes precedence over a suspension.
    pub fn against(
        &self,
        about: &OrderSubject<'_>,
        needed: usize,
        now: Timestamp,
    ) -> Option<StandingOrder> {
        if self.stops.is_empty() {
            return None;
        }
        let mut found: Option<(&Target, &StopOrder)> = None;
        for (target, stops) in &self.stops {
            // Keys are counted together below.
            if matches!(target, Target::Key(_)) || !about.is(target, needed) {
                continue;
            }
            for stop in stops.iter().filter(|stop| stop.is_in_force(now)) {
                let worse = found.is_none_or(|(_, other)| other.action != Action::Revoke);
                if worse {
                    found = Some((target, stop));
                }
            }
        }
        if let Some((target, stop)) = found {
            return Some(standing(target, stop));
        }
        if let Some(last) = self.no_upstream(about.part.upstreams(), now) {
            return Some(last);
        }
        about.manifests().find_map(|manifest| self.unsigned(manifest, needed, now))
    }

    /// The switch of the first of these upstreams of models, if none of them is on.
    fn no_upstream(&self, upstreams: &[Upstream], now: Timestamp) -> Option<StandingOrder> {
        let mut stops = upstreams.iter().map(|upstream| self.stop_of_upstream(&upstream.name, now));
        let first = stops.next()??;
        stops.all(|stop| stop.is_some()).then(|| standing(&first.0, first.1))
    }

    fn stop_of_upstream(&self, name: &str, now: Timestamp) -> Option<(Target, &StopOrder)> {
        let target = Target::Upstream(name.to_owned());
        let stop = self.stops.get(&target)?.iter().find(|stop| stop.is_in_force(now))?;
        Some((target, stop))
    }

    /// The upstreams of models among these that are switched off.
    pub fn off_upstreams(&self, prepared: &Prepared, now: Timestamp) -> Vec<String> {
        if self.stops.is_empty() {
            return Vec::new();
        }
        let all = PartUse::of(prepared).upstreams().iter().map(|upstream| &upstream.name);
        all.filter(|name| self.stop_of_upstream(name, now).is_some()).cloned().collect()
    }

    /// A stopped signer's key, if too few of the manifest's signers remain.
    fn unsigned(
        &self,
        manifest: &Manifest,
        needed: usize,
        now: Timestamp,
    ) -> Option<StandingOrder> {
        let signers = &manifest.signers;
        let stopped: Vec<_> = signers.iter().filter_map(|key| self.stop_of_key(key, now)).collect();
        let left = signers.len().saturating_sub(stopped.len());
        let first = stopped.first()?;
        (left < needed).then(|| standing(&first.0, first.1))
    }

    fn stop_of_key(&self, key: &str, now: Timestamp) -> Option<(Target, &StopOrder)> {
        let target = Target::Key(key.to_owned());
        let stop = self.stops.get(&target)?.iter().find(|stop| stop.is_in_force(now))?;
        Some((target, stop))
    }

    /// Whether a key is suspended or revoked.
    pub fn key(&self, key: &str, now: Timestamp) -> bool {
        !self.stops.is_empty() && self.stop_of_key(key, now).is_some()
    }

    /// All current stops, as notes for operators.
    pub fn notes(&self, now: Timestamp) -> Vec<String> {
        let mut notes = Vec::new();
        for (target, stops) in &self.stops {
            let Some(stop) = stops.iter().find(|stop| stop.is_in_force(now)) else { continue };
            let until = stop.until.map(|until| format!(" until {until}")).unwrap_or_default();
            let (detail, kind) = (stop_detail(stop.action), target.kind());
            let name = target.name();
            notes.push(match target {
                Target::All => format!("control: everything is {detail}{until}"),
                Target::Agent(_)
                | Target::Run(_)
                | Target::Tool(_)
                | Target::Manifest(_)
                | Target::Key(_) => format!("control: {kind} `{name}` is {detail}{until}"),
                Target::Face(_) | Target::Kind(_) | Target::Server(_) | Target::Upstream(_) => {
                    format!("control: {kind} `{name}` is switched off{until}")
                }
            });
        }
        notes
    }
}

fn standing(target: &Target, stop: &StopOrder) -> StandingOrder {
    let detail = match target {
        Target::Face(_) => "switch.face",
        Target::Kind(_) => "switch.kind",
        Target::Server(_) => "switch.server",
        Target::Upstream(_) => "switch.upstream",
        Target::All
        | Target::Agent(_)
        | Target::Run(_)
        | Target::Tool(_)
        | Target::Manifest(_)
        | Target::Key(_) => stop_detail(stop.action),
    };
    StandingOrder { detail, kind: target.kind(), name: target.name() }
}

const fn stop_detail(action: Action) -> &'static str {
    match action {
        Action::Suspend => "suspended",
        Action::Revoke => "revoked",
        Action::Reinstate => "reinstated",
        Action::Kill => "killed",
    }
}
