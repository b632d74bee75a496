//! The in-toto statement: which files the bundle is, and what is said about them.

use super::bundle::{ENVELOPE, Files, MANIFEST};
use super::payloads::Payload;
use super::projection::{self, Material};
use crate::crypto::note::Checkpoint;
use crate::domain::canonical;
use crate::domain::digest::Digest;
use crate::domain::json::Json;

/// DSSE payload type of `manifest.dsse.json`.
pub const PAYLOAD_TYPE: &str = "application/vnd.in-toto+json";
/// `_type` of the statement.
pub const STATEMENT: &str = "https://in-toto.io/Statement/v1";
/// `predicateType` of the statement.
pub const PREDICATE: &str = "https://wicketgate.dev/evidence-bundle/v1";

/// What an exporter says of itself: the only part of the predicate that is not derived from the files.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Exporter {
    /// Version of the program.
    pub version: String,
    /// When it exported.
    pub at: String,
}

/// The statement over all files but itself and its envelope.
#[must_use]
pub fn statement(files: &Files, predicate: Json) -> Vec<u8> {
    let subjects: Vec<Json> = files
        .0
        .iter()
        .filter(|(name, _)| !matches!(name.as_str(), MANIFEST | ENVELOPE))
        .map(|(name, bytes)| {
            let sha256 = Json::object([("sha256", Json::from(Digest::of(&[bytes]).hex()))]);
            Json::object([("name", Json::from(name.as_str())), ("digest", sha256)])
        })
        .collect();
    canonical::bytes(&Json::object([
        ("_type", Json::from(STATEMENT)),
        ("predicateType", Json::from(PREDICATE)),
        ("predicate", predicate),
        ("subject", subjects.into()),
    ]))
}

/// Which payloads are opened in part, and how much of them: neither names nor values of the rest.
fn redactions(material: &Material<'_>) -> Json {
    let number = |n: usize| Json::from(u64::try_from(n).unwrap_or(u64::MAX));
    let mut list = Vec::new();
    for (c, payload) in &material.payloads.0 {
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

/// What is said about the files: derived from them, so that a verifier can derive it again.
#[must_use]
pub fn predicate(material: &Material<'_>, checkpoint: &Checkpoint, exporter: &Exporter) -> Json {
    let number = |n: usize| Json::from(u64::try_from(n).unwrap_or(u64::MAX));
    let run: Vec<_> = material.of_run().collect();
    let in_state = |wanted: fn(&Payload) -> bool| {
        let list = material.payloads.0.iter().filter(|(_, p)| wanted(p));
        list.map(|(c, _)| Json::from(c.hex())).collect::<Vec<_>>()
    };
    let opened = in_state(|p| matches!(p, Payload::Opened { .. }));
    let seq = |line: Option<&&crate::ledger::verify::Line>| {
        Json::from(line.map_or(0, |line| line.entry.seq))
    };
    let mut counts = vec![
        ("entries", number(material.lines.len())),
        ("run_entries", number(run.len())),
        ("calls", number(material.calls_count())),
        ("decisions", number(run.iter().filter(|l| projection::decides(l)).count())),
        ("payloads", number(material.payloads.0.len())),
        ("opened", number(opened.len())),
    ];
    let unenforced = material.unenforced_count();
    counts.extend((unenforced > 0).then(|| ("unenforced", number(unenforced))));
    let chain = run.first().map(|line| line.entry.chain.to_string()).unwrap_or_default();
    Json::object([
        ("run", Json::from(material.run.to_string())),
        ("chain", Json::from(chain)),
        ("origin", Json::from(material.origin)),
        (
            "checkpoint",
            Json::object([
                ("size", Json::from(checkpoint.size)),
                ("root", Json::from(checkpoint.root.hex())),
            ]),
        ),
        ("query", Json::object([("scope", Json::from("run"))])),
        ("status", Json::from(if material.sealed() { "sealed" } else { "open" })),
        ("counts", Json::object(counts)),
        ("range", Json::object([("first", seq(run.first())), ("last", seq(run.last()))])),
        ("erased", in_state(|p| matches!(p, Payload::Erased { .. })).into()),
        ("withheld", in_state(|p| matches!(p, Payload::Withheld(_))).into()),
        ("redactions", redactions(material)),
        (
            "exporter",
            Json::object([
                ("name", Json::from("wicketgate")),
                ("version", Json::from(exporter.version.as_str())),
                ("at", Json::from(exporter.at.as_str())),
            ]),
        ),
    ])
}
