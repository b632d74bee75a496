//! The gate's self-test: a call that must be denied takes the same road as any other.
//!
//! The canary calls a tool that no manifest grants, on behalf of an agent that may open runs now.
//! Identity, admission, preparation, judgement and the commit of the denial are those of every
//! call. The road treats the canary differently in one way: a failed canary does not stop the next
//! one. Its run only simulates, so that a gate that wrongly allowed the call would execute nothing.
//!
//! The result is recorded as `enforcement.tested`. After a canary that was not denied or could not
//! be recorded, the gate takes no call until one passes (`condition`).

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::answer::{Answer, Fault};
use super::implicit::Thread;
use super::{CallRequest, Opening, Road};
use crate::domain::call::CallerAuth;
use crate::domain::code::Code;
use crate::domain::tier::Face;
use crate::identity::Caller;
use crate::identity::manifest::{Manifest, Mode};
use crate::ledger::drafts::DraftWithPayloads;
use crate::record::Draft;
use crate::record::chain::{EnforcementTested, TestProbe};

/// The tool that the canary calls. A gate with a manifest that grants it fails its own test.
pub const CANARY_TOOL: &str = "wicketgate.canary";
/// The identification method of the canary's caller; no external caller can have it.
pub(super) const METHOD: &str = "internal";
/// The thread of the canary's runs.
const THREAD: &str = "canary";
/// How long a canary may be on the road.
const WAIT: Duration = Duration::from_secs(30);
/// The code that the canary must be denied with.
const EXPECTED: Code = Code::ToolNotGranted;

/// The result of one canary.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Canary {
    /// The call was denied, and the denial is recorded.
    Passed,
    /// The call was not denied, or the result could not be recorded; with the reason.
    Failed(String),
    /// The canary could not be sent, so its result is unknown; with the reason.
    NotTried(String),
}

/// The state of the self-test.
#[derive(Debug)]
pub(super) struct CanaryTrust(Mutex<CanaryState>);

#[derive(Clone, PartialEq, Eq, Debug)]
enum CanaryState {
    /// The last canary passed, or no canary is due.
    Good,
    /// No canary has passed yet.
    Untested,
    /// The last canary failed, with the reason.
    Failing(String),
}

impl CanaryTrust {
    /// `awaited`: the gate is not ready until its first canary has passed. Calls are not refused
    /// for that alone.
    pub fn new(awaited: bool) -> Self {
        Self(Mutex::new(if awaited { CanaryState::Untested } else { CanaryState::Good }))
    }

    /// Why the last canary failed, if it did.
    pub fn failing(&self) -> Option<String> {
        let CanaryState::Failing(why) = &*self.0.lock() else { return None };
        Some(why.clone())
    }

    /// Why the self-test keeps the gate from being ready.
    pub fn reasons(&self) -> Vec<String> {
        match &*self.0.lock() {
            CanaryState::Good => Vec::new(),
            CanaryState::Untested => {
                vec!["self-test: the first call has not passed yet".to_owned()]
            }
            CanaryState::Failing(why) => {
                vec![format!("self-test: {why}: the gate accepts no calls")]
            }
        }
    }

    /// Takes the result of a canary. `judged`: a policy is in force.
    fn note(&self, outcome: &Canary, judged: bool) {
        let mut standing = self.0.lock();
        match outcome {
            Canary::Passed => *standing = CanaryState::Good,
            Canary::Failed(why) => *standing = CanaryState::Failing(why.clone()),
            // Without a policy the gate is not ready and the test is still due. With one, a gate
            // where no run can be opened has nothing to test. A failure stands until a canary
            // passes.
            Canary::NotTried(_) if judged && *standing == CanaryState::Untested => {
                *standing = CanaryState::Good;
            }
            Canary::NotTried(_) => {}
        }
    }
}

impl Road {
    /// Sends one canary for the first of these manifests that may open a run, and records the
    /// result.
    pub async fn test_enforcement(self: &Arc<Self>, manifests: &[Arc<Manifest>]) -> Canary {
        let outcome = match tokio::time::timeout(WAIT, self.try_canary(manifests)).await {
            Ok(outcome) => outcome,
            Err(_late) => Canary::Failed(format!("no answer within {} s", WAIT.as_secs())),
        };
        self.control.canary.note(&outcome, self.engine().is_some());
        match &outcome {
            Canary::Passed => self.metrics.self_tested(true),
            Canary::Failed(why) => {
                tracing::error!(%why, "the self-test failed: the gate accepts no calls until one passes");
                self.metrics.self_tested(false);
            }
            Canary::NotTried(_) => {}
        }
        outcome
    }

    async fn try_canary(self: &Arc<Self>, manifests: &[Arc<Manifest>]) -> Canary {
        let not_tried = |why: &str| Canary::NotTried(why.to_owned());
        if self.engine().is_none() {
            return not_tried("no policy bundle is in force");
        }
        let now = self.clock.now();
        let open = |manifest: &&Arc<Manifest>| {
            manifest.not_before <= now
                && now < manifest.not_after
                && self.stopped_opening(manifest, None, None).is_none()
        };
        let Some(manifest) = manifests.iter().find(open) else {
            return not_tried("no agent may open a run");
        };
        let auth = CallerAuth { method: METHOD.to_owned(), ..CallerAuth::default() };
        let caller = Caller { manifest: Arc::clone(manifest), auth };
        let thread = Thread::Named(THREAD.to_owned());
        let opening = Opening { mode: Mode::Simulate.as_str().to_owned(), ..Opening::default() };
        let run = match self.implicit_run(Face::Mcp, &caller, &thread, opening).await {
            Ok(run) => run,
            Err(fault) => return before_admission(&fault),
        };
        let (tool, arguments) = (CANARY_TOOL.to_owned(), b"{}".to_vec());
        let request = CallRequest { tool, arguments, ..CallRequest::default() };
        let answer = self.execute(&run, request).await;
        // WHY not awaited: while the ledger is down, sealing waits, and a failed canary would stay
        // unreported until then.
        let (road, ended) = (Arc::clone(self), caller);
        self.tasks.spawn(async move { road.end_implicit(&ended, &thread).await });
        let (found, passed) = match &answer {
            Err(fault) if fault.receipt.is_none() => return before_admission(fault),
            answer => (code_of(answer), denied(answer)),
        };
        let tested = DraftWithPayloads::bare(Draft::of(EnforcementTested {
            expected: EXPECTED.as_str().into(),
            found: found.into(),
            passed,
            probe: TestProbe::Canary,
        }));
        match self.ledger.record(tested).await {
            Ok(_) if passed => Canary::Passed,
            Ok(_) => {
                Canary::Failed(format!("the self-test call got `{found}` instead of `{EXPECTED}`"))
            }
            Err(error) => {
                Canary::Failed(format!("the self-test call could not be recorded: {error}"))
            }
        }
    }
}

/// A call that was shed or turned away before it was judged says nothing about enforcement. A call
/// that could not be recorded does.
fn before_admission(fault: &Fault) -> Canary {
    let why = format!("`{}`: {}", fault.code, fault.message);
    let turned_away = matches!(
        fault.code,
        Code::Overloaded | Code::Shutdown | Code::NotReady | Code::ManifestMismatch
    );
    if turned_away {
        return Canary::NotTried(why);
    }
    Canary::Failed(format!("the self-test call could not be recorded: {why}"))
}

fn denied(answer: &Answer) -> bool {
    matches!(answer, Err(fault) if fault.code == EXPECTED && fault.receipt.is_some())
}

fn code_of(answer: &Answer) -> &'static str {
    match answer {
        Ok(_) => "allow",
        Err(fault) => fault.code.as_str(),
    }
}
