//! Limits per caller, over all its runs. Opening another run is free, so limits that protect others
//! are counted per caller and not per run: request rate, denials and alarms.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::Road;
use super::answer::Fault;
use super::budget::Budget;
use super::run::Run;
use crate::control::Target;
use crate::domain::call::{CallerAuth, ToolCall};
use crate::domain::code::Code;
use crate::domain::decision::Alarm;
use crate::domain::id::{CallId, ToolName};
use crate::domain::plural::many;
use crate::domain::time::Timestamp;
use crate::limits::bucket::Bucket;
use crate::limits::window::Window;

/// The key of one caller: agent, method of proof, uid, token and holder of the certificate.
pub(super) type CallerKey = (String, String, Option<u32>, Option<String>, Option<String>);

pub(super) fn key(agent: &str, auth: &CallerAuth) -> CallerKey {
    let (method, uid, token, holder) = auth.identity();
    let [token, holder] = [token, holder].map(|text| text.map(str::to_owned));
    (agent.to_owned(), method.to_owned(), uid, token, holder)
}

#[derive(Debug)]
struct CallerState {
    bucket: Bucket,
    /// The caller's calls; shared with the usage of each of its runs.
    calls: Arc<Mutex<Window>>,
    denials: Window,
    /// When the suspension ends (monotonic). Until then the caller may begin nothing.
    suspended: Option<Duration>,
}

impl Default for CallerState {
    fn default() -> Self {
        Self {
            bucket: Bucket::full(),
            calls: Arc::default(),
            denials: Window::default(),
            suspended: None,
        }
    }
}

/// Every caller seen since the gate started. Callers are configured, so there are few.
#[derive(Debug, Default)]
pub(super) struct Callers {
    known: Mutex<BTreeMap<CallerKey, CallerState>>,
}

impl Callers {
    fn of<T>(&self, agent: &str, auth: &CallerAuth, what: impl FnOnce(&mut CallerState) -> T) -> T {
        what(self.known.lock().entry(key(agent, auth)).or_default())
    }

    /// The call window of this caller, over all its runs.
    pub fn calls(&self, agent: &str, auth: &CallerAuth) -> Arc<Mutex<Window>> {
        self.of(agent, auth, |known| Arc::clone(&known.calls))
    }

    /// Counts a denial; true if the caller now has at least `most` within a minute.
    pub fn denied(&self, run: &Run, most: u64, now: Duration) -> bool {
        self.of(&run.opener.name, &run.auth, |known| {
            known.denials.note(now);
            known.denials.count(now) >= most
        })
    }

    /// Suspends the caller until then.
    pub fn suspend(&self, run: &Run, until: Duration) {
        self.of(&run.opener.name, &run.auth, |known| {
            known.suspended = known.suspended.max(Some(until));
        });
    }

    /// The rest of the caller's suspension, if it is suspended.
    fn suspended(&self, agent: &str, auth: &CallerAuth, now: Duration) -> Option<Duration> {
        let until = self.of(agent, auth, |known| known.suspended)?;
        until.checked_sub(now).filter(|left| !left.is_zero())
    }

    /// Ends the suspension of one caller, or of all callers of the agent.
    fn reinstate(&self, agent: &str, auth: Option<&CallerAuth>) {
        let one = auth.map(|auth| key(agent, auth));
        let mut known = self.known.lock();
        let selected = |of: &CallerKey| one.as_ref().map_or(of.0 == agent, |one| of == one);
        known
            .iter_mut()
            .filter(|(of, _)| selected(of))
            .for_each(|(_, known)| known.suspended = None);
    }
}

fn resting(left: Duration) -> Fault {
    let message = "the caller is suspended: wait, or ask an operator to reinstate its agent";
    Fault::new(Code::LimitExceeded, message).detail("limit.suspended").after(left)
}

impl Budget {
    /// Takes one request from the caller's rate, or returns when it may try again.
    pub(super) fn pace(&self, agent: &str, auth: &CallerAuth) -> Result<(), Fault> {
        let Some(rate) = self.bounds.rate else { return Ok(()) };
        let now = self.clock.monotonic();
        let taken = self.callers.of(agent, auth, |known| known.bucket.take(rate, now));
        taken.map_err(|wait| {
            let message = format!("more than {} per second", many(rate.per_second, "request"));
            Fault::new(Code::Overloaded, message).detail("limit.rate").after(wait)
        })
    }

    /// Refuses a new run of a caller that is suspended or had too many denials within the last
    /// minute.
    pub(super) fn may_begin(&self, agent: &str, auth: &CallerAuth) -> Result<(), Fault> {
        let now = self.clock.monotonic();
        if let Some(left) = self.callers.suspended(agent, auth, now) {
            return Err(resting(left));
        }
        let Some(most) = self.bounds.denials_max else { return Ok(()) };
        let wait = self.callers.of(agent, auth, |known| known.denials.until_below(most, now));
        wait.map_or(Ok(()), |wait| {
            let message = format!("this caller had {} within a minute", many(most, "denial"));
            Err(Fault::new(Code::LimitExceeded, message).detail("limit.denials").after(wait))
        })
    }

    /// Refuses a new call of a suspended caller in any of its runs. A call that is already known is
    /// still answered.
    pub(super) fn may_go_on(&self, run: &Run, call: &ToolCall) -> Result<(), Fault> {
        let left = self.callers.suspended(&run.opener.name, &run.auth, self.clock.monotonic());
        match left.filter(|_| !run.has(call.id()) && !call.is_of_gate()) {
            None => Ok(()),
            Some(left) => Err(resting(left).about(call.id())),
        }
    }

    /// Counts a denial, and raises the alarm if the gate itself found something in the call.
    pub(super) fn turned_down(
        &self,
        run: &Run,
        (call, tool): (&CallId, &ToolName),
        alarm: Option<Alarm>,
        own: bool,
    ) {
        self.denied(run, tool);
        if let Some(alarm) = alarm {
            self.alarm(run, (call, tool), alarm, own);
        }
    }

    /// Raises an alarm for a call whose content the gate refused. The agent receives an ordinary
    /// denial. Operators are alarmed, the run is suspended, and its caller is suspended for a time.
    /// `own`: the agent wrote the arguments, not an approver.
    fn alarm(&self, run: &Run, (call, tool): (&CallId, &ToolName), alarm: Alarm, own: bool) {
        self.metrics.alarm(alarm.as_str());
        let (agent, what) = (run.agent(), alarm.as_str());
        tracing::error!(%agent, run = %run.id, %call, %tool, alarm = what, "the gate refused a call because of its content");
        let Some(rest) = self.bounds.alarm_rest.filter(|_| own) else { return };
        self.callers.suspend(run, self.clock.monotonic().saturating_add(rest));
        if !std::mem::replace(&mut run.state.lock().suspended, true) {
            self.metrics.suspended();
            self.record_suspension(&run.id.to_string());
        }
    }

    /// Restores the suspension that an alarm caused before a restart.
    pub(super) fn remember_alarm(&self, run: &Run, at: Timestamp) -> bool {
        let Some(rest) = self.bounds.alarm_rest else { return false };
        let since = self.clock.now().millis().saturating_sub(at.millis());
        let since = Duration::from_millis(u64::try_from(since).unwrap_or_default());
        let left = rest.saturating_sub(since);
        if !left.is_zero() {
            self.callers.suspend(run, self.clock.monotonic().saturating_add(left));
        }
        true
    }
}

impl Run {
    /// Ends the suspension of the run.
    fn reinstate(&self) {
        let mut state = self.state.lock();
        state.denied_tools.clear();
        state.suspended = false;
    }
}

impl Road {
    /// Reinstates an agent or a run for an operator, and clears the counts that led to the
    /// suspension.
    pub(super) fn forgive(&self, target: &Target) {
        match target {
            Target::Agent(agent) => self.budget.callers.reinstate(agent, None),
            Target::Run(id) => {
                if let Some(run) = self.runs.of_id(id) {
                    self.budget.callers.reinstate(&run.opener.name, Some(&run.auth));
                    run.reinstate();
                }
            }
            Target::All
            | Target::Tool(_)
            | Target::Manifest(_)
            | Target::Key(_)
            | Target::Face(_)
            | Target::Kind(_)
            | Target::Server(_)
            | Target::Upstream(_) => {}
        }
    }
}
