//! P3 and A1, for time: no policy decided, and no run was opened, outside the validity that its
//! signers set.

use std::collections::BTreeMap;

use super::case::Case;
use crate::bundle::{AGENT, agent_files};
use crate::domain::digest::Digest;
use crate::domain::id::Seq;
use crate::domain::time::Timestamp;
use crate::entries::EntryLine;
use crate::entries::approved::LATE_MILLIS;
use crate::policy::bundle::meta_of_archive;
use crate::record::Kind;
use crate::record::run::RunOpened;
use crate::yaml::Document;

/// An entry outside the validity of its policy or manifest.
#[derive(Debug, thiserror::Error)]
#[error("seq {seq}: {what} holds from {} until {}", shown(.window.from), shown(.window.until))]
pub(super) struct Outside {
    seq: Seq,
    /// `its policy` or `its manifest`.
    what: &'static str,
    window: Window,
}

fn shown(end: Option<Timestamp>) -> String {
    end.map_or_else(|| "always".into(), |at| at.to_string())
}

/// The start and end of a validity; either may be open.
#[derive(Clone, Copy, Debug)]
struct Window {
    from: Option<Timestamp>,
    until: Option<Timestamp>,
}

impl Window {
    /// Whether an entry at this time is inside. It may stand a moment after the end, because the
    /// gate decides first and writes then.
    fn has(self, at: Timestamp) -> bool {
        let in_grace = |until: Timestamp| at.millis() < until.millis().saturating_add(LATE_MILLIS);
        self.from.is_none_or(|from| from <= at) && self.until.is_none_or(in_grace)
    }

    fn refuse(self, line: &EntryLine, what: &'static str) -> Result<(), Outside> {
        if self.has(line.entry.ts) {
            return Ok(());
        }
        Err(Outside { seq: line.entry.seq, what, window: self })
    }
}

/// Checks every activation, and every call that ran or waited, against the validity of its policy.
/// P5 reports a policy whose validity is unreadable, because it cannot be evaluated.
pub(super) fn policies(case: &Case<'_>) -> Result<(), Outside> {
    let files = case.files.0.iter().filter(|(name, _)| name.starts_with("policy/"));
    let windows: BTreeMap<Digest, Window> = files
        .filter_map(|(_, archive)| {
            let meta = meta_of_archive(archive).ok()?;
            let window = Window { from: meta.not_before, until: meta.not_after };
            Some((Digest::of(&[archive]), window))
        })
        .collect();
    let kinds = [Kind::PolicyActivated, Kind::CallAuthorized, Kind::CallHeld];
    for line in case.slices.iter().flat_map(|slice| &slice.lines) {
        let policy = line.entry.draft.policy.filter(|_| kinds.iter().any(|kind| line.is(*kind)));
        if let Some(window) = policy.and_then(|policy| windows.get(&policy)) {
            window.refuse(line, "its policy")?;
        }
    }
    Ok(())
}

/// Checks the opening of every run against the validity of its manifest; returns how many manifests
/// the bundle lacks.
pub(super) fn manifests(case: &Case<'_>) -> Result<usize, Outside> {
    let mut windows: BTreeMap<Digest, Option<Window>> = BTreeMap::new();
    for line in case.slices.iter().flat_map(|slice| &slice.lines) {
        let Some(opened) = line.get::<RunOpened>() else { continue };
        let digest = opened.manifest.0;
        let window = *windows.entry(digest).or_insert_with(|| of_manifest(case, &digest));
        if let Some(window) = window {
            window.refuse(line, "its manifest")?;
        }
    }
    Ok(windows.values().filter(|window| window.is_none()).count())
}

/// `spec.validity` of the manifest of this digest, if the bundle has it.
fn of_manifest(case: &Case<'_>, digest: &Digest) -> Option<Window> {
    let names = [AGENT.to_owned(), agent_files(digest).0];
    let mut files = names.iter().filter_map(|name| case.files.get(name));
    let yaml = files.find(|yaml| Digest::of(&[yaml]) == *digest)?;
    let document = Document::parse(yaml, AGENT).ok()?;
    let validity = document.value.pointer("/spec/validity")?;
    let end = |name: &str| Timestamp::parse_short(validity.get(name)?.as_str()?);
    Some(Window { from: Some(end("not_before")?), until: Some(end("not_after")?) })
}
