//! The in-toto statement: which files the bundle has, and the predicate about them.

use serde::{Deserialize, Serialize};

use super::bundle::{ENVELOPE, FLEET_CHECKPOINT, Files, MANIFEST, OLDER};
use super::payloads::{Payload, Payloads};
use super::projection::{self, BundleMaterial};
use super::query::Query;
use super::scope::{ChainSlice, Scope};
use crate::domain::canonical;
use crate::domain::digest::Digest;
use crate::domain::json::Json;
use crate::record::HexDigest;

/// DSSE payload type of `manifest.dsse.json`.
pub const PAYLOAD_TYPE: &str = "application/vnd.in-toto+json";
/// `_type` of the statement.
pub const STATEMENT: &str = "https://in-toto.io/Statement/v1";
/// `predicateType` of the statement.
pub const PREDICATE: &str = "https://wicketgate.dev/evidence-bundle/v1";

/// The signed form of a statement (in-toto v1).
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StatementForm {
    /// [`STATEMENT`].
    #[serde(rename = "_type")]
    pub kind: String,
    /// The type of the predicate.
    #[serde(rename = "predicateType")]
    pub predicate_type: String,
    /// The predicate about the subjects.
    pub predicate: Json,
    /// The subjects.
    pub subject: Vec<SubjectForm>,
}

/// One file, or another thing with a digest.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SubjectForm {
    /// Its name.
    pub name: String,
    /// Its digest.
    pub digest: DigestForm,
}

/// The one digest that our subjects have.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DigestForm {
    /// SHA-256.
    pub sha256: HexDigest,
}

impl StatementForm {
    /// A statement of this kind about these subjects.
    pub fn of(
        predicate_type: &str,
        predicate: Json,
        subjects: impl Iterator<Item = (String, Digest)>,
    ) -> Self {
        let subject = |(name, digest)| {
            let digest = DigestForm { sha256: HexDigest(digest) };
            SubjectForm { name, digest }
        };
        Self {
            kind: STATEMENT.to_owned(),
            predicate_type: predicate_type.to_owned(),
            predicate,
            subject: subjects.map(subject).collect(),
        }
    }

    /// The bytes that are signed.
    pub fn bytes(&self) -> Vec<u8> {
        canonical::bytes(&Json::of(self))
    }
}

/// What an exporter states about itself: the only part of the predicate that is not derived from
/// the files.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Exporter {
    /// Version of the program.
    pub version: String,
    /// When it exported.
    pub at: String,
    /// SHA-256 of the program's file, in hex; empty if it could not be read.
    pub sha256: String,
    /// The requester.
    pub requester: String,
}

impl Exporter {
    /// The exporter that a predicate names.
    pub fn said(predicate: &Json) -> Self {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Said {
            exporter: Program,
            query: Requester,
        }
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Program {
            version: String,
            at: String,
            sha256: String,
        }
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Requester {
            requested_by: String,
        }
        let Said { exporter, query } = predicate.read().unwrap_or_default();
        let Program { version, at, sha256 } = exporter;
        Self { version, at, sha256, requester: query.requested_by }
    }
}

/// The query that a predicate names, without the requester; null without one.
pub fn query_without_requester(predicate: &Json) -> Json {
    let mut query = query(predicate).unwrap_or_default();
    if let Json::Object(members) = &mut query {
        members.remove("requested_by");
    }
    query
}

/// The query that a predicate or a file of counts names.
#[must_use]
pub fn query(document: &Json) -> Option<Json> {
    #[derive(Deserialize)]
    struct Asked {
        query: Json,
    }
    document.read().ok().map(|Asked { query }| query)
}

/// What the statement is about.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// The query.
    pub query: &'a Query,
    /// The chains.
    pub slices: &'a [ChainSlice],
    /// The selected runs in them.
    pub materials: &'a [BundleMaterial<'a>],
    /// What opens their commitments.
    pub payloads: &'a Payloads,
    /// All files except the statement itself.
    pub files: &'a Files,
}

/// The statement over all files but itself and its envelope.
pub fn statement(files: &Files, predicate: Json) -> Vec<u8> {
    let subjects = files.0.iter();
    let subjects = subjects.filter(|(name, _)| !matches!(name.as_str(), MANIFEST | ENVELOPE));
    let subjects = subjects.map(|(name, bytes)| (name.clone(), Digest::of(&[bytes])));
    StatementForm::of(PREDICATE, predicate, subjects).bytes()
}

/// The predicate about the files: derived from them, so that a verifier can derive it again.
pub fn predicate(subject: &Subject<'_>, exporter: &Exporter) -> Json {
    let field =
        |name: &'static str, value: &str| (!value.is_empty()).then(|| (name, Json::from(value)));
    let mut query = subject.query.to_json();
    if let Json::Object(members) = &mut query {
        let by = field("requested_by", &exporter.requester);
        members.extend(by.map(|(name, value)| (name.to_owned(), value)));
    }
    let mut program = vec![
        ("name", Json::from("wicketgate")),
        ("version", Json::from(exporter.version.as_str())),
        ("at", Json::from(exporter.at.as_str())),
    ];
    program.extend(field("sha256", &exporter.sha256));
    let mut members = vec![
        ("query", query),
        ("counts", counts(subject)),
        ("levels_expected", levels(subject.files)),
        ("exporter", Json::object(program)),
    ];
    members.extend(disclosure(subject));
    match subject.query {
        Query::Run(_) => members.extend(of_run(subject)),
        Query::Range { .. } => {
            members.extend(subject.slices.first().map(of_chain).unwrap_or_default());
        }
        Query::Population(_) => {
            let chains = subject.slices.iter().map(|slice| Json::object(of_chain(slice)));
            members.push(("chains", chains.collect::<Vec<_>>().into()));
        }
    }
    Json::object(members)
}

fn number(n: usize) -> Json {
    Json::from(u64::try_from(n).unwrap_or(u64::MAX))
}

fn counts(subject: &Subject<'_>) -> Json {
    let Subject { slices, materials, payloads, .. } = subject;
    let of_runs = || materials.iter().flat_map(BundleMaterial::of_run);
    let opened = payloads.0.values().filter(|p| matches!(p, Payload::Opened { .. })).count();
    let mut counts = vec![
        ("entries", number(slices.iter().map(|slice| slice.lines.len()).sum())),
        ("run_entries", number(of_runs().count())),
        ("calls", number(materials.iter().map(BundleMaterial::calls_count).sum())),
        ("decisions", number(of_runs().filter(|line| projection::decides(line)).count())),
        ("payloads", number(payloads.0.len())),
        ("opened", number(opened)),
    ];
    if subject.query.scope() != Scope::Run {
        counts.push(("runs", number(materials.len())));
        counts.push(("chains", number(slices.len())));
    }
    let unenforced: usize = materials.iter().map(BundleMaterial::unenforced_count).sum();
    counts.extend((unenforced > 0).then(|| ("unenforced", number(unenforced))));
    Json::object(counts)
}

/// Payloads by how much of them is disclosed: their commitments, or only counts for many runs.
fn disclosure(subject: &Subject<'_>) -> Vec<(&'static str, Json)> {
    let in_state = |wanted: fn(&Payload) -> bool| {
        let list = subject.payloads.0.iter().filter(|(_, payload)| wanted(payload));
        list.map(|(c, _)| Json::from(c.hex())).collect::<Vec<_>>()
    };
    let withheld = in_state(|p| matches!(p, Payload::Withheld(_)));
    let withheld = match subject.query.scope() {
        Scope::Run => withheld.into(),
        Scope::Range | Scope::Population => number(withheld.len()),
    };
    vec![
        ("erasures", in_state(|p| matches!(p, Payload::Erased { .. })).into()),
        ("redactions", redactions(subject.payloads)),
        ("withheld", withheld),
    ]
}

/// Which payloads are disclosed in part, and how much: neither names nor values of the rest.
fn redactions(payloads: &Payloads) -> Json {
    let mut list = Vec::new();
    for (c, payload) in &payloads.0 {
        let Payload::Redacted { role, parts } = payload else { continue };
        let open = parts.open(c).unwrap_or_default();
        list.push(Json::object([
            ("commitment", Json::from(c.hex())),
            ("role", Json::from(role.as_str())),
            ("opened", open.keys().map(|k| Json::from(k.as_str())).collect::<Vec<_>>().into()),
            ("hidden", number(parts.hidden.len())),
        ]));
    }
    list.into()
}

/// The levels that this bundle has the material for; the verifier decides which level it reaches.
fn levels(files: &Files) -> Json {
    let mut levels = vec![Json::from("L0"), Json::from("L1")];
    if files.0.keys().any(|name| name.rsplit('/').next() == Some(OLDER)) {
        levels.push(Json::from("L2"));
    }
    // The log's own signature and at least one more line: a witness's.
    let lines =
        |note: &[u8]| note.windows(4).filter(|four| *four == "\n\u{2014}".as_bytes()).count();
    let head = |name: &str| {
        name == FLEET_CHECKPOINT || (name.starts_with("anchors/") && name.ends_with(".txt"))
    };
    if files.0.iter().any(|(name, note)| head(name) && lines(note) > 1) {
        levels.push(Json::from("L3"));
    }
    if files.0.keys().any(|name| name.starts_with("anchors/") && name.ends_with(".tsr")) {
        levels.push(Json::from("L4"));
    }
    levels.into()
}

fn of_run(subject: &Subject<'_>) -> Vec<(&'static str, Json)> {
    let Some(material) = subject.materials.first() else { return Vec::new() };
    let (first, last) = (material.of_run().next(), material.of_run().last());
    let seq = |line: Option<&crate::entries::EntryLine>| {
        Json::from(line.map_or(0, |line| line.entry.seq))
    };
    let mut members = subject.slices.first().map(of_chain).unwrap_or_default();
    members.push(("run", Json::from(material.run.to_string())));
    members.push(("status", Json::from(material.status())));
    members.push(("range", Json::object([("first", seq(first)), ("last", seq(last))])));
    members
}

fn of_chain(slice: &ChainSlice) -> Vec<(&'static str, Json)> {
    let chain = slice.lines.first().map(|line| line.entry.chain.to_string()).unwrap_or_default();
    let mut members = vec![("chain", Json::from(chain)), ("origin", Json::from(slice.origin()))];
    members.extend(slice.checkpoint.as_ref().map(|checkpoint| {
        let (size, root) = (Json::from(checkpoint.size), Json::from(checkpoint.root.hex()));
        ("checkpoint", Json::object([("size", size), ("root", root)]))
    }));
    members.extend(slice.span.map(|span| {
        ("range", Json::object([("from", Json::from(span.from)), ("to", Json::from(span.to))]))
    }));
    members
}
