//! Notifies a third party's server that a call is held, that a policy reports one, or that an alert was
//! raised: signed, without arguments, repeated until it is received.
//!
//! The headers are those of Standard Webhooks (`webhook-id`, `webhook-timestamp`,
//! `webhook-signature` with an Ed25519 signature, `v1a`), in every form of the body. A notice only links to the place
//! where approvers look: it contains nothing to approve with. The sender reads the ledger, so a slow
//! receiver delays no call.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::OperatorApi;
use super::alerts;
use super::approval_queue::{Hold, OpenRuns, ReportedDecision, Run};
use super::view::words;
use crate::crypto::signer::{Error as SignError, Signer};
use crate::domain::digest::Digest;
use crate::serve::problem::Problem;
use crate::witness::{Remote, RemoteError};

mod bodies;

pub use bodies::WebhookFormat;
pub(super) use bodies::WebhookMessage;

/// Between two looks at the held calls.
const LOOK: Duration = Duration::from_millis(250);
/// Notices in the queue at most; further held calls stay in the ledger until there is room.
const QUEUE_MAX: usize = 256;
/// The first pause after a failure; each later one is twice as long.
const PAUSE_MIN: Duration = Duration::from_millis(500);
/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(60);
/// Bytes of an answer that are read, and then ignored.
const ANSWER_MAX: usize = 64 * 1024;

/// The receiver of notices about held calls.
#[derive(Debug)]
pub struct Webhook {
    remote: Remote,
    key: Arc<dyn Signer>,
    link: Option<String>,
    format: WebhookFormat,
    alerts: bool,
}

/// Why a receiver did not take a notice.
#[derive(Debug, thiserror::Error)]
pub(super) enum SendError {
    /// The key does not sign.
    #[error(transparent)]
    Key(#[from] SignError),
    /// The receiver cannot be reached.
    #[error(transparent)]
    Remote(#[from] RemoteError),
    /// The receiver refuses it.
    #[error("the receiver answered {0}")]
    Status(u16),
}

/// The notice of one held call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Notice {
    pub digest: Digest,
    pub message: WebhookMessage,
}

/// A notice on its way.
struct Due {
    notice: Notice,
    at: Duration,
    pause: Duration,
}

impl Webhook {
    /// A receiver at this URL. `ca`: PEM authorities for `https` instead of the public ones;
    /// `link`: the beginning of the approvers' address.
    ///
    /// # Errors
    /// The URL or the authorities cannot be used.
    pub fn new(
        url: &str,
        ca: Option<&[u8]>,
        key: Arc<dyn Signer>,
        link: Option<String>,
    ) -> Result<Self, RemoteError> {
        let format = WebhookFormat::Standard;
        Ok(Self { remote: Remote::receiving(url, ca)?, key, link, format, alerts: true })
    }

    /// The same, for a receiver that reads bodies of this form.
    #[must_use]
    pub fn in_format(self, format: WebhookFormat) -> Self {
        Self { format, ..self }
    }

    /// The same, with or without notices of alerts.
    #[must_use]
    pub fn with_alerts(self, alerts: bool) -> Self {
        Self { alerts, ..self }
    }

    /// Notifies the receiver of every held call, until it has taken the notice or the call is not
    /// held any more. After a restart it sends the notice of each call that is still held again,
    /// under the same id.
    pub async fn run(self, api: Arc<OperatorApi>, stop: CancellationToken) {
        let mut announced: BTreeSet<Digest> = BTreeSet::new();
        let mut queue: VecDeque<Due> = VecDeque::new();
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = tokio::time::sleep(LOOK) => {}
            }
            let Ok(held) = api.notices(self.link.as_deref(), self.alerts).await else { continue };
            let now: BTreeSet<Digest> = held.iter().map(|notice| notice.digest).collect();
            announced.retain(|digest| now.contains(digest));
            // An alert stays due until it is accepted.
            let is_alert = |due: &Due| due.notice.message.kind == "alert.raised";
            queue.retain(|due| is_alert(due) || now.contains(&due.notice.digest));
            for notice in held {
                // A held call waits for people: what is only told does not keep its notice out.
                let is_held = notice.message.kind == "call.held";
                let most = if is_held { QUEUE_MAX } else { QUEUE_MAX / 4 };
                if queue.len() >= most || !announced.insert(notice.digest) {
                    continue;
                }
                let due = Due { notice, at: api.clock.monotonic(), pause: PAUSE_MIN };
                match is_held {
                    true => queue.push_front(due),
                    false => queue.push_back(due),
                }
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = self.deliver(&api, &mut queue) => {}
            }
        }
    }

    /// Sends every notice that is due; after a failure the rest wait for the next round.
    async fn deliver(&self, api: &OperatorApi, queue: &mut VecDeque<Due>) {
        for _ in 0..queue.len() {
            let Some(due) = queue.front() else { return };
            if due.at > api.clock.monotonic() {
                queue.rotate_left(1);
                continue;
            }
            let sent = self.announce(api, &due.notice).await;
            let Some(mut due) = queue.pop_front() else { return };
            if let Err(why) = sent {
                tracing::warn!(%why, "the webhook has not accepted a notice yet");
                due.at = api.clock.monotonic().saturating_add(due.pause);
                due.pause = due.pause.saturating_mul(2).min(PAUSE_MAX);
                queue.push_back(due);
                return;
            }
        }
    }

    async fn announce(&self, api: &OperatorApi, notice: &Notice) -> Result<(), SendError> {
        self.send(api, &notice.digest, &notice.message).await
    }

    /// Sends one message once, under this id.
    pub(super) async fn send(
        &self,
        api: &OperatorApi,
        id: &Digest,
        message: &WebhookMessage,
    ) -> Result<(), SendError> {
        let id = format!("msg_{}", id.hex());
        let body = message.body(self.format);
        let at = api.clock.now().seconds().to_string();
        let signed = format!("{id}.{at}.{body}");
        let signature = self.key.sign(signed.as_bytes())?;
        let signature = format!("v1a,{}", STANDARD.encode(signature));
        let request = http::Request::builder()
            .method(http::Method::POST)
            .header(http::header::CONTENT_TYPE, "application/json")
            .header("webhook-id", id)
            .header("webhook-timestamp", at)
            .header("webhook-signature", signature);
        let answer = self.remote.send(request, "", body.into_bytes(), ANSWER_MAX).await?;
        match answer.status.is_success() {
            true => Ok(()),
            false => Err(SendError::Status(answer.status.as_u16())),
        }
    }
}

impl OperatorApi {
    /// A notice for every held call, and for every new alert if they are wanted.
    pub(super) async fn notices(
        &self,
        link: Option<&str>,
        alerts: bool,
    ) -> Result<Vec<Notice>, Problem> {
        let open_runs = self.look().await?;
        let mut notices = all(&open_runs, link);
        if alerts {
            notices.extend(alerts::notices(&open_runs, link, self.clock.now()));
        }
        Ok(notices)
    }
}

fn all(open_runs: &OpenRuns, link: Option<&str>) -> Vec<Notice> {
    let runs = open_runs.chains().flat_map(|chain| chain.runs.values());
    let held = runs.flat_map(|run| run.held.values().map(move |hold| (run, hold)));
    let held = held.filter_map(|(run, hold)| notice(run, hold, link));
    let reported = open_runs.chains().flat_map(|chain| chain.reported.iter().filter_map(reported));
    held.chain(reported).collect()
}

/// The notice of a decision that a policy reports: names and codes, never an argument.
fn reported(decision: &ReportedDecision) -> Option<Notice> {
    let ReportedDecision { entry, agent: (agent, version), to } = decision;
    let draft = &entry.draft;
    let (run, call) = (draft.run?.to_string(), draft.call.as_ref()?.as_str());
    let (tool, verdict) = (draft.tool.as_ref()?.as_str(), draft.verdict?.as_str());
    let rule = draft.rule.as_ref().map(|rule| rule.to_string()).unwrap_or_default();
    let to: Vec<&str> = to.iter().map(|to| to.as_str()).collect();
    let (chain, seq) = (entry.chain.to_string(), entry.seq.to_string());
    let digest = Digest::of(&[b"call.notify", chain.as_bytes(), b":", seq.as_bytes()]);
    let facts = vec![
        ("To", to.join(", ")),
        ("Tool", tool.to_owned()),
        ("Verdict", verdict.to_owned()),
        ("Rule", rule.clone()),
        ("Agent", format!("{agent} {version}")),
        ("Run", run.clone()),
        ("Call", call.to_owned()),
    ];
    let data = json!({
        "to": to,
        "agent": agent,
        "version": version,
        "run": run,
        "call": call,
        "tool": tool,
        "verdict": verdict,
        "rule": rule,
        "chain": chain,
        "seq": entry.seq,
    });
    let message = WebhookMessage {
        kind: "call.notify",
        at: entry.ts.to_string(),
        data,
        title: "A policy reports a call",
        facts,
        link: None,
    };
    Some(Notice { digest, message })
}

fn notice(of: &Run, hold: &Hold, link: Option<&str>) -> Option<Notice> {
    let digest = hold.call_digest()?;
    let draft = &hold.entry.draft;
    let (run, call) = (draft.run?.to_string(), draft.call.as_ref()?.as_str());
    let (tool, words) = (draft.tool.as_ref()?.as_str(), words(&digest));
    let link = link.map(|link| format!("{}/{run}/{call}", link.trim_end_matches('/')));
    let text = |value: Option<String>| value.unwrap_or_default();
    let facts = vec![
        ("Tool", tool.to_owned()),
        ("Tier", text(hold.held.tier.map(|tier| tier.as_str().to_owned()))),
        ("Agent", format!("{} {}", of.opened.agent, of.opened.version)),
        ("Run", run.clone()),
        ("Call", call.to_owned()),
        ("Expires", text(hold.held.expires.map(|at| at.to_string()))),
        ("Digest in words", words.clone()),
    ];
    let data = json!({
        "run": run,
        "call": call,
        "tool": tool,
        "tier": hold.held.tier,
        "expires": hold.held.expires,
        "digest": digest.hex(),
        "words": words,
        "link": link,
    });
    let message = WebhookMessage {
        kind: "call.held",
        at: hold.entry.ts.to_string(),
        data,
        title: "A call is held",
        facts,
        link,
    };
    Some(Notice { digest, message })
}
