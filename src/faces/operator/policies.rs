//! The policies in force, one bundle with what it would change, and what observe mode let run: read off the ledger, the
//! proposals and the artifacts.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::api::policies::{
    BundleChange, BundleDetail, BundleFile, BundleInForce, BundleLayer, ObservedCall,
    ObservedDenials, ObservedRule, ObservingLayer, PolicyInForce,
};
use super::api::replies::Amendment;
use super::api::{OperatorRequest, route};
use super::{OperatorApi, Problem};
use crate::domain::canonical;
use crate::domain::code::Code;
use crate::domain::digest::Digest;
use crate::domain::id::Seq;
use crate::domain::json::Json;
use crate::domain::pointer::Difference;
use crate::domain::time::Timestamp;
use crate::evidence::gather;
use crate::evidence::observations::{FindingKey, ObservationReport, RuleFindings};
use crate::evidence::query::Filter;
use crate::index::query::time;
use crate::ledger::store::{ChainRow, EntryRange, EntryRow};
use crate::ledger::verify::fleet::is_fleet;
use crate::policy::bundle::Bundle;
use crate::policy::carried::BundleFiles;
use crate::policy::diff::{Diff, NamedEdit, RuleEdit};
use crate::record::chain::PolicyActivated;
use crate::record::{Entry, Kind};

/// Logs in one answer.
const LOGS_MAX: usize = 200;
/// Entries that one request reads for what observe mode let run.
const READ_MAX: u64 = 200_000;
/// Entries read at once.
const PAGE: u32 = 1000;
/// From when on, unless the request says it.
const SINCE: &str = "7d";
/// Bytes of a file whose text is shown.
const TEXT_MAX: usize = 64 * 1024;
/// Characters of a value that differs.
const VALUE_MAX: usize = 200;

/// A bundle as this process has it.
pub(super) struct KnownBundle {
    /// Its files, the composition library included.
    pub bundle: Bundle,
    /// Its signature, if that is kept.
    signature: Option<Vec<u8>>,
    proposal: Option<Amendment>,
}

/// The members of a signature's envelope that are shown.
#[derive(Deserialize)]
struct ShownEnvelope {
    signatures: Vec<ShownSignature>,
}

#[derive(Deserialize)]
struct ShownSignature {
    #[serde(default)]
    keyid: String,
}

impl OperatorApi {
    /// The bundle that each log activated last.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub(super) async fn policy(
        &self,
        _: OperatorRequest<route::PolicyInForce>,
    ) -> Result<PolicyInForce, Problem> {
        let (bundles, more) = self.in_force().await?;
        Ok(PolicyInForce { bundles, more })
    }

    async fn in_force(&self) -> Result<(Vec<BundleInForce>, bool), Problem> {
        let stopped: BTreeMap<String, bool> = {
            let open = self.look().await?;
            open.chains().map(|chain| (chain.origin.clone(), chain.stopped)).collect()
        };
        let mut rows = self.reader.chains().await?;
        rows.retain(|row| row.tenant == self.tenant && !is_fleet(row));
        let ended = |row: &ChainRow| stopped.get(&row.origin).copied().unwrap_or(true);
        rows.sort_by_key(|row| (ended(row), row.origin.clone()));
        let more = rows.len() > LOGS_MAX;
        let mut bundles = Vec::new();
        for row in rows.iter().take(LOGS_MAX) {
            let kinds = [Kind::PolicyActivated.as_str()];
            let newest = EntryRange::Lone(&kinds, row.head.size, 1);
            let found = self.reader.select(&row.chain, newest).await?;
            bundles.extend(found.last().and_then(|entry| activated(row, entry, ended(row))));
        }
        Ok((bundles, more))
    }

    /// One bundle that was proposed or is kept for evidence.
    ///
    /// # Errors
    /// Neither has it.
    pub(super) async fn bundle(
        &self,
        asked: OperatorRequest<route::BundleDetail>,
    ) -> Result<BundleDetail, Problem> {
        let digest = self.bundle_digest(&asked.path.bundle)?;
        let known = self.known_bundle(&digest).await?;
        let (in_force, _) = self.in_force().await?;
        let current = in_force
            .iter()
            .filter(|one| !one.stopped)
            .find_map(|one| Digest::parse(&one.bundle).filter(|current| *current != digest));
        let base = match &current {
            Some(current) => self.known_bundle(current).await.ok(),
            None => None,
        };
        let uncompared = match (&current, &base) {
            (Some(_), Some(_)) => None,
            (None, _) => Some("no other bundle is in force".to_owned()),
            (Some(current), None) => {
                Some(format!("the bundle in force, {}, is not kept here", current.prefixed()))
            }
        };
        let logs = in_force.into_iter().filter(|one| one.bundle == digest.prefixed());
        let in_force = logs.map(|one| one.origin).collect();
        let now = self.clock.now();
        // WHY: rules are compared in their parsed form, and stop orders are served on this thread.
        let compared = tokio::task::spawn_blocking(move || {
            let changes = base.as_ref().map(|base| {
                let diff = Diff::between(&base.bundle, &known.bundle);
                (base.bundle.digest().prefixed(), changes(&diff))
            });
            let (against, changes) = changes.unzip();
            detail(known, (in_force, now), (against, changes.unwrap_or_default(), uncompared))
        });
        compared.await.map_err(|_panicked| {
            let message = "the bundle cannot be compared: the log of this process says why";
            self.refused(Code::NotReady, "policy.compare", message)
        })
    }

    pub(super) fn bundle_digest(&self, text: &str) -> Result<Digest, Problem> {
        Digest::parse(text).ok_or_else(|| {
            let message = "`bundle` must be a `sha256:` digest";
            self.refused(Code::RequestMalformed, "policy.bundle", message)
        })
    }

    /// The bundle of this digest, from its proposal or the artifacts.
    pub(super) async fn known_bundle(&self, digest: &Digest) -> Result<KnownBundle, Problem> {
        let unknown = |why: &str| {
            let message = format!("no bundle {} here: {why}", digest.prefixed());
            self.refused(Code::CallNotFound, "policy.unknown", message)
        };
        if let Some((files, proposal)) = self.proposed_files(digest).await? {
            let read = Json::parse(files.as_bytes(), &crate::domain::json::Limits::FILE).ok();
            let carried = read.and_then(|json| BundleFiles::parse(&json).ok());
            let carried = carried.ok_or_else(|| unknown("its proposal cannot be read"))?;
            let signature = carried.signature().map(<[u8]>::to_vec);
            let bundle = carried.bundle().map_err(|why| unknown(&why.to_string()))?;
            return Ok(KnownBundle { bundle, signature, proposal: Some(proposal) });
        }
        let Some(service) = self.evidence.get() else {
            let why =
                "it was not proposed, and without `evidence.key` this process reads no artifacts";
            return Err(unknown(why));
        };
        let tar = service.evidence.artifacts.policy(digest);
        let tar = tar.map_err(|why| unknown(&why.to_string()))?;
        let tar = tar.ok_or_else(|| unknown("it was not proposed, and the artifacts lack it"))?;
        let bundle = Bundle::from_tar(&tar).map_err(|why| unknown(&why.to_string()))?;
        Ok(KnownBundle { bundle, signature: None, proposal: None })
    }

    /// What enforcement would have refused.
    ///
    /// # Errors
    /// `since` is no time, or the ledger cannot be read.
    pub(super) async fn observed(
        &self,
        asked: OperatorRequest<route::ObservedDenials>,
    ) -> Result<ObservedDenials, Problem> {
        let now = self.clock.now();
        let since = asked.request.since.as_deref().unwrap_or(SINCE);
        let since = time(since, now).ok_or_else(|| {
            let message = "`since` must be a date, a time or a duration back from now";
            self.refused(Code::RequestMalformed, "observed.since", message)
        })?;
        let mut report = ObservationReport::default();
        let (mut left, mut more) = (READ_MAX, false);
        let mut rows = self.reader.chains().await?;
        rows.retain(|row| row.tenant == self.tenant && !is_fleet(row));
        for row in &rows {
            let filter = Filter { since: Some(since), ..Filter::default() };
            let span = gather::span_of(&*self.reader, row, &filter).await;
            let span = span.map_err(|why| self.refuse(super::exports::unavailable(&why)))?;
            // The newest entries count, where not all can.
            let from = span.from.max(span.to.saturating_sub(left));
            more |= from > span.from;
            left = left.saturating_sub(span.to.saturating_sub(from));
            self.observe(row, (from, span.to), (&mut report, since)).await?;
        }
        let rules = report.sorted().into_iter().map(observed_rule).collect();
        let ObservationReport { decided, denied, held, unread, .. } = report;
        Ok(ObservedDenials { since: since.to_string(), decided, denied, held, rules, unread, more })
    }

    async fn observe(
        &self,
        row: &ChainRow,
        (from, to): (Seq, Seq),
        (report, since): (&mut ObservationReport, Timestamp),
    ) -> Result<(), Problem> {
        let wanted = |entry: &Entry| entry.ts >= since;
        let mut at = from;
        while at < to {
            let page = self.reader.entries(&row.chain, at, PAGE).await?;
            let Some(last) = page.last() else { break };
            at = last.seq.saturating_add(1);
            page.iter().filter(|entry| entry.seq < to).for_each(|one| report.take(one, &wanted));
            // WHY: entries are parsed on the thread that serves stop orders.
            tokio::task::yield_now().await;
        }
        Ok(())
    }
}

fn observed_rule(((rule, tool, verdict), found): (&FindingKey, &RuleFindings)) -> ObservedRule {
    let example = |(run, call): &(crate::domain::id::RunId, String)| ObservedCall {
        run: run.to_string(),
        call: call.clone(),
    };
    ObservedRule {
        rule: rule.clone(),
        tool: tool.clone(),
        verdict: (*verdict).to_owned(),
        message: found.message.clone(),
        count: found.count,
        first: found.first.to_string(),
        last: found.last.to_string(),
        examples: found.examples.iter().map(example).collect(),
    }
}

fn activated(chain: &ChainRow, row: &EntryRow, stopped: bool) -> Option<BundleInForce> {
    let entry = Entry::parse(&row.body).ok()?;
    let one = entry.draft.get::<PolicyActivated>()?;
    let layer = |layer: &crate::record::call::Layer| BundleLayer {
        layer: layer.layer.to_string(),
        digest: layer.digest.0.prefixed(),
    };
    Some(BundleInForce {
        origin: chain.origin.clone(),
        stopped,
        bundle: entry.draft.policy?.prefixed(),
        name: one.name.to_string(),
        version: one.version.to_string(),
        activated: entry.ts.to_string(),
        entry: row.seq,
        basis: one.basis.map(|basis| basis.as_str().to_owned()),
        approvals: one.approvals.map(crate::record::Int::get),
        layers: one.layers.iter().map(layer).collect(),
    })
}

fn detail(
    known: KnownBundle,
    (in_force, now): (Vec<String>, Timestamp),
    (against, changes, uncompared): (Option<String>, Vec<BundleChange>, Option<String>),
) -> BundleDetail {
    let KnownBundle { bundle, signature, proposal } = known;
    let meta = bundle.meta();
    let file = |(name, bytes): (&str, &[u8])| BundleFile {
        name: name.to_owned(),
        bytes: u64::try_from(bytes.len()).unwrap_or(u64::MAX),
        text: (bytes.len() <= TEXT_MAX)
            .then(|| std::str::from_utf8(bytes).ok().map(str::to_owned))
            .flatten(),
    };
    let observing = meta.enforcement.observing(now).into_iter();
    let signers = signature.map(|envelope| {
        let read = serde_json::from_slice::<ShownEnvelope>(&envelope).ok();
        read.into_iter().flat_map(|read| read.signatures).map(|one| one.keyid).collect()
    });
    BundleDetail {
        bundle: bundle.digest().prefixed(),
        name: bundle.name().to_owned(),
        version: bundle.version().to_string(),
        not_before: meta.not_before.map(|at| at.to_string()),
        not_after: meta.not_after.map(|at| at.to_string()),
        manifests: meta.manifests.clone(),
        observing: observing
            .map(|(layer, until)| ObservingLayer {
                layer: layer.to_owned(),
                until: until.to_string(),
            })
            .collect(),
        layers: bundle
            .layers()
            .iter()
            .map(|layer| BundleLayer {
                layer: layer.layer.as_str().to_owned(),
                digest: layer.digest.prefixed(),
            })
            .collect(),
        signers,
        in_force,
        proposal,
        files: bundle.as_written().map(file).collect(),
        against,
        changes,
        uncompared,
    }
}

fn changes(diff: &Diff) -> Vec<BundleChange> {
    let rule = |edit: &RuleEdit| BundleChange {
        what: if edit.kind == "allow" { "rule (a grant)" } else { "rule" }.to_owned(),
        name: format!("{} {}", edit.kind, edit.rule),
        edit: edit.edit.as_str().to_owned(),
        old: edit.old.clone(),
        new: edit.new.clone(),
        text: Some(edit.text.clone()),
    };
    let named = |what: &'static str| {
        move |edit: &NamedEdit| BundleChange {
            what: what.to_owned(),
            name: edit.name.clone(),
            edit: edit.edit.as_str().to_owned(),
            old: None,
            new: None,
            text: None,
        }
    };
    let value = |what: &'static str| {
        move |edit: &Difference| BundleChange {
            what: what.to_owned(),
            name: edit.at.clone(),
            edit: match (&edit.old, &edit.new) {
                (None, _) => "added",
                (Some(_), None) => "removed",
                (Some(_), Some(_)) => "changed",
            }
            .to_owned(),
            old: edit.old.as_ref().map(shortened),
            new: edit.new.as_ref().map(shortened),
            text: None,
        }
    };
    let mut all: Vec<BundleChange> = diff.rules.iter().map(rule).collect();
    all.extend(diff.packages.iter().map(named("package")));
    all.extend(diff.builtins.iter().map(named("builtin")));
    all.extend(diff.description.iter().map(value("bundle.json")));
    all.extend(diff.data.iter().map(value("data")));
    all.extend(diff.tests.iter().map(named("test file")));
    all
}

fn shortened(value: &Json) -> String {
    let text = canonical::text(value);
    let mut short: String = text.chars().take(VALUE_MAX).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}
