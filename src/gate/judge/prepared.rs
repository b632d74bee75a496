//! A call whose target is opened and resolved, before any decision about it.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use crate::domain::call::ToolCall;
use crate::domain::decision::{Alarm, LayerReason};
use crate::domain::effect::Effect;
use crate::domain::facts::{Finding, ToolFacts};
use crate::judge::conversation::ModelArgs;
use crate::judge::guarding::{self, ReadBefore, Screening};
use crate::policy::input::{CallInput, FirewallInput};

/// A resource that only the preparing executor can read back: a descriptor, a built request.
pub type PreparedResource = Box<dyn Any + Send + Sync>;

/// One call, opened and resolved, with its typed effect and a private resource. It has had no
/// effect yet.
///
/// Only `tool::prepare` makes it (the tidy test confines the constructor). Preparation is total: a
/// call that could not be prepared carries the reasons instead of a resource, and `judge` turns
/// them into a denial.
#[must_use]
pub struct Prepared {
    call: ToolCall,
    tool: Option<Arc<ToolFacts>>,
    effect: Effect,
    hosts: Box<[String]>,
    findings: Box<[Finding]>,
    refusals: Box<[LayerReason]>,
    hold: Option<PreparedResource>,
    pre_image: Option<Vec<u8>>,
    alarm: Option<Alarm>,
    model: Option<Arc<ModelArgs>>,
    screening: Box<Screening>,
    /// Whether a policy is shown messages that were judged before.
    shows_all: bool,
}

impl Prepared {
    /// A call that was prepared.
    pub(crate) fn ready(
        call: ToolCall,
        tool: Arc<ToolFacts>,
        effect: Effect,
        findings: Vec<Finding>,
        hold: PreparedResource,
    ) -> Self {
        Self {
            call,
            tool: Some(tool),
            effect,
            hosts: Box::default(),
            findings: findings.into(),
            refusals: Box::default(),
            hold: Some(hold),
            pre_image: None,
            alarm: None,
            model: None,
            screening: Box::default(),
            shows_all: false,
        }
    }

    /// The same, a call to a model with these messages.
    pub(crate) fn conversing(mut self, model: Option<Arc<ModelArgs>>) -> Self {
        self.model = model;
        self
    }

    /// The same, with what the firewall found in its arguments.
    pub(crate) fn screened(mut self, screening: Screening) -> Self {
        *self.screening = screening;
        self
    }

    /// The same, a call of a run that had read this.
    pub(crate) fn after_reading(mut self, read: Option<Arc<dyn ReadBefore>>) -> Self {
        self.screening.read = read;
        self
    }

    /// The same, with these reasons in place of its own.
    pub(crate) fn refused_for(mut self, refusals: Vec<LayerReason>) -> Self {
        self.refusals = refusals.into();
        self
    }

    /// What the firewall found in its arguments, and what follows from it.
    pub fn screening(&self) -> &Screening {
        &self.screening
    }

    /// The same, with every message shown to the policy.
    pub(crate) fn showing_all(mut self) -> Self {
        if let Some(model) = &self.model {
            self.findings = model.findings_of_all.as_slice().into();
            model.complete(&mut self.effect, true);
            self.shows_all = true;
        }
        self
    }

    /// The same, with the data to undo the call, which is stored with the authorising entry.
    pub(crate) fn keeping(mut self, pre_image: Option<Vec<u8>>) -> Self {
        self.pre_image = pre_image;
        self
    }

    /// The same, reaching these hosts.
    pub(crate) fn reaching(mut self, hosts: Vec<String>) -> Self {
        self.hosts = hosts.into();
        self
    }

    /// A call that could not be prepared, with the reasons. `refusals` may be empty only if the
    /// call raises an alarm.
    pub(crate) fn refused(
        call: ToolCall,
        tool: Option<Arc<ToolFacts>>,
        refusals: Vec<LayerReason>,
    ) -> Self {
        Self {
            call,
            tool,
            effect: Effect::None,
            hosts: Box::default(),
            findings: Box::default(),
            refusals: refusals.into(),
            hold: None,
            pre_image: None,
            alarm: None,
            model: None,
            screening: Box::default(),
            shows_all: false,
        }
    }

    /// The same, with an alarm for content that the gate found in the call.
    pub(crate) fn alarming(mut self, alarm: Alarm) -> Self {
        self.alarm = Some(alarm);
        self
    }

    /// The call as the agent made it and its messages, to be searched and prepared anew.
    pub(crate) fn back_to_call(self) -> (ToolCall, Option<ModelArgs>) {
        let call = self.screening.unmasked.map_or(self.call, Arc::unwrap_or_clone);
        (call, self.model.and_then(Arc::into_inner))
    }

    /// The messages of a call to a model, if it has any that can be told apart.
    pub const fn model(&self) -> Option<&Arc<ModelArgs>> {
        self.model.as_ref()
    }

    /// The call itself.
    pub const fn call(&self) -> &ToolCall {
        &self.call
    }

    /// The tool, unless the agent is not granted it.
    #[must_use]
    pub fn tool(&self) -> Option<&ToolFacts> {
        self.tool.as_deref()
    }

    /// The effect that the call would have.
    pub const fn effect(&self) -> &Effect {
        &self.effect
    }

    /// The hosts that the call would reach, as the binding of its tool names them.
    #[must_use]
    pub fn hosts(&self) -> &[String] {
        &self.hosts
    }

    /// The policy's input about the call.
    #[must_use]
    pub fn call_input(&self) -> CallInput<'_> {
        let model = self.model.as_ref().filter(|_| !self.shows_all);
        let shown = model.map(|model| model.shown.as_slice());
        let shown = match &self.screening.views {
            Some(views) if self.shows_all => Some(views.all.as_slice()),
            Some(views) => Some(views.shown.as_slice()),
            None => shown,
        };
        let (call, effect, findings) = (&self.call, &self.effect, &*self.findings);
        let masked = self.screening.masked || self.screening.withheld.is_some();
        let firewall = FirewallInput::of(guarding::rules(), masked, findings);
        CallInput { call, shown, effect, findings, firewall }
    }

    /// The findings of the firewall.
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// The reasons against the call that no policy can overrule.
    pub fn refusals(&self) -> &[LayerReason] {
        &self.refusals
    }

    /// The alarm about the call's content. The agent does not learn of it.
    #[must_use]
    pub const fn alarm(&self) -> Option<Alarm> {
        self.alarm
    }

    /// The data to undo the call, as canonical JSON, if the call keeps it (tier T1).
    #[must_use]
    pub fn pre_image(&self) -> Option<&[u8]> {
        self.pre_image.as_deref()
    }

    /// Whether an executor could run it: it is prepared and nothing refuses it.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.hold.is_some() && self.refusals.is_empty() && self.alarm.is_none()
    }

    /// The private resource, for the executor that made it.
    pub(crate) fn hold<T: Any>(&self) -> Option<&T> {
        self.hold.as_ref().and_then(|hold| hold.downcast_ref())
    }
}

impl fmt::Debug for Prepared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prepared")
            .field("call", &self.call.id())
            .field("tool", &self.tool)
            .field("effect", &self.effect)
            .finish_non_exhaustive()
    }
}
