//! P3, A1, B4 and V1: the policies and manifests of the runs, and the files made from the entries.

use crate::domain::id::{CallId, RunId, Seq};
use crate::domain::plural::many;
use crate::domain::tier::Binding;
use std::collections::{BTreeMap, BTreeSet};

use super::case::Case;
use super::report::{Outcome, Report};
use super::windows;
use crate::bundle::{
    AGENT, AGENT_RUN, AGENT_SIG, CONTROLS, Files, GUIDE, PAGE, PAYLOADS, POLICY, PlaceForm, SCHEMA,
    agent_files,
};
use crate::crypto::dsse;
use crate::domain::digest::Digest;
use crate::entries::amended::Amendments;
use crate::entries::{Damage, EntryLine};
use crate::payloads::{Is, Payload, Payloads, WithheldReason};
use crate::projection::{self, BundleMaterial, ProjectedCall, decides, is_observed};
use crate::query::Query;
use crate::record::chain::ManifestBound;
use crate::record::run::RunOpened;
use crate::record::{Kind, TaggedDigest, schema};
use crate::scope::{ChainSlice, Scope};
use crate::statement::{self, Exporter, Subject};
use crate::{contents, controls, guide, page};

/// DSSE payload type of a manifest.
const MANIFEST_TYPE: &str = "application/vnd.wicketgate.manifest.v1+yaml";

/// Why a policy or manifest must not have governed the runs.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    Window(#[from] windows::Outside),
    #[error("seq {0}: {why}", why = .1.why)]
    Amendment(Seq, Damage),
    #[error("seq {0} is not a denial, but names no policy")]
    NoPolicy(Seq),
    #[error("seq {0}: no earlier entry activates its policy")]
    Inactive(Seq),
    #[error("`{0}` is a policy that was never in force")]
    StrayPolicy(String),
    #[error("{} is not an approved policy", .0.prefixed())]
    Unapproved(Digest),
    #[error("{} was not bound before the run", .0.prefixed())]
    Unbound(Digest),
    #[error("the manifest or its signature is missing")]
    HalfManifest,
    #[error("`{0}` is not {digest}", digest = .1.prefixed())]
    OtherManifest(String, Digest),
    #[error("`{0}` has other bytes than its name and the manifest say")]
    OtherTemplate(String),
    #[error("`{0}` has other bytes than its name and the decisions say")]
    OtherRules(String),
    #[error(transparent)]
    Envelope(#[from] dsse::Error),
    #[error("`{0}` signs different bytes")]
    OtherBytes(String),
}

/// P3 and A1.
pub fn check(case: &Case<'_>, report: &mut Report) {
    let found = windows::policies(case).map_err(Error::from).and_then(|()| policies(case));
    report.put("P3", found.unwrap_or_else(Outcome::invalid));
    let found = windows::manifests(case).map_err(Error::from).and_then(|unrecorded| {
        if unrecorded > 0 {
            report.not_proven.push(format!(
                "that runs were opened within the validity of their manifests: of {unrecorded} it cannot be read"
            ));
        }
        let outcome = manifests(case)?;
        report.not_proven.extend(templates(case)?.iter().map(|template| {
            format!(
                "which instructions fit the template {}: its bytes are not here",
                template.prefixed()
            )
        }));
        Ok(outcome)
    });
    report.put("A1", found.unwrap_or_else(Outcome::invalid));
}

fn policies(case: &Case<'_>) -> Result<Outcome, Error> {
    let (files, trust) = (case.files, case.trust);
    let none = Digest::of(&[]);
    let mut activated = BTreeSet::new();
    let mut used = BTreeSet::new();
    let (mut amended, mut unrecorded) = (0_usize, None);
    for slice in &case.slices {
        let mut here = BTreeSet::new();
        // The bundle has only the entries that introduce the runs, not the whole chain.
        let mut amendments = Amendments::default();
        amendments.cut();
        for line in &slice.lines {
            let seq = line.entry.seq;
            amendments.accept(line).map_err(|damage| Error::Amendment(seq, damage))?;
            let Some(policy) = line.entry.draft.policy else { continue };
            if line.is(Kind::PolicyActivated) {
                here.insert(policy);
            } else if policy == none {
                if !line.is(Kind::CallDenied) {
                    return Err(Error::NoPolicy(seq));
                }
            } else if decides(line) && slice.selects(line) {
                if !here.contains(&policy) {
                    return Err(Error::Inactive(seq));
                }
                used.insert(policy);
            }
        }
        activated.append(&mut here);
        amended = amended.saturating_add(amendments.amended());
        unrecorded = amendments.unrecorded().copied().or(unrecorded);
    }
    let mut there = BTreeSet::new();
    for (name, bytes) in files.0.iter().filter(|(name, _)| name.starts_with("policy/")) {
        let digest = Digest::of(&[bytes]);
        let named = name == POLICY || *name == format!("policy/{}.tar", digest.hex());
        if !named || !activated.contains(&digest) {
            return Err(Error::StrayPolicy(name.clone()));
        }
        there.insert(digest);
    }
    if !trust.policies.is_empty()
        && let Some(other) = used.iter().find(|policy| !trust.policies.contains(policy))
    {
        return Err(Error::Unapproved(*other));
    }
    let missing: Vec<String> = used.difference(&there).map(Digest::prefixed).collect();
    if !missing.is_empty() {
        return Ok(Outcome::Unverifiable(format!(
            "the bundle does not include the bytes of {}",
            missing.join(", ")
        )));
    }
    if let Some(unrecorded) = unrecorded {
        return Ok(Outcome::Unverifiable(format!(
            "the entries do not show who proposed and approved {}",
            unrecorded.prefixed()
        )));
    }
    let approved = if trust.policies.is_empty() { "in force" } else { "in force and approved" };
    let mut seen = format!("{} used, {approved}", used.len());
    if amended > 0 {
        seen.push_str(&format!(
            "; amended {}, each proposed and approved by signature",
            many(amended, "time")
        ));
    }
    Ok(Outcome::Valid(seen))
}

/// Every run opened here was bound to its manifest before, and each manifest's bytes and signers
/// are checked once.
fn manifests(case: &Case<'_>) -> Result<Outcome, Error> {
    let mut outcomes: BTreeMap<Digest, Outcome> = BTreeMap::new();
    for slice in &case.slices {
        let mut bound = BTreeSet::new();
        for line in &slice.lines {
            if let Some(one) = line.get::<ManifestBound>() {
                bound.insert((one.digest.0, one.agent.as_str()));
            } else if let Some(opened) = line.get::<RunOpened>().filter(|_| slice.selects(line)) {
                let named = opened.manifest.0;
                if !bound.contains(&(named, opened.agent.as_str())) {
                    return Err(Error::Unbound(named));
                }
                if let std::collections::btree_map::Entry::Vacant(vacant) = outcomes.entry(named) {
                    vacant.insert(manifest(case, &named)?);
                }
            }
        }
    }
    let missing = outcomes.values().find(|outcome| matches!(outcome, Outcome::Unverifiable(_)));
    Ok(match (missing, outcomes.len()) {
        (Some(missing), _) => missing.clone(),
        (None, 0) => Outcome::Valid("these entries open no run".into()),
        (None, 1) => outcomes.into_values().next().unwrap_or(Outcome::Valid(String::new())),
        (None, n) => Outcome::Valid(many(n, "manifest")),
    })
}

/// Compares the templates that the manifests name, and the rules of operators, with their digests; returns the
/// templates that are not here.
fn templates(case: &Case<'_>) -> Result<Vec<Digest>, Error> {
    for (name, digest) in contents::firewall_rules(&case.slices) {
        if case.files.get(&name).is_some_and(|rules| Digest::of(&[rules]) != digest) {
            return Err(Error::OtherRules(name));
        }
    }
    let mut missing = Vec::new();
    for (name, digest) in contents::templates(&case.slices, case.files) {
        match case.files.get(&name) {
            Some(text) if Digest::of(&[text]) == digest => {}
            Some(_) => return Err(Error::OtherTemplate(name)),
            None => missing.push(digest),
        }
    }
    Ok(missing)
}

fn manifest(case: &Case<'_>, digest: &Digest) -> Result<Outcome, Error> {
    let files = case.files;
    let first = (AGENT.to_owned(), AGENT_SIG.to_owned());
    let others = agent_files(digest);
    let is_it = |name: &String| files.get(name).is_some_and(|yaml| Digest::of(&[yaml]) == *digest);
    let (yaml_name, sig_name) =
        if case.scope == Scope::Run || is_it(&first.0) { first } else { others };
    let (yaml, signature) = match (files.get(&yaml_name), files.get(&sig_name)) {
        (Some(yaml), Some(signature)) => (yaml, signature),
        (None, None) => return Ok(Outcome::Unverifiable("its bytes are not here".into())),
        (Some(_), None) | (None, Some(_)) => return Err(Error::HalfManifest),
    };
    if Digest::of(&[yaml]) != *digest {
        return Err(Error::OtherManifest(yaml_name, *digest));
    }
    if case.trust.manifest.is_empty() {
        return Ok(Outcome::Valid("the bytes match; its signers are not checked".into()));
    }
    let signed = dsse::open(signature, MANIFEST_TYPE, &case.trust.manifest, 1)?;
    if signed.payload != yaml {
        return Err(Error::OtherBytes(sig_name));
    }
    Ok(Outcome::Valid(format!("signed by {}", signed.signers.join(", "))))
}

/// B4 and V1: makes everything that follows from the entries again and compares.
pub fn derived(case: &Case<'_>, report: &mut Report) {
    let materials = case.materials();
    let Some(payloads) = &case.payloads else { return };
    let exporter = Exporter::said(&case.predicate);
    report.put("B4", stated(case, &materials, payloads, &exporter));
    let mut kept = Files::default();
    payloads.write(&mut kept);
    let index = (PAYLOADS, kept.0.remove(PAYLOADS).unwrap_or_default());
    let form = PlaceForm::of(case.files.get(AGENT_RUN));
    let made = projection::files(case.scope, &materials, form);
    let differs = made
        .iter()
        .chain([&index])
        .find(|(name, bytes)| case.files.get(name) != Some(bytes.as_slice()));
    if let Some((name, _)) = differs {
        return report
            .invalid(Damage::new("V1", format!("`{name}` does not follow from the entries")));
    }
    if exporter.version != contents::VERSION {
        let (theirs, ours) = (&exporter.version, contents::VERSION);
        let why = format!(
            "`{PAGE}`, `{CONTROLS}`, `{GUIDE}` and `{SCHEMA}` were made by version {theirs} and cannot be made again \
             by {ours}: read none of them; the files made from the entries are as they should be"
        );
        return report.unverifiable("V1", why);
    }
    // WHY the last two: they come from this program, whatever the bundle has under their names.
    let made = [
        (CONTROLS, controls::controls(case.files)),
        (PAGE, page::page(case.files, &exporter)),
        (GUIDE, guide::GUIDE.as_bytes().to_vec()),
        (SCHEMA, schema::ENTRY_1.as_bytes().to_vec()),
    ];
    let differs = made.iter().find(|(name, bytes)| case.files.get(name) != Some(bytes.as_slice()));
    match differs {
        None => report.valid("V1", "made again, byte for byte"),
        Some((name, _)) => {
            let why = format!("`{name}` is not what version {} makes", exporter.version);
            report.invalid(Damage::new("V1", why));
        }
    }
}

/// B4: the statement matches the files; only the requester in its query is taken on trust.
fn stated(
    case: &Case<'_>,
    materials: &[BundleMaterial<'_>],
    payloads: &Payloads,
    exporter: &Exporter,
) -> Outcome {
    let recorded = statement::query_without_requester(&case.predicate);
    let Some(query) = Query::from_json(&recorded) else {
        return Outcome::Invalid("the statement's query is malformed".into());
    };
    let answered = match (&query, case.slices.first()) {
        (Query::Run(run), _) => materials.first().is_some_and(|material| material.run == run),
        (Query::Range { log, span }, Some(slice)) => {
            log == slice.origin() && Some(*span) == slice.span
        }
        // R2 checks the chains against the query.
        (Query::Population(_), _) => true,
        (Query::Range { .. }, None) => false,
    };
    if query.scope() != case.scope || !answered {
        return Outcome::Invalid("the bundle is not what the statement's query asks for".into());
    }
    let (slices, files) = (case.slices.as_slice(), case.files);
    let subject = Subject { query: &query, slices, materials, payloads, files };
    if statement::predicate(&subject, exporter) == case.predicate {
        Outcome::Valid("recomputed".into())
    } else {
        Outcome::Invalid("the statement says other things than the entries".into())
    }
}

/// Lists what stays unproven although every check holds.
pub fn unproven(case: &Case<'_>, report: &mut Report) {
    let trust = case.trust;
    let mut say = |text: &str| report.not_proven.push(text.to_owned());
    if trust.policies.is_empty() {
        say("that the policy is one you approved: the trust file names none");
    }
    if trust.manifest.is_empty() {
        say("that the manifest is signed by a key you trust: the trust file names none");
    }
    let bound = |binding: Binding| {
        let mut opened = case.slices.iter().flat_map(ChainSlice::selected);
        opened.any(|line| line.get::<RunOpened>().is_some_and(|run| run.binding == binding))
    };
    let lines = || case.slices.iter().flat_map(ChainSlice::selected);
    let observed = lines().any(is_observed);
    if bound(Binding::Claimed) {
        say(page::claimed(observed));
    }
    if observed {
        say(page::NOT_OBSERVED);
    }
    if bound(Binding::Unclaimed) {
        say("which model and instructions ran: the agent claimed none");
    }
    let mut selected = case.slices.iter().flat_map(ChainSlice::selected);
    if selected.any(|line| line.is(Kind::PostureObserved)) {
        say(
            "that agents had no way past the gate: only their own reports of their isolation are recorded",
        );
    }
    for (run, recording, at) in case.slices.iter().flat_map(ChainSlice::selected).filter_map(forked)
    {
        say(&format!(
            "what its agent was answered before its first call: the run goes on from step {at} of run {run}, \
             as stated by the recording {recording}"
        ));
    }
    let states: [(&str, Is); 6] = [
        ("they are withheld", |p| matches!(p, Payload::Withheld(WithheldReason::Unsaid))),
        ("nothing of the run was stored", |p| {
            matches!(p, Payload::Withheld(WithheldReason::Incognito))
        }),
        ("they are encrypted, and the exporter had no key", |p| {
            matches!(p, Payload::Withheld(WithheldReason::Encrypted))
        }),
        ("what is stored was changed", |p| matches!(p, Payload::Withheld(WithheldReason::Damaged))),
        ("they were erased", |p| matches!(p, Payload::Erased { .. })),
        ("members are hidden", |p| matches!(p, Payload::Redacted { .. })),
    ];
    for (why, wanted) in states {
        let payloads = case.payloads.iter().flat_map(|payloads| payloads.0.values());
        let found = payloads.filter(|payload| wanted(payload)).count();
        if found > 0 {
            say(&format!("the content of {}: {why}", many(found, "payload")));
        }
    }
    uncovered(case).iter().for_each(|tail| say(tail));
    if trust.now.is_none() {
        say("that no entry is dated in the future: no time was given to compare with");
    }
    report.unenforced = case.materials().iter().map(BundleMaterial::unenforced_count).sum();
}

/// The most answers without a recorded end that a report names.
const UNCOVERED_MAX: usize = 8;

/// The answers that began to leave before the gate ended, and how much of each is recorded.
fn uncovered(case: &Case<'_>) -> Vec<String> {
    let materials = case.materials();
    let calls = materials.iter().flat_map(|material| {
        let covered = |call: &ProjectedCall<'_>| Some((call.id.clone(), call.covered_bytes()?));
        material.calls().iter().filter_map(covered).collect::<Vec<_>>()
    });
    let all: Vec<_> = calls.collect();
    let one = |(call, bytes): &(CallId, u64)| {
        format!("all that left of the answer of call `{call}`: {}", page::uncovered(*bytes))
    };
    let mut named: Vec<String> = all.iter().take(UNCOVERED_MAX).map(one).collect();
    let more = all.len().saturating_sub(UNCOVERED_MAX);
    if more > 0 {
        named.push(format!("all that left of the answers of {}", many(more, "more call")));
    }
    named
}

/// For a run that continues from another one: that run, the recording and the step.
fn forked(line: &EntryLine) -> Option<(RunId, TaggedDigest, u64)> {
    let replay = line.get::<RunOpened>()?.replay.as_ref()?;
    Some((replay.run?, replay.recording?, replay.at?.get()))
}
