//! What gRPC and HTTP/JSON have in common: the caller of a request, the run of its token, and the
//! operations of the road as values of no wire.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;

use super::guard::bearer;
use super::problem::Problem;
use super::{Faces, places};
use crate::domain::code::Code;
use crate::domain::digest::Digest;
use crate::domain::tier::Face;
use crate::enforce::{
    Answer, CallRequest, Challenge, Observed, OpenedRun, Opening, ParentClaim, PostureReport,
    Probe, Released, Road, Run, Sealed,
};
use crate::identity::{Caller, IdentityError, Peer};

/// How long a caller may wait while its call is held: it occupies a connection and a stream.
const PATIENCE_MAX: Duration = Duration::from_secs(60);

/// Results up to here travel inside the answer; larger ones are read by themselves.
pub(super) const INLINE_BYTES_MAX: usize = 1 << 20;

const TEXT_BYTES_MAX: usize = 256;
const INSTRUCTIONS_MAX: usize = 64;
const TOOLS_MAX: usize = 1024;
const LABELS_MAX: usize = 64;

/// Probes of one report: with the gate's own they fit into one entry.
const PROBES_MAX: usize = 120;

const DOCTOR_BYTES_MAX: usize = 128;

/// The road, for agents that open runs and show their tokens. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct AgentApi {
    faces: Faces,
}

impl AgentApi {
    pub(super) const fn new(faces: Faces) -> Self {
        Self { faces }
    }

    /// The road, once the ledger is open.
    pub(super) fn road(&self) -> Result<&Arc<Road>, Problem> {
        self.faces.road.get().ok_or_else(|| self.refuse(Problem::of(Code::NotReady, "starting")))
    }

    /// Counts what the face itself refuses. What the road refuses, the road has counted.
    pub(super) fn refuse(&self, problem: impl Into<Problem>) -> Problem {
        let problem = problem.into();
        self.faces.reject(problem.code);
        problem
    }

    /// The run of the request's token, if this peer may use it. No connection is mapped to a run:
    /// its token is the only way to it.
    pub(super) fn run(&self, peer: &Peer, headers: &HeaderMap) -> Result<Arc<Run>, Problem> {
        let token = bearer(headers).map_err(|error| self.refuse(error))?;
        let token = token.ok_or_else(|| self.refuse(IdentityError::Missing))?;
        self.run_of(peer, token)
    }

    /// The run of this token, if this peer may use it.
    pub(super) fn run_of(&self, peer: &Peer, token: &str) -> Result<Arc<Run>, Problem> {
        let run = self.road()?.find_run(peer, token).map_err(|fault| self.refuse(fault))?;
        places::proved();
        Ok(run)
    }

    /// The agent that this peer, or the request's credential, is mapped to.
    pub(super) fn caller(&self, peer: &Peer, headers: &HeaderMap) -> Result<Caller, Problem> {
        let credential = bearer(headers).map_err(|error| self.refuse(error))?;
        self.caller_of(peer, credential)
    }

    /// The agent that this peer, or this credential, is mapped to.
    pub(super) fn caller_of(
        &self,
        peer: &Peer,
        credential: Option<&str>,
    ) -> Result<Caller, Problem> {
        let identify = &self.faces.identify;
        let caller = identify(peer, credential).map_err(|fault| self.refuse(fault))?;
        places::proved();
        Ok(caller)
    }

    /// Opens a run as this face.
    pub(super) async fn open(
        &self,
        face: Face,
        caller: &Caller,
        opening: Opening,
    ) -> Result<OpenedRun, Problem> {
        // WHY: boxed here and below, because the road's futures are large and one is held per
        // request.
        Ok(Box::pin(self.road()?.open_run(face, caller, opening)).await?)
    }

    /// Makes one call, and waits so many milliseconds for approvers if it is held.
    pub(super) async fn execute(
        &self,
        run: &Arc<Run>,
        call: CallRequest,
        wait_ms: u32,
    ) -> Result<Released, Problem> {
        Ok(Box::pin(executed(self.road()?, run, call, wait_ms)).await?)
    }

    /// The recorded answer of a call; waits so many milliseconds for approvers if it is held.
    pub(super) async fn answer(
        &self,
        run: &Arc<Run>,
        call: &str,
        wait_ms: u32,
    ) -> Result<Released, Problem> {
        Ok(Box::pin(self.road()?.call_within(run, call, patience(wait_ms))).await?)
    }

    /// Ends a run.
    pub(super) async fn seal(&self, run: &Arc<Run>) -> Result<Sealed, Problem> {
        Ok(Box::pin(self.road()?.seal_run(run)).await?)
    }

    /// Begins a test of the caller's isolation.
    pub(super) async fn challenge(&self, caller: &Caller) -> Result<Challenge, Problem> {
        self.road()?.challenge_posture(caller).await.map_err(|fault| self.refuse(fault))
    }

    /// Records the findings of a test.
    pub(super) async fn report(
        &self,
        caller: &Caller,
        report: PostureReport,
    ) -> Result<Observed, Problem> {
        let observing = self.road()?.observe_posture(caller, report);
        Box::pin(observing).await.map_err(|fault| self.refuse(fault))
    }
}

fn patience(wait_ms: u32) -> Duration {
    Duration::from_millis(wait_ms.into()).min(PATIENCE_MAX)
}

/// The answer to one call; of a held one, after so many milliseconds.
///
/// Dropping it (the client hung up, its deadline passed) abandons only the waiting: the road runs
/// the call on its own task.
pub(super) async fn executed(
    road: &Arc<Road>,
    run: &Arc<Run>,
    call: CallRequest,
    wait_ms: u32,
) -> Answer {
    let answer = Box::pin(road.execute(run, call)).await;
    match &answer {
        Err(held) if held.code == Code::CallHeld && wait_ms > 0 => match held.call.clone() {
            Some(call) => Box::pin(road.call_within(run, call.as_str(), patience(wait_ms))).await,
            None => answer,
        },
        Ok(_) | Err(_) => answer,
    }
}

/// A result as an answer carries it.
pub(super) enum ResultForm {
    /// Its bytes.
    Inline(Vec<u8>),
    /// Its length, and its SHA-256 in hex.
    Reference(u64, String),
}

impl ResultForm {
    pub(super) fn of(result: Vec<u8>) -> Self {
        if result.len() <= INLINE_BYTES_MAX {
            return Self::Inline(result);
        }
        Self::Reference(length(&result), Digest::of(&[&result]).hex())
    }
}

pub(super) fn length(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}

/// What the agent claims, if it is of a bearable size.
pub(super) fn bounded(opening: Opening) -> Result<Opening, Box<Problem>> {
    let parent = opening.parent.iter().flat_map(|p| [&p.run, &p.token, &p.delegate]);
    let labels = opening.labels.iter().flat_map(|(key, value)| [key, value]);
    let short = [&opening.model, &opening.mode, &opening.replay, &opening.recording].into_iter();
    let texts = opening.instructions.iter().chain(&opening.tools);
    let mut all = short.chain(parent).chain(texts).chain(labels);
    let too_long = all.any(|text| text.len() > TEXT_BYTES_MAX);
    drop(all);
    if too_long
        || opening.instructions.len() > INSTRUCTIONS_MAX
        || opening.tools.len() > TOOLS_MAX
        || opening.labels.len() > LABELS_MAX
    {
        let message = "an opening claims at most 64 instructions, 1024 tools and 64 labels of at \
                       most 256 bytes each";
        return Err(malformed("opening.size", message));
    }
    Ok(opening)
}

/// The run it is to be a child of: id and token, or neither.
pub(super) fn parent(
    run: String,
    token: String,
    delegate: String,
) -> Result<Option<ParentClaim>, Box<Problem>> {
    match (run.is_empty(), token.is_empty(), delegate.is_empty()) {
        (true, true, true) => Ok(None),
        (false, false, _) => Ok(Some(ParentClaim { run, token, delegate })),
        (_, _, _) => {
            let message = "a child is opened with `parent_run` and `parent_token`, both";
            Err(malformed("opening.parent", message))
        }
    }
}

/// The findings of an isolation test, if the report is within its limits. A probe is its name, its
/// target, its outcome and a detail.
pub(super) fn posture(
    nonce: String,
    doctor: String,
    probes: Vec<[String; 4]>,
) -> Result<PostureReport, Box<Problem>> {
    let count = probes.len();
    let parsed = probes
        .into_iter()
        .map(|[probe, target, outcome, detail]| Probe::parse(probe, target, &outcome, detail));
    match parsed.collect::<Option<Vec<_>>>() {
        Some(probes) if count <= PROBES_MAX && doctor.len() <= DOCTOR_BYTES_MAX => {
            Ok(PostureReport { nonce, doctor, probes })
        }
        Some(_) | None => {
            let message = "a report has at most 120 probes: names of 64 bytes, targets and details \
                           of 128, outcomes `blocked`, `open` and `unknown`";
            Err(malformed("posture", message))
        }
    }
}

fn malformed(detail: &str, message: &str) -> Box<Problem> {
    Box::new(Problem::new(Code::RequestMalformed, detail, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_of_more_than_a_mebibyte_is_sent_as_a_reference() {
        let form = |bytes: usize| ResultForm::of(vec![b'1'; bytes]);
        assert!(matches!(form(INLINE_BYTES_MAX), ResultForm::Inline(_)));
        let ResultForm::Reference(size, _) = form(INLINE_BYTES_MAX + 1) else { panic!("inline") };
        assert_eq!(size, 1_048_577);
    }

    #[test]
    fn an_opening_of_unbearable_size_is_refused() {
        let most = || Opening {
            model: "m".repeat(256),
            tools: vec!["t".repeat(256); 1024],
            ..Opening::default()
        };
        assert!(bounded(most()).is_ok());
        let label = |key: &str, value: String| [(key.to_owned(), value)].into();
        let long = || "x".repeat(257);
        let of = |run: String| ParentClaim { run, token: "t".into(), delegate: String::new() };
        for refused in [
            Opening { model: long(), ..most() },
            Opening { parent: Some(of(long())), ..most() },
            Opening { tools: vec![String::new(); 1025], ..most() },
            Opening { labels: label("team", long()), ..most() },
            Opening { instructions: vec![String::new(); 65], ..most() },
        ] {
            assert_eq!(bounded(refused).unwrap_err().detail, "opening.size");
        }
        let half = parent("run".into(), String::new(), String::new());
        assert_eq!(half.unwrap_err().detail, "opening.parent");
    }
}
