//! The files of a bundle. The exporter writes by this list, and the verifier refuses any other
//! file: it would appear under the signature without a check behind it.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::Value;

use super::approvals::{break_glass_lists, lists, order_lists, signed_files};
use super::bundle::{self, Files, agent_files, alone_file, approvers_files};
use super::payloads::{Payload, Payloads};
use super::projection::decides;
use super::scope::{ChainSlice, Scope};
use crate::domain::canonical;
use crate::domain::digest::Digest;
use crate::domain::id::Seq;
use crate::domain::json::Json;
use crate::record::run::RunOpened;
use crate::record::{HexDigest, Kind};
use crate::yaml::Document;

/// Version of the files made from the others (`report.html`, `controls.json`, `VERIFY.md`, the
/// schema): the program's version and a number that changes when they do. A verifier makes them
/// again for this version only.
pub const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "+bundle.7");

/// Paths by the entry or the size of the older head that they start from.
pub type Paths = BTreeMap<Seq, Vec<Digest>>;

/// The policy bundles present, by file name; the one that decided last first.
pub fn policies(slices: &[ChainSlice]) -> Vec<(String, Digest)> {
    let none = Digest::of(&[]);
    let mut found: Vec<Digest> = Vec::new();
    for slice in slices {
        for line in &slice.lines {
            let named = (slice.selects(line) && decides(line)) || line.is(Kind::PolicyActivated);
            if let Some(policy) = line.entry.draft.policy.filter(|p| named && *p != none) {
                found.retain(|seen| *seen != policy);
                found.push(policy);
            }
        }
    }
    let name = |(place, digest): (usize, Digest)| match place {
        0 => (bundle::POLICY.to_owned(), digest),
        _ => (format!("policy/{}.tar", digest.hex()), digest),
    };
    found.into_iter().rev().enumerate().map(name).collect()
}

/// The manifests present, by the names of their two files, in the order of the runs.
pub fn manifests(slices: &[ChainSlice]) -> Vec<((String, String), Digest)> {
    let mut found: Vec<Digest> = Vec::new();
    let opened =
        slices.iter().flat_map(ChainSlice::selected).filter_map(|line| line.get::<RunOpened>());
    for manifest in opened.map(|opened| opened.manifest.0) {
        found.extend((!found.contains(&manifest)).then_some(manifest));
    }
    let name = |(place, digest): (usize, Digest)| match place {
        0 => ((bundle::AGENT.to_owned(), bundle::AGENT_SIG.to_owned()), digest),
        _ => (agent_files(&digest), digest),
    };
    found.into_iter().enumerate().map(name).collect()
}

/// An entry of `spec.instructions`, as far as it names a template.
#[derive(Deserialize)]
struct InstructionForm {
    scope: String,
    sha256: String,
}

/// The templates that the manifests in these files name, by file name. A manifest whose bytes are not
/// here names none.
pub fn templates(slices: &[ChainSlice], files: &Files) -> BTreeMap<String, Digest> {
    let present = manifests(slices).into_iter().filter_map(|((name, _), digest)| {
        files.get(&name).filter(|yaml| Digest::of(&[yaml]) == digest)
    });
    let named = present.flat_map(templates_of);
    named.map(|digest| (bundle::template_file(&digest), digest)).collect()
}

/// The rules of operators that calls may have been searched with, by file name; the latest first.
pub fn firewall_rules(slices: &[ChainSlice]) -> Vec<(String, Digest)> {
    let mut found: Vec<Digest> = Vec::new();
    let lines = slices.iter().flat_map(ChainSlice::selected);
    for digest in lines.filter_map(|line| line.decision().and_then(|one| one.firewall)) {
        found.retain(|seen| *seen != digest);
        found.push(digest);
    }
    found.into_iter().rev().map(|digest| (bundle::firewall_file(&digest), digest)).collect()
}

/// The templates of instructions that a manifest names.
pub fn templates_of(yaml: &[u8]) -> Vec<Digest> {
    // What is no manifest of this form names none; no gate would have bound it.
    let Ok(document) = Document::parse(yaml, bundle::AGENT) else { return Vec::new() };
    let entries = document.value.pointer("/spec/instructions").and_then(Value::as_array);
    let entries =
        entries.into_iter().flatten().filter_map(|one| InstructionForm::deserialize(one).ok());
    let templates = entries.filter(|one| one.scope == "template");
    templates.filter_map(|one| Digest::parse(&one.sha256)).collect()
}

/// The lists of approvers present, by the names of their two files.
pub fn approvers(
    slices: &[ChainSlice],
    fleet: Option<&ChainSlice>,
) -> Vec<((String, String), Digest)> {
    let name = |(place, digest): (usize, Digest)| match place {
        0 => ((bundle::APPROVERS.to_owned(), bundle::APPROVERS_SIG.to_owned()), digest),
        _ => (approvers_files(&digest), digest),
    };
    let named = lists(slices).into_iter().enumerate().map(name);
    let other = break_glass_lists(slices).into_iter().chain(order_lists(slices, fleet));
    named.chain(other.map(|digest| (approvers_files(&digest), digest))).collect()
}

/// Every name that a file of this bundle may have. Anchors are counted from 0 without a gap.
pub fn names(
    scope: Scope,
    (slices, fleet): (&[ChainSlice], Option<&ChainSlice>),
    payloads: &Payloads,
    files: &Files,
) -> BTreeSet<String> {
    let mut all: BTreeSet<String> = FIXED.iter().map(|name| (*name).to_owned()).collect();
    all.extend((scope == Scope::Population).then(|| bundle::POPULATION.to_owned()));
    for slice in slices.iter().chain(fleet) {
        let folder = &slice.folder;
        let parts = [bundle::LINES, bundle::NOTE, bundle::PATHS, bundle::OLDER];
        all.extend(parts.iter().map(|part| format!("{folder}/{part}")));
        all.extend(slice.alone().into_iter().map(|seq| alone_file(folder, seq)));
        let spanned = slice.span.is_some() || slice.folder == bundle::FLEET;
        all.extend(spanned.then(|| format!("{folder}/{}", bundle::RANGE_PROOF)));
    }
    if fleet.is_some() {
        let stems = (0_u64..).map(|n| format!("anchors/{n}"));
        for stem in stems.take_while(|stem| files.get(&format!("{stem}.txt")).is_some()) {
            all.extend(["txt", "tsr", "consistency.json"].map(|kind| format!("{stem}.{kind}")));
        }
    }
    let opened = |(c, payload): (&Digest, &Payload)| match payload {
        Payload::Opened { .. } => Some(format!("payloads/{}.bin", c.hex())),
        Payload::Redacted { .. } | Payload::Erased { .. } | Payload::Withheld(_) => None,
    };
    all.extend(payloads.0.iter().filter_map(opened));
    all.extend(policies(slices).into_iter().map(|(name, _)| name));
    let pairs = manifests(slices).into_iter().chain(approvers(slices, fleet));
    all.extend(pairs.flat_map(|((one, other), _)| [one, other]));
    all.extend(templates(slices, files).into_keys());
    all.extend(firewall_rules(slices).into_iter().map(|(name, _)| name));
    all.extend(signed_files(slices, payloads).into_keys());
    all
}

const FIXED: [&str; 10] = [
    bundle::MANIFEST,
    bundle::ENVELOPE,
    bundle::AGENT_RUN,
    bundle::DECISION,
    bundle::TOOL_TRACE,
    bundle::PAYLOADS,
    bundle::PAGE,
    bundle::GUIDE,
    bundle::CONTROLS,
    bundle::SCHEMA,
];

/// A file of paths, each with its number.
#[derive(Debug, Deserialize)]
pub(crate) struct PathsForm {
    pub v: String,
    pub proofs: Vec<PathForm>,
}

/// One path: of an entry, or from an older head.
#[derive(Debug, Deserialize)]
pub(crate) struct PathForm {
    pub seq: Option<Seq>,
    pub old: Option<Seq>,
    pub path: Vec<Digest>,
}

/// A range proof.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RangeForm {
    pub v: String,
    pub from: Seq,
    pub to: Seq,
    pub size: Seq,
    pub left: Vec<HexDigest>,
    pub right: Vec<HexDigest>,
}

/// `consistency.json`: proofs that older heads are beginnings of the log.
pub fn consistency(paths: &Paths) -> Vec<u8> {
    let proofs = paths
        .iter()
        .map(|(old, path)| Json::object([("old", Json::from(*old)), ("path", hexes(path))]));
    canonical::bytes(&Json::object([
        ("v", Json::from("wicketgate/consistency/1")),
        ("proofs", proofs.collect::<Vec<_>>().into()),
    ]))
}

/// `inclusion.json`: the audit paths of entries outside the proven spans, in a tree of this size
/// and root.
pub fn inclusion(slice: &ChainSlice, (size, root): (Seq, &Digest), paths: &Paths) -> Vec<u8> {
    let lines = slice.lines.iter().filter(|line| slice.span.is_none() || !slice.selects(line));
    let proofs = lines.filter_map(|line| {
        let seq = line.entry.seq;
        let path = paths.get(&seq)?;
        Some(Json::object([
            ("seq", Json::from(seq)),
            ("leaf", Json::from(line.leaf.hex())),
            ("path", hexes(path)),
        ]))
    });
    let proofs: Vec<Json> = proofs.collect();
    canonical::bytes(&Json::object([
        ("v", Json::from("wicketgate/inclusion/1")),
        ("size", Json::from(size)),
        ("root", Json::from(root.hex())),
        ("proofs", proofs.into()),
    ]))
}

/// Hashes as a file has them.
pub fn hexes(path: &[Digest]) -> Json {
    path.iter().map(|digest| Json::from(digest.hex())).collect::<Vec<_>>().into()
}
