//! A call whose target is opened and resolved, before anybody decided about it.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use crate::domain::call::ToolCall;
use crate::domain::decision::{Alarm, LayerReason};
use crate::domain::effect::Effect;
use crate::domain::facts::{Finding, ToolFacts};
use crate::policy::input::CallInput;

/// What only the executor that prepared a call can read back: a descriptor, a built request.
pub type PreparedResource = Box<dyn Any + Send + Sync>;

/// One call, opened and resolved, with its typed effect and a private hold; nothing has happened yet.
///
/// Made only by `tool::prepare` (the tidy test confines the constructor). It is total: what could not
/// be prepared carries the reasons instead of a hold, and `judge` turns them into a denial.
#[must_use]
pub struct Prepared {
    call: ToolCall,
    tool: Option<Arc<ToolFacts>>,
    effect: Effect,
    findings: Vec<Finding>,
    refusals: Vec<LayerReason>,
    hold: Option<PreparedResource>,
    pre_image: Option<Vec<u8>>,
    alarm: Option<Alarm>,
}

impl Prepared {
    /// A call that could be prepared.
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
            findings,
            refusals: Vec::new(),
            hold: Some(hold),
            pre_image: None,
            alarm: None,
        }
    }

    /// The same, with what it takes to undo the call: kept with the entry that allows it.
    pub(crate) fn keeping(mut self, pre_image: Option<Vec<u8>>) -> Self {
        self.pre_image = pre_image;
        self
    }

    /// A call that could not be prepared, and why. `refusals` is not empty, unless the call is alarming.
    pub(crate) fn refused(
        call: ToolCall,
        tool: Option<Arc<ToolFacts>>,
        refusals: Vec<LayerReason>,
    ) -> Self {
        Self {
            call,
            tool,
            effect: Effect::None,
            findings: Vec::new(),
            refusals,
            hold: None,
            pre_image: None,
            alarm: None,
        }
    }

    /// The same, in which the gate found this.
    pub(crate) fn alarming(mut self, alarm: Alarm) -> Self {
        self.alarm = Some(alarm);
        self
    }

    /// The call.
    #[must_use]
    pub const fn call(&self) -> &ToolCall {
        &self.call
    }

    /// The tool, unless it does not exist for this agent.
    #[must_use]
    pub fn tool(&self) -> Option<&ToolFacts> {
        self.tool.as_deref()
    }

    /// What it would touch.
    #[must_use]
    pub const fn effect(&self) -> &Effect {
        &self.effect
    }

    /// What a policy is asked about it.
    #[must_use]
    pub fn asked(&self) -> CallInput<'_> {
        CallInput { call: &self.call, effect: &self.effect, findings: &self.findings }
    }

    /// What the firewall saw.
    #[must_use]
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// Why it cannot run, whatever a policy says.
    #[must_use]
    pub fn refusals(&self) -> &[LayerReason] {
        &self.refusals
    }

    /// What the gate itself found in the call, which its agent is not told.
    #[must_use]
    pub const fn alarm(&self) -> Option<Alarm> {
        self.alarm
    }

    /// What it takes to undo the call, canonical JSON, if it is one that keeps it (tier T1).
    #[must_use]
    pub fn pre_image(&self) -> Option<&[u8]> {
        self.pre_image.as_deref()
    }

    /// Whether an executor could run it: prepared, with nothing against it.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.hold.is_some() && self.refusals.is_empty() && self.alarm.is_none()
    }

    /// The private hold, for the executor that made it.
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
