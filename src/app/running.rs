//! The running gate: it opens, reports its state, reloads what changed, and ends in order.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{JoinError, JoinHandle};
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::anchors::Anchors;
use super::checked::Checked;
use super::constitution::Constitution;
use super::control::{self, OrderList};
use super::listen::{Listeners, Sources, listen};
use super::reload::Watched;
use super::tools::BoundTools;
use super::{Ended, Error, GateRequest, PAUSE, System, opening, writer};
use crate::enforce::Road;
use crate::ledger::sequencer::Ending;
use crate::ledger::{self, Ledger, LedgerStatus};
use crate::serve::Readiness;
use crate::tool::mcp::Upstreams;

/// Between two looks at the files that describe tools and servers, and at certificates.
pub(super) const LOOK: Duration = Duration::from_secs(1);
/// The reason of a gate that ends.
pub(super) const DRAINING: &str = "draining";
/// Between two updates of readiness.
const TELL: Duration = Duration::from_millis(250);

/// What the running gate hangs together by.
pub(super) struct Running {
    pub stop: CancellationToken,
    pub ledger: Ledger,
    pub road: Arc<OnceLock<Arc<Road>>>,
    /// Set once the bundle of the start is in force, or will not be.
    pub judged: OnceLock<()>,
    pub readiness: watch::Sender<Readiness>,
    /// The servers behind the tools in force.
    pub upstreams: ArcSwap<Upstreams>,
    /// Operators' orders.
    pub list: OrderList,
    /// Ends following the list.
    pub stop_following: CancellationToken,
    /// The tasks that follow the list of orders.
    pub following: TaskTracker,
    /// What lints have against the bundle in force.
    pub findings: Mutex<Vec<String>>,
    /// Why the current files are not in force.
    pub refused: Mutex<Vec<String>>,
    /// Decides which bundle may be put in force, where amendments are required.
    pub constitution: OnceLock<Arc<Constitution>>,
    /// Its open listeners.
    pub listening: Listeners,
    /// Ends waiting for callers that still wait for an answer.
    pub hurry: CancellationToken,
}

/// What the holder of the gate asks; the channel ends when the holder drops it.
pub(super) type GateRequests = mpsc::Receiver<GateRequest>;

/// A gate whose holder is gone stops, as on request.
async fn next(requests: &mut GateRequests) -> GateRequest {
    requests.recv().await.unwrap_or(GateRequest::Stop)
}

/// A started gate, for its holder.
pub(super) struct Started {
    pub readiness: watch::Receiver<Readiness>,
    pub agents: Vec<SocketAddr>,
    pub operators: SocketAddr,
    pub supervised: JoinHandle<Result<Ended, Error>>,
}

/// Opens the ledger, binds the listeners, and leaves the rest to a task.
pub(super) async fn start(
    (checked, tools): (Checked, BoundTools),
    requests: GateRequests,
) -> Result<Started, Error> {
    let checked = Arc::new(checked);
    let ledger_parts = writer::open(&checked).await?;
    let (ledger, writer) = Ledger::new(ledger_parts.settings, ledger_parts.parts);
    let (recovered_out, recovered) = oneshot::channel();
    let reasons = vec!["starting".to_owned()];
    let starting = Readiness { reasons, ..Readiness::default() };
    let (readiness, ready) = watch::channel(starting);
    let road = Arc::new(OnceLock::new());
    let sources = Sources { ledger: &ledger, list: &ledger_parts.list, road: &road };
    // WHY: before the writer starts, so that an address in use leaves no entry behind.
    let (listening, served) = listen(&checked, &sources, ready.clone()).await?;
    let (agents, operators) = (listening.agents.clone(), listening.operators);
    let running = Running {
        stop: CancellationToken::new(),
        ledger,
        road,
        judged: OnceLock::new(),
        readiness,
        upstreams: ArcSwap::from_pointee(tools.upstreams),
        list: ledger_parts.list,
        stop_following: CancellationToken::new(),
        following: TaskTracker::new(),
        findings: Mutex::default(),
        refused: Mutex::default(),
        constitution: OnceLock::new(),
        listening,
        hurry: CancellationToken::new(),
    };
    let running = Arc::new(running);
    super::expirations::show(&checked, &running);
    let upstreams = running.upstreams.load();
    upstreams.observe(&checked.metrics);
    let writing = tokio::spawn(writer.run(running.stop.clone(), recovered_out));
    upstreams.start_all();
    let opening =
        opening::open(Arc::clone(&checked), tools.toolbox, Arc::clone(&running), recovered);
    let opening = tokio::spawn(opening);
    let supervised = tokio::spawn(async move {
        let ended = supervise(&checked, &running, opening, writing, requests).await;
        served.close(&running.hurry).await;
        running.upstreams.load().close().await;
        ended
    });
    Ok(Started { readiness: ready, agents, operators, supervised })
}

/// Keeps readiness up to date, reloads, and ends in order.
async fn supervise(
    checked: &Arc<Checked>,
    running: &Arc<Running>,
    opening: JoinHandle<Result<(), Error>>,
    mut writing: JoinHandle<Ending>,
    mut requests: GateRequests,
) -> Result<Ended, Error> {
    let mut status = running.ledger.status();
    let mut opening = Some(opening);
    let mut watched = Watched::new(checked.read.clone());
    let mut anchors = Anchors::new(checked.config.fleet.anchor_file.clone());
    let mut interval = tokio::time::interval(LOOK);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut notice_interval = tokio::time::interval(TELL);
    notice_interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            ending = &mut writing => return Ok(ended(ending)),
            ask = next(&mut requests) => match ask {
                GateRequest::Stop => break,
                GateRequest::Reload => watched.begin(checked, running),
            },
            _ = interval.tick() => {
                // Nothing is read before there is a road to put it on.
                if running.road.get().is_some() && watched.due() {
                    watched.begin(checked, running);
                }
                if let Some(road) = running.road.get() {
                    anchors.look(&running.ledger);
                    road.count();
                }
                running.listening.certificates.look();
            }
            // Report what only time changes: a layer that is enforced again, a server that fails, a
            // list that went unread.
            _ = notice_interval.tick() => running.update_readiness(),
            came = watched.outcome(checked) => watched.finish(checked, running, came).await,
            opened = async { opening.as_mut().map(Box::pin)?.await.ok() }, if opening.is_some() => {
                opening = None;
                if let Some(Err(error)) = opened {
                    running.stop.cancel();
                    return Err(error);
                }
                running.update_readiness();
            }
            changed = status.changed() => if changed.is_ok() { running.update_readiness(); },
        }
    }
    Ok(finish(checked, running, writing, requests).await)
}

/// Waits for a second request to end. A dropped holder is no request: this then waits without end.
async fn asked_again(requests: &mut GateRequests) {
    while let Some(ask) = requests.recv().await {
        if ask == GateRequest::Stop {
            return;
        }
    }
    std::future::pending::<()>().await;
}

async fn finish(
    checked: &Checked,
    running: &Running,
    mut writing: JoinHandle<Ending>,
    mut requests: GateRequests,
) -> Ended {
    let reasons = vec![DRAINING.to_owned()];
    running.readiness.send_replace(Readiness { started: true, reasons, ..Readiness::default() });
    tracing::info!("draining");
    let within = Duration::from_secs(checked.config.limits.drain_seconds);
    if let Some(road) = running.road.get() {
        tokio::select! {
            biased;
            () = road.drain() => {}
            // The next writer closes the calls that are still on the road.
            () = tokio::time::sleep(within) => {
                tracing::warn!("the drain time is over; calls still in progress are cut off");
                running.hurry.cancel();
            }
            () = asked_again(&mut requests) => {
                tracing::warn!("asked to stop a second time: not waiting for calls in progress");
                running.hurry.cancel();
            }
        }
    }
    control::ended(running).await;
    running.stop.cancel();
    match tokio::time::timeout(Duration::from_secs(5), &mut writing).await {
        Ok(ending) => ended(ending),
        Err(_late) => Ended::Stopped,
    }
}

pub(super) fn ended(ending: Result<Ending, JoinError>) -> Ended {
    match ending {
        Ok(Ending::Stopped) => Ended::Stopped,
        Ok(Ending::Fenced(why)) => {
            tracing::error!(%why, "fenced: another writer took the slot");
            Ended::Fenced
        }
        Ok(Ending::Broken(why)) => {
            tracing::error!(%why, "the ledger cannot be trusted; nothing is served");
            Ended::Broken
        }
        Err(error) => {
            tracing::error!(%error, "the ledger's writer panicked");
            Ended::Broken
        }
    }
}

/// Whether the ledger was tried in vain and is tried again: something outside of this process is away.
fn waits(status: &LedgerStatus) -> bool {
    match status {
        LedgerStatus::Starting(why) => why != ledger::store::UNTRIED,
        LedgerStatus::Failing(_) => true,
        LedgerStatus::Ready
        | LedgerStatus::Full
        | LedgerStatus::Fenced(_)
        | LedgerStatus::Broken(_)
        | LedgerStatus::Stopped => false,
    }
}

impl Running {
    /// Whether asking the ledger again can succeed: the store is away, and the writer has not
    /// ended.
    pub fn passes(&self, error: &ledger::Error) -> bool {
        let over = match &*self.ledger.status().borrow() {
            LedgerStatus::Ready
            | LedgerStatus::Starting(_)
            | LedgerStatus::Failing(_)
            | LedgerStatus::Full => false,
            LedgerStatus::Fenced(_) | LedgerStatus::Broken(_) | LedgerStatus::Stopped => true,
        };
        match error {
            ledger::Error::Unavailable(_) | ledger::Error::Unknown | ledger::Error::Overloaded => {
                !over
            }
            ledger::Error::RunNotOpen | ledger::Error::CallTaken | ledger::Error::CallsOpen => {
                false
            }
        }
    }

    /// Waits for a moment if asking the ledger again can succeed.
    ///
    /// # Errors
    /// It cannot: the error itself.
    pub async fn wait_out(&self, error: ledger::Error) -> Result<(), Error> {
        if !self.passes(&error) {
            return Err(System::Record(error).into());
        }
        tokio::time::sleep(PAUSE).await;
        Ok(())
    }

    /// Facts that limit nothing and that an operator should know: layers that only observe, servers
    /// that fail, tools that differ from their lock.
    fn notes(&self) -> Vec<String> {
        let observing = self.road.get().map(|road| road.observing()).unwrap_or_default();
        let layers = observing.into_iter().map(|(layer, until)| {
            format!(
                "policy: the {layer} layer observes until {until}: its denials are not enforced"
            )
        });
        let ends = self.road.get().and_then(|road| road.policy_ends());
        let ends = ends.filter(|(_, ended)| !ended);
        let ends = ends.map(|(until, _)| format!("policy: the bundle in force ends at {until}"));
        let stopped = self.road.get().map(|road| road.control().notes()).unwrap_or_default();
        let upstreams = self.upstreams.load();
        let findings = self.findings.lock().clone();
        let refused = self.refused.lock().clone();
        let amended = self.constitution.get().and_then(|constitution| constitution.note());
        let certificates = self.listening.certificates.notes();
        layers
            .chain(ends)
            .chain(certificates)
            .chain(findings)
            .chain(refused)
            .chain(amended)
            .chain(stopped)
            .chain(upstreams.iter().filter_map(|upstream| super::tools::note(upstream)))
            .collect()
    }

    /// Whether agents can be let at the gate: see [`Readiness::started`].
    fn has_started(&self) -> bool {
        let in_force = self.road.get().is_some_and(|road| road.engine().is_some());
        in_force || waits(&self.ledger.status().borrow())
    }

    /// Says whether calls can be governed, and if not, everything that is missing.
    pub fn update_readiness(&self) {
        let mut reasons = Vec::new();
        match &*self.ledger.status().borrow() {
            LedgerStatus::Ready => {}
            LedgerStatus::Starting(why) => reasons.push(format!("ledger: starting: {why}")),
            LedgerStatus::Failing(why) => reasons.push(format!("ledger: failing: {why}")),
            LedgerStatus::Full => reasons.push("ledger: no space for new calls".to_owned()),
            LedgerStatus::Fenced(why) => reasons.push(format!("ledger: fenced: {why}")),
            LedgerStatus::Broken(why) => reasons.push(format!("ledger: broken: {why}")),
            LedgerStatus::Stopped => reasons.push("ledger: closed".to_owned()),
        }
        match self.road.get() {
            None => reasons.push("the gate is still starting".to_owned()),
            Some(road) if road.engine().is_none() => {
                reasons.push("policy: no bundle is in force".to_owned());
            }
            Some(road) => {
                let ended = road.policy_ends().filter(|(_, ended)| *ended);
                reasons.extend(
                    ended.map(|(until, _)| format!("policy: the bundle in force ended at {until}")),
                );
                reasons.extend(road.reasons());
            }
        }
        reasons.extend(self.listening.hindered.reason());
        reasons.extend(self.listening.certificates.reasons());
        if self.road.get().is_some_and(|road| !road.grants_anything()) {
            reasons.push("manifests: no agent is granted a tool".to_owned());
        }
        let started = self.readiness.borrow().started || self.has_started();
        let next = Readiness { started, ready: reasons.is_empty(), reasons, notes: self.notes() };
        super::health::publish(&self.readiness, next);
    }
}
