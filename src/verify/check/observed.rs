//! P6: every decision that was not enforced came from layers in observe mode only.

use crate::record::Role;
use crate::trust::SKEW_MILLIS;
use std::collections::BTreeMap;

use serde::Deserialize;

use super::case::Case;
use super::input::Time;
use super::report::{Outcome, Report};
use crate::bundle::Files;
use crate::domain::digest::Digest;
use crate::domain::json::{self, Json, Limits};
use crate::domain::tier::Tier;
use crate::domain::time::Timestamp;
use crate::entries::EntryLine;
use crate::payloads::Payload;
use crate::policy::bundle::meta_of_archive;
use crate::policy::fault;
use crate::projection::{BundleMaterial, unenforced};

/// Why a decision that was not enforced should have been.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("the entry names no policy")]
    NoPolicy,
    #[error(transparent)]
    Policy(#[from] fault::Error),
    #[error("not enforced, although no layer of the policy was in observe mode at {0}")]
    NoLayer(Timestamp),
    #[error("the policy saw different layers in observe mode from the ones in its bundle")]
    Layers,
    #[error("the entry is not a decision")]
    NoDecision,
    #[error("not enforced, although the tool is irreversible")]
    Irreversible,
    #[error("not enforced, and no reason is recorded")]
    NoReason,
    #[error("not enforced, although `{0}` belongs to no layer in observe mode")]
    Rule(String),
    #[error("not enforced, although no policy was evaluated")]
    NoInput,
    #[error("the policy's input: {0}")]
    ObservedInput(#[from] json::Error),
    #[error("the policy's input has no time")]
    NoTime,
    #[error("the policy saw the time {seen}, and the entry is of {recorded}")]
    Time { seen: Timestamp, recorded: Timestamp },
}

/// The finding about one decision.
enum Observation {
    /// The end of each layer's observation.
    Observed(BTreeMap<&'static str, Timestamp>),
    /// The policy's bytes are not in the bundle.
    Missing(Digest),
}

/// P6: checks every decision that was not enforced against the policy it names.
pub fn check(case: &Case<'_>, report: &mut Report) {
    report.put("P6", enforced(case.files, &case.materials()));
}

fn enforced(files: &Files, materials: &[BundleMaterial<'_>]) -> Outcome {
    let mut layers = BTreeMap::new();
    let mut calls = 0_usize;
    for material in materials {
        for line in material.of_run().filter(|line| unenforced(line)) {
            calls = calls.saturating_add(1);
            match one(files, material, line) {
                Ok(Observation::Observed(found)) => layers.extend(found),
                Ok(Observation::Missing(policy)) => {
                    let why =
                        format!("the bundle does not include the bytes of {}", policy.prefixed());
                    return Outcome::Unverifiable(why);
                }
                Err(why) => return Outcome::Invalid(format!("seq {}: {why}", line.entry.seq)),
            }
        }
    }
    if calls == 0 {
        return Outcome::Valid("every decision was enforced".into());
    }
    let layers: Vec<String> =
        layers.iter().map(|(layer, until)| format!("{layer} until {until}")).collect();
    let total: usize = materials.iter().map(BundleMaterial::calls_count).sum();
    let observing = layers.join(", ");
    Outcome::Valid(format!(
        "{calls} of {total} calls were not enforced; layers in observe mode: {observing}"
    ))
}

fn one(
    files: &Files,
    material: &BundleMaterial<'_>,
    line: &EntryLine,
) -> Result<Observation, Error> {
    let draft = &line.entry.draft;
    let policy = draft.policy.ok_or(Error::NoPolicy)?;
    let carried = files.0.iter().filter(|(name, _)| name.starts_with("policy/"));
    let mut carried = carried.map(|(_, bytes)| bytes).filter(|b| Digest::of(&[b]) == policy);
    let Some(archive) = carried.next() else { return Ok(Observation::Missing(policy)) };
    let meta = meta_of_archive(archive)?;
    let at = judged_at(material, line)?;
    let observing: BTreeMap<_, _> = meta.enforcement.observing(at.earliest).into_iter().collect();
    if observing.is_empty() {
        return Err(Error::NoLayer(line.entry.ts));
    }
    if at
        .layers
        .is_some_and(|names| !names.iter().map(String::as_str).eq(observing.keys().copied()))
    {
        return Err(Error::Layers);
    }
    let decision = line.decision().ok_or(Error::NoDecision)?;
    if decision.tier.is_none_or(|tier| tier == Tier::T3) {
        return Err(Error::Irreversible);
    }
    let reasons = decision.reasons;
    let verdict = draft.verdict.map_or("", crate::domain::decision::Verdict::as_str);
    if reasons.is_empty() {
        return Err(Error::NoReason);
    }
    for reason in reasons {
        let rule = reason.rule.split(' ').next().unwrap_or_default();
        let is_observed =
            observing.keys().any(|layer| rule == format!("wicketgate.{layer}.{verdict}"));
        let silent = verdict == "deny" && rule == "wicketgate.decision";
        if !(is_observed || silent && reason.detail == "no_allow") {
            return Err(Error::Rule(rule.to_owned()));
        }
    }
    Ok(Observation::Observed(observing))
}

/// The earliest time of the decision, and the observing layers that the policy saw.
struct JudgedAt {
    earliest: Timestamp,
    layers: Option<Vec<String>>,
}

/// The part of the policy's input with time and layers.
#[derive(Deserialize)]
struct ObservedInput {
    time: Time,
    #[serde(default)]
    observe: Vec<String>,
}

/// From the recorded input if it is disclosed, else from the entry's own time.
fn judged_at(material: &BundleMaterial<'_>, line: &EntryLine) -> Result<JudgedAt, Error> {
    let ts = line.entry.ts;
    let input = line.entry.draft.committed(Role::PolicyInput);
    let input = input.ok_or(Error::NoInput)?;
    let Some(Payload::Opened { body, .. }) = material.payloads.0.get(&input.c.0) else {
        let earliest = Timestamp::from_millis(ts.millis().saturating_sub(SKEW_MILLIS));
        return Ok(JudgedAt { earliest, layers: None });
    };
    let input: ObservedInput =
        Json::parse(body, &Limits::FILE)?.read().map_err(|_| Error::NoTime)?;
    let at = input.time.rfc3339;
    if at.millis().abs_diff(ts.millis()) > SKEW_MILLIS.unsigned_abs() {
        return Err(Error::Time { seen: at, recorded: ts });
    }
    Ok(JudgedAt { earliest: at, layers: Some(input.observe) })
}
