//! Amendments of the policy: proposed, approved and put in force through the list, checked by every gate.

use std::collections::BTreeSet;

use super::api::replies::{
    Activation, Amendment, AmendmentDetail, Amendments, GateReport, OrderReply,
};
use super::api::{OperatorRequest, requests, route};
use super::{AMENDED_WITHIN, OperatorApi, REPORTS_WITHIN};
use crate::approval::amendment::Pending;
use crate::approval::{ApproverVerdict, Statement as _};
use crate::clock::random16;
use crate::control::amendments::{Proposal, is_applied, text};
use crate::control::answer::{ENDED, Patience};
use crate::control::{Order, OrderReport, Presence, Row};
use crate::domain::canonical;
use crate::domain::code::Code;
use crate::domain::digest::Digest;
use crate::domain::json::Json;
use crate::policy::carried::BundleFiles;
use crate::serve::problem::Problem;

/// How long a proposal may wait for its publishers.
const ENDS_AFTER: std::time::Duration = std::time::Duration::from_secs(7 * 24 * 3600);
/// Rows that are read at once: each may carry a bundle.
const PAGE: usize = 16;

/// One proposal and all orders about it.
struct ProposalHistory {
    proposal: Proposal,
    /// The gates' answers to it.
    reports: Vec<OrderReport>,
    /// Approvals and refusals of it, and the gates' answers to them.
    decisions: Vec<(Row, Vec<OrderReport>)>,
    /// The last order to activate it, and each gate's answer.
    activation: Option<(Row, Vec<OrderReport>)>,
}

impl ProposalHistory {
    /// Subjects whose approval at least one gate counts.
    fn approved(&self) -> Vec<String> {
        self.counted(ApproverVerdict::Approve)
    }

    fn counted(&self, verdict: ApproverVerdict) -> Vec<String> {
        let reports = self.decisions.iter().flat_map(|(_, reports)| reports);
        let applied =
            reports.filter(|r| is_applied(r) && text(&r.done, "verdict") == Some(verdict.as_str()));
        let mut all: Vec<String> =
            applied.filter_map(|r| text(&r.done, "subject").map(str::to_owned)).collect();
        all.sort();
        all.dedup();
        all
    }

    fn standing(&self) -> &'static str {
        let active = self.activation.iter().flat_map(|(_, reports)| reports).any(is_applied);
        let refused = !self.counted(ApproverVerdict::Refuse).is_empty();
        match () {
            () if active => "activated",
            () if refused || !self.reports.iter().any(is_applied) => "refused",
            () if self.approved().is_empty() => "proposed",
            () => "approved",
        }
    }

    fn pending(&self) -> Pending {
        self.proposal.pending(self.approved())
    }

    fn shown(&self) -> Amendment {
        let p = &self.proposal;
        let gates = |reports: &[OrderReport]| reports.iter().map(GateReport::from).collect();
        let activation = self.activation.as_ref().map(|(row, reports)| Activation {
            subject: row.given.subject.clone(),
            at: row.at.to_string(),
            gates: gates(reports),
        });
        Amendment {
            bundle: p.bundle.prefixed(),
            base: p.base.prefixed(),
            version: p.version.clone(),
            author: p.author.clone(),
            reason: p.reason.clone(),
            proposed: p.at.to_string(),
            expires: p.expires.to_string(),
            standing: self.standing().to_owned(),
            approved_by: self.approved(),
            refused_by: self.counted(ApproverVerdict::Refuse),
            gates: gates(&self.reports),
            activation,
        }
    }
}

/// Why it is unclear which bundle a proposal replaces.
#[derive(Debug, thiserror::Error)]
enum Disagreement {
    #[error("{origin} has not applied order {row} yet")]
    Behind { origin: String, row: u64 },
    #[error("{0} requires no amendments")]
    Unamended(String),
    #[error("no gate is there")]
    NoGate,
    #[error("the gates do not all have the same bundle in force: {0}")]
    Bundles(String),
}

/// The one bundle that all these gates have in force, once they have obeyed this row.
fn agreed<'a>(gates: impl Iterator<Item = &'a Presence>, row: u64) -> Result<Digest, Disagreement> {
    let mut bases = BTreeSet::new();
    for gate in gates {
        let origin = &gate.origin;
        if gate.seq < row {
            return Err(Disagreement::Behind { origin: origin.clone(), row });
        }
        let base = text(&gate.state, "policy");
        let base = base.ok_or_else(|| Disagreement::Unamended(origin.clone()))?;
        bases.insert(base);
    }
    let all = bases.iter().copied().collect::<Vec<_>>().join(", ");
    let one = bases.pop_first().ok_or(Disagreement::NoGate)?;
    Digest::parse(one).filter(|_| bases.is_empty()).ok_or(Disagreement::Bundles(all))
}

impl OperatorApi {
    /// Proposes a bundle: every gate tries it, and reports its effect there.
    ///
    /// # Errors
    /// The bundle is invalid, or it is unclear which one it replaces; nothing was ordered.
    pub(super) async fn propose(
        &self,
        request: OperatorRequest<route::AmendmentProposal>,
    ) -> Result<OrderReply, Problem> {
        let requests::Proposal { files, base, reason } = &request.request;
        let malformed =
            |detail: &'static str, why: String| self.refused(Code::RequestMalformed, detail, why);
        let carried = BundleFiles::parse(&Json::of(files))
            .map_err(|why| malformed("amendment.bytes", why.to_string()))?;
        let (bundle, version) =
            carried.described().map_err(|why| malformed("amendment.bytes", why.to_string()))?;
        let base = match base {
            Some(text) => Digest::parse(text).ok_or_else(|| {
                malformed("amendment.base", "`base` must be a `sha256:` digest".into())
            })?,
            None => self.base().await?,
        };
        let nonce = hex::encode(random16(&*self.entropy));
        let files = canonical::text(&carried.to_json());
        let order = Order::Propose { bundle, base, version, nonce, files };
        let expires = Some(self.clock.now().plus(ENDS_AFTER));
        self.order_within(&request.who, &order, (reason, expires), (None, AMENDED_WITHIN)).await
    }

    /// The bundle in force at every running gate, once each has obeyed everything on the list.
    async fn base(&self) -> Result<Digest, Problem> {
        let patience = Patience::of(REPORTS_WITHIN);
        let last = self.last_amendment().await?;
        loop {
            let gates = self.orders.shown().await?;
            let there = gates.iter().filter(|gate| {
                gate.state.get(ENDED).and_then(Json::as_bool) != Some(true)
                    && !self.is_silent(gate.at)
            });
            let why = match agreed(there, last) {
                Ok(digest) => return Ok(digest),
                Err(why) => why,
            };
            // A gate reports the bundle in force within a second.
            if patience.is_over() {
                return Err(self.refused(Code::NotReady, "amendment.base", why.to_string()));
            }
            patience.pause().await;
        }
    }

    async fn last_amendment(&self) -> Result<u64, Problem> {
        let all = self.proposals().await?;
        let rows = all.iter().flat_map(|history| {
            let decisions = history.decisions.iter().map(|(row, _)| row.seq);
            let activation = history.activation.iter().map(|(row, _)| row.seq);
            decisions.chain(activation).chain([history.proposal.seq])
        });
        Ok(rows.max().unwrap_or_default())
    }

    /// Every proposal on the list, oldest first.
    async fn proposals(&self) -> Result<Vec<ProposalHistory>, Problem> {
        let (mut all, mut seen) = (Vec::<ProposalHistory>::new(), 0);
        loop {
            let rows = self.orders.since(seen, PAGE).await?;
            let Some(last) = rows.last() else { return Ok(all) };
            seen = last.seq;
            for row in rows {
                let Some(bundle) = row.order.as_ref().and_then(Order::amends).copied() else {
                    continue;
                };
                let reports = self.orders.reports(row.seq).await?;
                if let Some(proposal) = Proposal::of(&row) {
                    all.push(ProposalHistory {
                        proposal,
                        reports,
                        decisions: Vec::new(),
                        activation: None,
                    });
                    continue;
                }
                let about = all.iter_mut().rfind(|history| history.proposal.bundle == bundle);
                let Some(history) = about else { continue };
                if history.proposal.is_approval_of(&row) {
                    history.decisions.push((row, reports));
                } else if matches!(row.order, Some(Order::Activate { .. })) {
                    history.activation = Some((row, reports));
                }
            }
        }
    }

    /// The last proposal of this bundle.
    async fn proposed(&self, bundle: &str) -> Result<ProposalHistory, Problem> {
        let digest = Digest::parse(bundle);
        let all = self.proposals().await?;
        let found = all.into_iter().rfind(|history| Some(history.proposal.bundle) == digest);
        found.ok_or_else(|| {
            let message = "no such bundle was proposed";
            self.refused(Code::CallNotFound, "amendment.unknown", message)
        })
    }

    /// The files of the last proposal of this bundle as JSON, and what became of it.
    pub(super) async fn proposed_files(
        &self,
        bundle: &Digest,
    ) -> Result<Option<(String, Amendment)>, Problem> {
        let all = self.proposals().await?;
        let found = all.into_iter().rfind(|history| history.proposal.bundle == *bundle);
        Ok(found.map(|history| (history.proposal.files.clone(), history.shown())))
    }

    /// Every proposal with its approvals, refusals and outcome; no files.
    ///
    /// # Errors
    /// The list cannot be read.
    pub(super) async fn amendments(
        &self,
        _: OperatorRequest<route::Amendments>,
    ) -> Result<Amendments, Problem> {
        let all = self.proposals().await?;
        Ok(Amendments { amendments: all.iter().map(ProposalHistory::shown).collect() })
    }

    /// One proposal with its files and what a publisher signs.
    ///
    /// # Errors
    /// The proposal is unknown, or the list cannot be read.
    pub(super) async fn amendment(
        &self,
        request: OperatorRequest<route::AmendmentDetail>,
    ) -> Result<AmendmentDetail, Problem> {
        let history = self.proposed(&request.path.bundle).await?;
        let pending = history.pending();
        let statement = |verdict| pending.statement(verdict).text();
        Ok(AmendmentDetail {
            amendment: history.shown(),
            files: serde_json::from_str(&history.proposal.files).unwrap_or_default(),
            statement: statement(ApproverVerdict::Approve),
            refusal: statement(ApproverVerdict::Refuse),
        })
    }

    /// Passes a publisher's signed approval or refusal on to the gates, which check it.
    ///
    /// # Errors
    /// No such proposal is open, or the statement is about another.
    pub(super) async fn publish(
        &self,
        decision: OperatorRequest<route::AmendmentDecision>,
    ) -> Result<OrderReply, Problem> {
        let OperatorRequest { who, path, request } = decision;
        let requests::SignedStatement { statement, signature } = request;
        let history = self.proposed(&path.bundle).await?;
        let pending = history.pending();
        let ours = [ApproverVerdict::Approve, ApproverVerdict::Refuse]
            .into_iter()
            .any(|verdict| pending.statement(verdict).text() == statement);
        if !ours {
            let message = "the statement is not about this proposal";
            return Err(self.refused(Code::RequestMalformed, "amendment.other", message));
        }
        self.armored(&signature)?;
        let bundle = history.proposal.bundle;
        let order = Order::Publish { bundle, statement, signature };
        self.order_within(&who, &order, ("", None), (None, AMENDED_WITHIN)).await
    }

    /// Makes the gates put an approved bundle in force.
    ///
    /// # Errors
    /// No such proposal is open.
    pub(super) async fn activate(
        &self,
        request: OperatorRequest<route::AmendmentActivation>,
    ) -> Result<OrderReply, Problem> {
        let bundle = self.proposed(&request.path.bundle).await?.proposal.bundle;
        let order = Order::Activate { bundle };
        self.order_within(&request.who, &order, ("", None), (None, AMENDED_WITHIN)).await
    }
}
