//! What one row about an amendment means here.

use std::path::PathBuf;
use std::sync::Arc;

use super::{Constitution, ListProgress, OpenProposal};
use crate::app::lists;
use crate::app::policy::{self, examine};
use crate::approval::{Approval, ApprovalRefusal, ApproverVerdict, amendment, people};
use crate::control::amendments::{AUTHOR, PUBLISHER, Proposal, text};
use crate::control::{Order, Row};
use crate::domain::digest::Digest;
use crate::domain::json::{self, Json, Limits};
use crate::enforce::{BasisKind, Road};
use crate::ledger;
use crate::policy::activation::{self, Candidate, InForce};
use crate::policy::bundle::Bundle;
use crate::policy::carried::{self, BundleFiles};
use crate::policy::fault;
use crate::policy::lint::Finding;
use crate::record::Text;
use crate::record::approval::Step;

/// Why a row is not obeyed.
#[derive(Debug, thiserror::Error)]
pub(super) enum AmendmentRefusal {
    /// The publisher's statement does not count.
    #[error("{}", .0.why)]
    Statement(#[from] ApprovalRefusal),
    /// The list of publishers cannot be used.
    #[error(transparent)]
    List(#[from] lists::Error),
    #[error("`approvals.signers` is not set: no approvers are configured")]
    NoList,
    /// The operator who gave the order lacks a role.
    #[error("`{0}` has no role `{1}`")]
    Role(String, &'static str),
    #[error("the proposal cannot be read, or has no end")]
    Malformed,
    /// Another bundle is in force than the proposal replaces.
    #[error("it replaces {}, but {} is in force", .base.prefixed(), .now.map_or_else(|| "nothing".to_owned(), |now| now.prefixed()))]
    Stale { base: Digest, now: Option<Digest> },
    #[error(transparent)]
    Files(#[from] FilesError),
    #[error("`{}`: {source}", dir.display())]
    Unwritten { dir: PathBuf, source: std::io::Error },
    /// The bundle does not hold here.
    #[error(transparent)]
    Bundle(#[from] policy::Error),
    /// The bundle may not follow the one in force.
    #[error(transparent)]
    Follows(#[from] fault::Error),
    /// The lints' first error, and how many more there are.
    #[error("{first}{}", match more { 0 => String::new(), more => format!(", and {more} more") })]
    Findings { first: Text, more: usize },
    #[error("`{0}` refused the proposal")]
    Refused(String),
    #[error("only {0} of the {1} required publishers approved the proposal")]
    Unapproved(usize, u64),
    #[error("{} is not proposed here, or its proposal was refused", .0.prefixed())]
    Unknown(Digest),
    #[error(transparent)]
    NotInForce(#[from] super::Error),
    #[error(transparent)]
    Unrecorded(#[from] ledger::Error),
}

impl AmendmentRefusal {
    /// Stable.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Statement(refusal) => refusal.code(),
            Self::List(_) | Self::NoList => "approval.signer",
            Self::Role(..) => "operator.role",
            Self::Malformed => "amendment.malformed",
            Self::Stale { .. } => "amendment.stale",
            Self::Files(_) => "amendment.bytes",
            Self::Unwritten { .. } | Self::Bundle(_) | Self::NotInForce(_) => "amendment.bundle",
            Self::Follows(error) => error.succession().unwrap_or("amendment.bundle"),
            Self::Findings { .. } => "amendment.findings",
            Self::Refused(_) => "amendment.refused",
            Self::Unapproved(..) => "amendment.unapproved",
            Self::Unknown(_) => "amendment.unknown",
            Self::Unrecorded(_) => "ledger.unavailable",
        }
    }
}

/// Why a proposal does not carry the bundle that it names.
#[derive(Debug, thiserror::Error)]
pub(super) enum FilesError {
    #[error(transparent)]
    Json(#[from] json::Error),
    #[error(transparent)]
    Files(#[from] carried::Error),
    #[error("with the composition library of this build, the files have the digest {}", .0.prefixed())]
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
    let Some(open) = open.filter(|open| open.proposal.is_approval_of(row)) else { return };
    let field = |name| text(done, name).unwrap_or_default().to_owned();
    if text(done, "verdict") == Some(ApproverVerdict::Approve.as_str()) {
        let (subject, key) = (field("subject"), field("key"));
        // Only subject and key of a recorded approval matter here.
        let (roles, key_kind, origin) = (Vec::new(), None, None);
        open.granted.push(Approval { subject, roles, key, key_kind, origin });
    } else {
        open.refused = Some(field("subject"));
    }
}

impl OpenProposal {
    fn of(proposal: Proposal) -> Self {
        Self { proposal, granted: Vec::new(), refused: None }
    }

    /// Refuses what comes after a refusal.
    fn check_not_refused(&self) -> Result<(), AmendmentRefusal> {
        self.refused.clone().map_or(Ok(()), |by| Err(AmendmentRefusal::Refused(by)))
    }
}

impl Constitution {
    /// Obeys a row; the ledger has recorded its outcome, or the refusal, when this returns.
    pub(super) async fn apply(
        &self,
        inner: &mut ListProgress,
        row: &Row,
        road: &Arc<Road>,
    ) -> Json {
        let (step, done) = match &row.order {
            Some(Order::Propose { .. }) => (Step::Proposal, self.propose(inner, row, road).await),
            Some(Order::Publish { .. }) => (Step::Approval, self.publish(inner, row).await),
            Some(Order::Activate { .. }) => {
                (Step::Activation, self.activate(inner, row, road).await)
            }
            Some(
                Order::Switch { .. }
                | Order::Loosen(_)
                | Order::ApproverStatement { .. }
                | Order::Modify { .. }
                | Order::BreakGlass(_)
                | Order::CloseBreakGlass { .. }
                | Order::ReviewBreakGlass { .. }
                | Order::ClearTaint { .. }
                | Order::EndException { .. },
            )
            | None => {
                return Json::object([("error", Json::from("no amendment"))]);
            }
        };
        if let Some(running) = self.running.upgrade() {
            running.update_readiness();
        }
        match done {
            Ok(done) => done,
            Err(refusal) => {
                tracing::warn!(order = row.seq, %step, code = %refusal.code(), why = %refusal, "an amendment was refused");
                self.record_refusal(row, step, &refusal).await;
                Json::object([
                    ("error", Json::from(refusal.to_string())),
                    ("code", Json::from(refusal.code())),
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
        let proposal = Proposal::of(row).ok_or(AmendmentRefusal::Malformed)?;
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
        let digest = now.as_ref().map(|now| now.digest);
        now.filter(|now| now.digest == proposal.base)
            .ok_or(AmendmentRefusal::Stale { base: proposal.base, now: digest })
    }

    /// The proposed bundle, read, verified and tried as any other, with the lints' findings.
    async fn tried(
        &self,
        proposal: &Proposal,
        now: &InForce,
        road: &Road,
    ) -> Result<(Bundle, Vec<Finding>), AmendmentRefusal> {
        let dir = self.kept(&proposal.bundle);
        if let Err(source) = files(proposal)?.write(&dir) {
            return Err(AmendmentRefusal::Unwritten { dir, source });
        }
        let (live, tools) = (self.checked.live(), road.tool_tiers());
        let candidate = examine(&self.checked, &live, &self.ledger, tools, dir).await;
        let (Candidate { bundle, .. }, found) = candidate?;
        activation::follows(&bundle, now)?;
        Ok((bundle, found))
    }

    async fn publish(&self, inner: &mut ListProgress, row: &Row) -> Result<Json, AmendmentRefusal> {
        let Some(Order::Publish { bundle, statement, signature }) = &row.order else {
            return Err(AmendmentRefusal::Malformed);
        };
        let open = find(inner, bundle)?;
        let list = self.publishers().ok_or(AmendmentRefusal::NoList)?;
        list.bind().await?;
        let list = list.counting()?;
        let given = open.granted.iter().map(|granted| granted.subject.clone()).collect();
        let pending = open.proposal.pending(given);
        let signed = (statement.as_bytes(), signature.as_str());
        let counted = amendment::check(&pending, &list, signed, row.at)?;
        let (approval, verdict) = (counted.by, counted.statement.verdict);
        open.check_not_refused()?;
        let by = (list.digest(), counted.signature.as_str());
        self.record_publication(&pending, (&approval, verdict), by).await?;
        let mut done = vec![
            ("counted", Json::from(true)),
            ("bundle", Json::from(bundle.prefixed())),
            ("verdict", Json::from(verdict.as_str())),
            ("subject", Json::from(approval.subject.as_str())),
            ("key", Json::from(approval.key.as_str())),
        ];
        match verdict {
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
            return Err(AmendmentRefusal::Malformed);
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
        open.check_not_refused()?;
        open.proposal.pending(Vec::new()).in_time(row.at)?;
        let (granted, needed) = (people(&open.granted), self.checked.config.policy.approvals);
        if u64::try_from(granted).unwrap_or_default() < needed {
            return Err(AmendmentRefusal::Unapproved(granted, needed));
        }
        let now = self.based_on(&open.proposal)?;
        let (new, found) = self.tried(&open.proposal, &now, road).await?;
        self.effect(road, &new, found).passes()?;
        self.put(road, self.kept(bundle), (BasisKind::Amendment, Some(now.digest))).await?;
        tracing::info!(digest = %bundle.prefixed(), "an amendment came into force");
        self.look_at_directory();
        Ok(done)
    }
}

fn find<'a>(
    inner: &'a mut ListProgress,
    bundle: &Digest,
) -> Result<&'a mut OpenProposal, AmendmentRefusal> {
    inner.open.get_mut(bundle).ok_or(AmendmentRefusal::Unknown(*bundle))
}

/// Whether the operator who gave the order has this role. The operator API checked it; a row may
/// come from elsewhere.
fn role(row: &Row, role: &'static str) -> Result<(), AmendmentRefusal> {
    if row.given.roles.iter().any(|one| one == role) {
        return Ok(());
    }
    Err(AmendmentRefusal::Role(row.given.subject.clone(), role))
}

pub(super) fn count(n: usize) -> Json {
    Json::from(u64::try_from(n).unwrap_or(u64::MAX))
}
