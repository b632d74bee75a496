//! S3–S5, P1–P3, A1, B4 and V1: the run, what it carried, and the files made from it.

use std::collections::BTreeSet;

use super::report::{Outcome, Report};
use crate::crypto::dsse;
use crate::crypto::note::Checkpoint;
use crate::domain::commitment::opens;
use crate::domain::digest::Digest;
use crate::domain::id::{RunId, Seq};
use crate::domain::json::Json;
use crate::evidence::bundle::{
    AGENT, AGENT_RUN, AGENT_SIG, DECISION, FLEET_CHECKPOINT, FLEET_ENTRIES, Files, PAGE, POLICY, TOOL_TRACE,
};
use crate::evidence::page;
use crate::evidence::payloads::{Payload, Payloads, Why};
use crate::evidence::projection::{self, Material, decides};
use crate::evidence::statement::{self, Exporter};
use crate::evidence::trust::Trust;
use crate::ledger::entry::Kind;
use crate::ledger::verify::runs::Run;
use crate::ledger::verify::{Damage, Line};

/// DSSE payload type of a manifest.
const MANIFEST_TYPE: &str = "application/vnd.wicketgate.manifest.v1+yaml";

/// S3, S4, S5 and P2; the run the bundle is about.
pub fn run(lines: &[Line], trust: &Trust, report: &mut Report) -> Option<RunId> {
    const IDS: [&str; 4] = ["S3", "S4", "S5", "P2"];
    let walked = walk(lines, trust);
    match walked {
        Err(damage) => {
            let failed = damage.check;
            report.invalid(damage);
            for id in IDS.into_iter().filter(|id| *id != failed) {
                report.unverifiable(id, format!("not decided, because {failed} fails"));
            }
            None
        }
        Ok((id, run)) => {
            report.valid("S3", format!("{} entries", run.entries()));
            if run.sealed() {
                report.valid("S4", "complete");
                report.valid("S5", "every call has ended");
            } else {
                report.unverifiable("S4", "the run is OPEN: more may have happened since");
                report.unverifiable("S5", format!("{} calls are open", run.open_calls()));
            }
            report.valid("P2", "recomputed from the commitments");
            Some(id)
        }
    }
}

fn walk(lines: &[Line], trust: &Trust) -> Result<(RunId, Run), Damage> {
    let mut runs = lines.iter().filter_map(|line| line.entry.run.as_ref().map(|link| link.run));
    let id = runs.next().ok_or_else(|| Damage::new("S3", "no run"))?;
    if let Some(other) = runs.find(|other| *other != id) {
        return Err(Damage::new("S3", format!("entries of a second run, {other}")));
    }
    if let Some(wanted) = trust.run.filter(|wanted| *wanted != id) {
        return Err(Damage::new("S3", format!("the bundle is about run {id}, not {wanted}")));
    }
    let context =
        [Kind::ChainGenesis, Kind::WriterStarted, Kind::PolicyActivated, Kind::ManifestBound];
    let mut run = Run::default();
    for line in lines {
        if line.entry.run.is_some() {
            run.accept(&id, line)
                .map_err(|d| Damage::new(d.check, format!("seq {}: {}", line.entry.seq, d.why)))?;
        } else if line.unknown.is_none() && !context.iter().any(|kind| line.is(*kind)) {
            let why = format!("seq {}: `{}` does not belong here", line.entry.seq, line.kind());
            return Err(Damage::new("S3", why));
        }
    }
    Ok((id, run))
}

/// P1, P3 and A1.
pub fn carried(files: &Files, material: &Material<'_>, trust: &Trust, report: &mut Report) {
    match opened(files, material) {
        Ok(outcome) => report.put("P1", outcome),
        Err(why) => report.put("P1", Outcome::Invalid(why)),
    }
    match policies(files, material, trust) {
        Ok(outcome) => report.put("P3", outcome),
        Err(why) => report.put("P3", Outcome::Invalid(why)),
    }
    match manifest(files, material, trust) {
        Ok(outcome) => report.put("A1", outcome),
        Err(why) => report.put("A1", Outcome::Invalid(why)),
    }
}

fn opened(files: &Files, material: &Material<'_>) -> Result<Outcome, String> {
    let mut committed = BTreeSet::new();
    let opening = material.of_run().find(|line| line.is(Kind::RunOpened));
    let incognito = opening.is_some_and(|line| line.entry.draft.data.get("incognito").is_some());
    for line in material.of_run() {
        for said in &line.entry.draft.commit {
            committed.insert(said.c);
            let name = said.c.hex();
            let other = |why: &str| {
                format!("payload {name} is not what seq {} commits to{why}", line.entry.seq)
            };
            match material.payloads.0.get(&said.c) {
                None => return Err(format!("nothing is said about payload {name}")),
                Some(Payload::Withheld(Why::Incognito)) if !incognito => {
                    return Err(format!("payload {name} is called incognito, and the run is not"));
                }
                Some(Payload::Withheld(_)) => {}
                Some(Payload::Erased { log, seq }) => {
                    erased(files, material.origin, &said.c, log, *seq)?;
                }
                Some(Payload::Redacted { role, parts }) => {
                    parts.open(&said.c).map_err(|why| other(&format!(": {why}")))?;
                    if *role != said.role {
                        return Err(other(": another role"));
                    }
                }
                Some(Payload::Opened { salt, role, body, .. }) => {
                    let len = u64::try_from(body.len()).unwrap_or(u64::MAX);
                    let opens = opens(&said.c, salt, body).is_some();
                    if !opens || len != said.len || *role != said.role {
                        return Err(other(""));
                    }
                }
            }
        }
    }
    if let Some(stray) = material.payloads.0.keys().find(|c| !committed.contains(*c)) {
        return Err(format!("stray payload {}", stray.hex()));
    }
    let count = |wanted: fn(&Payload) -> bool| {
        material.payloads.0.values().filter(|payload| wanted(payload)).count()
    };
    let mut said =
        format!("{} of {} opened", count(|p| matches!(p, Payload::Opened { .. })), committed.len());
    let states: [(&str, fn(&Payload) -> bool); 2] = [
        ("redacted", |p| matches!(p, Payload::Redacted { .. })),
        ("erased", |p| matches!(p, Payload::Erased { .. })),
    ];
    for (word, wanted) in states {
        let found = count(wanted);
        if found > 0 {
            said.push_str(&format!(", {found} {word}"));
        }
    }
    Ok(Outcome::Valid(said))
}

/// An erased payload is one that the fleet log of the bundle says was erased; whether that log is to
/// be believed is F1's to say.
fn erased(files: &Files, log: &str, c: &Digest, fleet: &str, seq: Seq) -> Result<(), String> {
    let name = c.hex();
    let no = || format!("payload {name} is called erased, and entry {seq} of {fleet} does not say so");
    let note = files.get(FLEET_CHECKPOINT).and_then(|note| std::str::from_utf8(note).ok());
    if note.and_then(|note| note.lines().next()) != Some(fleet) {
        return Err(no());
    }
    let lines = files.get(FLEET_ENTRIES).unwrap_or_default();
    let lines = lines.split(|b| *b == b'\n').filter_map(|line| Line::read(line).ok());
    let mut found = lines.filter(|line| line.is(Kind::PayloadErased) && line.entry.seq == seq);
    let line = found.next().ok_or_else(no)?;
    let list = line.entry.draft.data.get("c").and_then(Json::as_array).unwrap_or_default();
    let named = list.iter().any(|said| said.as_str() == Some(name.as_str()));
    if named && line.text("log") == Some(log) { Ok(()) } else { Err(no()) }
}

fn policies(files: &Files, material: &Material<'_>, trust: &Trust) -> Result<Outcome, String> {
    let none = Digest::of(&[]);
    let mut activated = BTreeSet::new();
    let mut used = BTreeSet::new();
    for line in material.lines {
        let Some(policy) = line.entry.draft.policy else { continue };
        if line.is(Kind::PolicyActivated) {
            activated.insert(policy);
        } else if policy == none {
            if !line.is(Kind::CallDenied) {
                return Err(format!("seq {} is no denial and names no policy", line.entry.seq));
            }
        } else if decides(line) {
            if !activated.contains(&policy) {
                return Err(format!("seq {}: the policy was not activated before", line.entry.seq));
            }
            used.insert(policy);
        }
    }
    let mut there = BTreeSet::new();
    for (name, bytes) in files.0.iter().filter(|(name, _)| name.starts_with("policy/")) {
        let digest = Digest::of(&[bytes]);
        let named = name == POLICY || *name == format!("policy/{}.tar", digest.hex());
        if !named || !activated.contains(&digest) {
            return Err(format!("`{name}` is not a policy that was in force"));
        }
        there.insert(digest);
    }
    if !trust.policies.is_empty()
        && let Some(other) = used.iter().find(|policy| !trust.policies.contains(policy))
    {
        return Err(format!("{} is not an approved policy", other.prefixed()));
    }
    let missing: Vec<String> = used.difference(&there).map(Digest::prefixed).collect();
    if !missing.is_empty() {
        return Ok(Outcome::Unverifiable(format!(
            "the bytes of {} are not here",
            missing.join(", ")
        )));
    }
    let approved = if trust.policies.is_empty() { "in force" } else { "in force and approved" };
    Ok(Outcome::Valid(format!("{} used, {approved}", used.len())))
}

fn manifest(files: &Files, material: &Material<'_>, trust: &Trust) -> Result<Outcome, String> {
    let opened = material.of_run().next().ok_or("no run")?;
    let digest = opened.text("manifest").and_then(Digest::parse).ok_or("no manifest is named")?;
    let bound = material.lines.iter().any(|line| {
        line.is(Kind::ManifestBound)
            && line.entry.seq < opened.entry.seq
            && line.text("digest").and_then(Digest::parse) == Some(digest)
            && line.text("agent") == opened.text("agent")
    });
    if !bound {
        return Err(format!("{} was not bound before the run", digest.prefixed()));
    }
    let (yaml, signature) = match (files.get(AGENT), files.get(AGENT_SIG)) {
        (Some(yaml), Some(signature)) => (yaml, signature),
        (None, None) => return Ok(Outcome::Unverifiable("its bytes are not here".into())),
        (Some(_), None) | (None, Some(_)) => return Err("manifest or signature is missing".into()),
    };
    if Digest::of(&[yaml]) != digest {
        return Err(format!("`{AGENT}` is not {}", digest.prefixed()));
    }
    if trust.manifest.is_empty() {
        return Ok(Outcome::Valid("the bytes match; its signers are not checked".into()));
    }
    let signed =
        dsse::open(signature, MANIFEST_TYPE, &trust.manifest, 1).map_err(|e| e.to_string())?;
    if signed.payload != yaml {
        return Err(format!("`{AGENT_SIG}` signs other bytes"));
    }
    Ok(Outcome::Valid(format!("signed by {}", signed.signers.join(", "))))
}

/// B4 and V1: everything that follows from the entries is made again and compared.
pub fn derived(
    files: &Files,
    material: &Material<'_>,
    checkpoint: &Checkpoint,
    predicate: &Json,
    report: &mut Report,
) {
    let said = |name| predicate.get("exporter").and_then(|e| e.get(name)).and_then(Json::as_str);
    let text = |name| said(name).unwrap_or_default().to_owned();
    let exporter = Exporter { version: text("version"), at: text("at") };
    if statement::predicate(material, checkpoint, &exporter) == *predicate {
        report.valid("B4", "recomputed");
    } else {
        report.invalid(Damage::new("B4", "the statement says other things than the entries"));
    }
    let made = [
        (AGENT_RUN, projection::agent_run(material)),
        (DECISION, projection::decisions(material)),
        (TOOL_TRACE, projection::tool_trace(material)),
    ];
    let differs = made.iter().find(|(name, bytes)| files.get(name) != Some(bytes.as_slice()));
    if let Some((name, _)) = differs {
        return report
            .invalid(Damage::new("V1", format!("`{name}` does not follow from the entries")));
    }
    if files.get(PAGE) == Some(page::page(material, checkpoint, &exporter).as_slice()) {
        return report.valid("V1", "made again, byte for byte");
    }
    if exporter.version == env!("CARGO_PKG_VERSION") {
        return report
            .invalid(Damage::new("V1", format!("`{PAGE}` does not follow from the entries")));
    }
    report.valid("V1", "the three JSON files, made again, byte for byte");
    let version = &exporter.version;
    report.not_proven.push(format!("`{PAGE}`: made by version {version}, not made again here"));
}

/// P1 before it is looked into: whether the payloads can be read at all.
pub fn payloads(files: &Files, report: &mut Report) -> Option<Payloads> {
    Payloads::read(files).map_err(|damage| report.invalid(damage)).ok()
}
