//! What one row about an amendment means here.

use std::sync::Arc;

use super::{Constitution, ListProgress, OpenProposal};
use crate::app::policy::examine;
use crate::approval::{Approval, ApproverVerdict, amendment};
use crate::control::amendments::{AUTHOR, PUBLISHER, Proposal, text};
use crate::control::{Order, Row};
use crate::crypto::sshsig::SshSig;
use crate::domain::digest::Digest;
use crate::domain::json::{self, Json, Limits};
use crate::enforce::{BasisKind, Road};
use crate::policy::activation::{self, InForce};
use crate::policy::bundle::Bundle;
use crate::policy::carried::{self, BundleFiles};
use crate::policy::lint::Finding;
use crate::record::approval::Step;

/// Why a row is not obeyed.
#[derive(Debug)]
pub(super) struct AmendmentRefusal {
    /// Stable.
    pub code: String,
    /// For a person.
    pub message: String,
}

/// A refusal under this code.
pub(super) fn refuse<T>(code: &str, message: impl Into<String>) -> Result<T, AmendmentRefusal> {
    Err(AmendmentRefusal { code: code.to_owned(), message: message.into() })
}

/// Why a proposal does not carry the bundle that it names.
#[derive(Debug, thiserror::Error)]
pub(super) enum FilesError {
    #[error(transparent)]
    Json(#[from] json::Error),
    #[error(transparent)]
    Files(#[from] carried::Error),
    #[error("with this build's composition library the files are {}", .0.prefixed())]
    Other(Digest),
}

/// The files a proposal carries, if they are the bundle it names.
pub(super) fn files(proposal: &Proposal) -> Result<BundleFiles, FilesError> {
    let files = BundleFiles::parse(&Json::parse(proposal.files.as_bytes(), &Limits::FILE)?)?;
    let (digest, _) = files.described()?;
    if digest == proposal.bundle { Ok(files) } else { Err(FilesError::Other(digest)) }
}

/// Takes over the gate's recorded answer to a row, without obeying it again.
pub(super) fn recall(inner: &mut ListProgress, row: &Row, done: &Json) {
    if done.get("error").is_some() {
        return;
    }
    if let Some(proposal) = Proposal::of(row) {
        inner.open.insert(proposal.bundle, OpenProposal::of(proposal));
        return;
    }
    let bundle = row.order.as_ref().and_then(Order::amends);
    let open = bundle.and_then(|bundle| inner.open.get_mut(bundle));
    let Some(open) = open.filter(|open| open.proposal.spoken_of(row)) else { return };
    let said = |name| text(done, name).unwrap_or_default().to_owned();
    if text(done, "verdict") == Some(ApproverVerdict::Approve.as_str()) {
        let (subject, key) = (said("subject"), said("key"));
        open.granted.push(Approval { subject, roles: Vec::new(), key });
    } else {
        open.refused = Some(said("subject"));
    }
}

impl OpenProposal {
    fn of(proposal: Proposal) -> Self {
        Self { proposal, granted: Vec::new(), refused: None }
    }

    /// Refuses what comes after a refusal.
    fn stands(&self) -> Result<(), AmendmentRefusal> {
        let refused = |by| refuse("amendment.refused", format!("`{by}` has refused it"));
        self.refused.as_ref().map_or(Ok(()), refused)
    }
}

impl Constitution {
    /// Obeys a row; the ledger has recorded its outcome, or the refusal, when this returns.
    pub(super) async fn obey(&self, inner: &mut ListProgress, row: &Row, road: &Arc<Road>) -> Json {
        let (step, done) = match &row.order {
            Some(Order::Propose { .. }) => (Step::Proposal, self.propose(inner, row, road).await),
            Some(Order::Publish { .. }) => (Step::Approval, self.hear(inner, row).await),
            Some(Order::Activate { .. }) => {
                (Step::Activation, self.activate(inner, row, road).await)
            }
            Some(
                Order::Switch { .. }
                | Order::Loosen(_)
                | Order::Word { .. }
                | Order::Modify { .. }
                | Order::BreakGlass(_)
                | Order::CloseGlass { .. }
                | Order::ReviewGlass { .. },
            )
            | None => {
                return Json::object([("error", Json::from("no amendment"))]);
            }
        };
        if let Some(running) = self.running.upgrade() {
            running.tell();
        }
        match done {
            Ok(done) => done,
            Err(refusal) => {
                tracing::warn!(order = row.seq, %step, code = %refusal.code, why = %refusal.message, "an amendment was refused");
                self.record_refusal(row, step, &refusal).await;
                Json::object([
                    ("error", Json::from(refusal.message.as_str())),
                    ("code", Json::from(refusal.code.as_str())),
                    ("counted", Json::from(false)),
                ])
            }
        }
    }

    async fn propose(
        &self,
        inner: &mut ListProgress,
        row: &Row,
        road: &Arc<Road>,
    ) -> Result<Json, AmendmentRefusal> {
        role(row, AUTHOR)?;
        let Some(proposal) = Proposal::of(row) else {
            return refuse("amendment.malformed", "the proposal cannot be read, or never ends");
        };
        let now = self.based_on(&proposal)?;
        let (bundle, found) = self.tried(&proposal, &now, road).await?;
        let effect = self.effect(road, &bundle, found);
        effect.passes()?;
        self.record_proposal(&proposal, &bundle, &effect).await?;
        let done = effect.to_json(&proposal.bundle, bundle.version().to_string());
        inner.open.insert(proposal.bundle, OpenProposal::of(proposal));
        Ok(done)
    }

    /// The bundle in force, if it is the one that the proposal replaces.
    fn based_on(&self, proposal: &Proposal) -> Result<InForce, AmendmentRefusal> {
        let now = self.in_force.lock().clone();
        let stays = now.as_ref().map_or_else(|| "nothing".into(), |now| now.digest.prefixed());
        match now {
            Some(now) if now.digest == proposal.base => Ok(now),
            Some(_) | None => refuse(
                "amendment.stale",
                format!("it replaces {}, and {stays} is in force", proposal.base.prefixed()),
            ),
        }
    }

    /// The proposed bundle, read, verified and tried as any other, with the lints' findings.
    async fn tried(
        &self,
        proposal: &Proposal,
        now: &InForce,
        road: &Road,
    ) -> Result<(Bundle, Vec<Finding>), AmendmentRefusal> {
        let files = files(proposal).or_else(|why| refuse("amendment.bytes", why.to_string()))?;
        let dir = self.kept(&proposal.bundle);
        let written = files.write(&dir);
        written.or_else(|e| refuse("amendment.bundle", format!("`{}`: {e}", dir.display())))?;
        let (live, tools) = (self.checked.live(), road.tool_tiers());
        let candidate = examine(&self.checked, &live, &self.ledger, tools, dir).await;
        let (candidate, found) =
            candidate.or_else(|why| refuse("amendment.bundle", why.to_string()))?;
        let bundle = candidate.bundle;
        if let Err(error) = activation::follows(&bundle, now) {
            let code = error.succession().unwrap_or("amendment.bundle");
            return refuse(code, error.to_string());
        }
        Ok((bundle, found))
    }

    async fn hear(&self, inner: &mut ListProgress, row: &Row) -> Result<Json, AmendmentRefusal> {
        let Some(Order::Publish { bundle, statement, signature }) = &row.order else {
            return refuse("amendment.malformed", "no word about an amendment");
        };
        let open = find(inner, bundle)?;
        let Some(list) = self.publishers() else {
            let why = "`approvals.signers` is not set: no approvers are configured";
            return refuse("approval.signer", why);
        };
        list.bind().await.or_else(|why| refuse("ledger.unavailable", why.message))?;
        let list = list.counting();
        let list = list.or_else(|why| refuse("approval.signer", why.to_string()))?;
        let given = open.granted.iter().map(|granted| granted.subject.clone()).collect();
        let pending = open.proposal.pending(given);
        let said = (statement.as_bytes(), signature.as_str());
        let checked = amendment::check(&pending, &list, said, row.at);
        let (approval, word) = checked.or_else(|why| refuse(why.code, why.why))?;
        open.stands()?;
        let spelled = SshSig::parse(signature).map(|signature| signature.armored());
        let spelled = spelled.or_else(|why| refuse("approval.signature", why.to_string()))?;
        self.record_word(&pending, (&approval, word), (list.digest(), &spelled)).await?;
        let mut done = vec![
            ("counted", Json::from(true)),
            ("bundle", Json::from(bundle.prefixed())),
            ("verdict", Json::from(word.as_str())),
            ("subject", Json::from(approval.subject.as_str())),
            ("key", Json::from(approval.key.as_str())),
        ];
        match word {
            ApproverVerdict::Approve => open.granted.push(approval),
            ApproverVerdict::Refuse => open.refused = Some(approval.subject),
        }
        done.push(("approvals", count(open.granted.len())));
        done.push(("needed", Json::from(self.checked.config.policy.approvals)));
        Ok(Json::object(done))
    }

    async fn activate(
        &self,
        inner: &mut ListProgress,
        row: &Row,
        road: &Arc<Road>,
    ) -> Result<Json, AmendmentRefusal> {
        role(row, PUBLISHER)?;
        let Some(Order::Activate { bundle }) = &row.order else {
            return refuse("amendment.malformed", "no activation");
        };
        let done = Json::object([
            ("activated", Json::from(true)),
            ("bundle", Json::from(bundle.prefixed())),
        ]);
        // Obeyed before, and the report was lost.
        if self.digest() == Some(*bundle) {
            return Ok(done);
        }
        let open = find(inner, bundle)?;
        open.stands()?;
        if row.at >= open.proposal.expires {
            let why = format!("the proposal ended at {}", open.proposal.expires);
            return refuse("amendment.expired", why);
        }
        let needed = self.checked.config.policy.approvals;
        let granted = u64::try_from(open.granted.len()).unwrap_or_default();
        if granted < needed {
            let why = format!("{granted} of {needed} publishers have approved it");
            return refuse("amendment.unapproved", why);
        }
        let now = self.based_on(&open.proposal)?;
        let (new, found) = self.tried(&open.proposal, &now, road).await?;
        self.effect(road, &new, found).passes()?;
        let put = self.put(road, self.kept(bundle), (BasisKind::Amendment, Some(now.digest))).await;
        put.or_else(|why| refuse("amendment.bundle", why.to_string()))?;
        tracing::info!(digest = %bundle.prefixed(), "an amendment was put in force");
        self.look_at_directory();
        Ok(done)
    }
}

fn find<'a>(
    inner: &'a mut ListProgress,
    bundle: &Digest,
) -> Result<&'a mut OpenProposal, AmendmentRefusal> {
    let why = format!("{} is not proposed here, or its proposal was refused", bundle.prefixed());
    inner.open.get_mut(bundle).map_or_else(|| refuse("amendment.unknown", why), Ok)
}

/// Whether the operator who gave the order has this role. The operator API checked it; a row may
/// come from elsewhere.
fn role(row: &Row, role: &str) -> Result<(), AmendmentRefusal> {
    if row.given.roles.iter().any(|one| one == role) {
        return Ok(());
    }
    refuse("operator.role", format!("`{}` has no role `{role}`", row.given.subject))
}

pub(super) fn count(n: usize) -> Json {
    Json::from(u64::try_from(n).unwrap_or(u64::MAX))
}
