//! Bundles made, changed, signed again and verified.

use async_trait::async_trait;
use futures_util::FutureExt as _;
use parking_lot::Mutex;
use tempfile::TempDir;
use wicketgate_crypto::dsse;
use wicketgate_crypto::keys::SecretKey;
use wicketgate_crypto::note::Checkpoint;
use wicketgate_gate::evidence::Error;
use wicketgate_gate::evidence::artifacts::Artifacts;
use wicketgate_gate::evidence::bundle::{
    CONTROLS, ENTRIES, ENVELOPE, Files, INCLUSION, MANIFEST, PAGE,
};
use wicketgate_gate::evidence::contents;
use wicketgate_gate::evidence::controls;
use wicketgate_gate::evidence::disclosed::Redactions;
use wicketgate_gate::evidence::export::{self, ExportOrder, ExportedBundle, Recorder};
use wicketgate_gate::evidence::page;
use wicketgate_gate::evidence::query::Query;
use wicketgate_gate::evidence::scope::Scope;
use wicketgate_gate::evidence::statement::{Exporter, PAYLOAD_TYPE, statement};
use wicketgate_gate::evidence::trust::{PinnedHead, Trust};
use wicketgate_gate::evidence::verify::{Report, verify_files};
use wicketgate_gate::ledger::store::LedgerReader;
use wicketgate_record::clock::SystemClock;
use wicketgate_record::domain::digest::Digest;
use wicketgate_record::domain::id::{RunId, Seq};
use wicketgate_record::domain::json::{Json, Limits};

use super::{Draft, ORIGIN, TAR, TestLedger, YAML, key, run_id};

pub const EVIDENCE: u8 = 30;
pub const ENROLMENT: u8 = 31;
pub const SIGNER: u8 = 32;

/// Two runs, and something after them.
pub fn two_runs() -> TestLedger {
    let mut ledger = TestLedger::new(1, key(ENROLMENT));
    ledger.whole_run(run_id(1));
    ledger.whole_run(run_id(2));
    ledger.beat();
    ledger
}

pub fn artifacts(dir: &TempDir) -> Artifacts {
    let artifacts = Artifacts::open(&dir.path().join("artifacts")).unwrap();
    artifacts.put_policy(&Digest::of(&[TAR]), TAR).unwrap();
    let kind = "application/vnd.wicketgate.manifest.v1+yaml";
    let signature = dsse::sign(kind, YAML, &[&key(SIGNER)]);
    artifacts.put_manifest(&Digest::of(&[YAML]), YAML, &signature).unwrap();
    artifacts
}

pub fn try_export(
    ledger: &TestLedger,
    run: RunId,
    since: &[Seq],
    dir: &TempDir,
) -> Result<ExportedBundle, Error> {
    let artifacts = artifacts(dir);
    artifacts.put_policy(&Digest::of(&[&ledger.tar]), &ledger.tar).unwrap();
    ask(ledger, &Query::Run(run), since, dir, &FleetDrafts::default())
}

/// Exports what the query asks for.
pub fn ask(
    reader: &dyn LedgerReader,
    query: &Query,
    since: &[Seq],
    dir: &TempDir,
    recorder: &dyn Recorder,
) -> Result<ExportedBundle, Error> {
    let artifacts = artifacts(dir);
    order(reader, query, since, (dir, &artifacts), recorder, |order| {
        export::export(order).now_or_never().unwrap()
    })
}

/// The order that these tests give, handed to this function.
pub fn order<T>(
    reader: &dyn LedgerReader,
    query: &Query,
    since: &[Seq],
    (dir, artifacts): (&TempDir, &Artifacts),
    recorder: &dyn Recorder,
    then: impl FnOnce(&ExportOrder<'_>) -> T,
) -> T {
    let order = ExportOrder {
        reader,
        tenant: "default",
        query,
        artifacts,
        key: &key(EVIDENCE),
        out: &dir.path().join("bundle"),
        clock: &SystemClock::new(),
        version: contents::VERSION,
        program: || "",
        requester: "uid:7",
        since,
        payloads: query.scope() == Scope::Run,
        vault: None,
        redactions: &Redactions::default(),
        recorder,
    };
    then(&order)
}

/// A fleet log on paper: what was recorded, and nothing that could fail.
#[derive(Default)]
pub struct FleetDrafts(pub Mutex<Vec<Draft>>);

#[async_trait]
impl Recorder for FleetDrafts {
    async fn record(
        &self,
        draft: wicketgate_record::Draft,
    ) -> Result<(), wicketgate_gate::ledger::Error> {
        self.0.lock().push(draft.into());
        Ok(())
    }
}

pub fn export_of(ledger: &TestLedger, run: RunId, since: &[Seq]) -> Files {
    let dir = tempfile::tempdir().unwrap();
    let exported = try_export(ledger, run, since, &dir).unwrap();
    Files::read(&exported.dir).unwrap()
}

pub fn trust() -> Trust {
    Trust {
        evidence: vec![key(EVIDENCE).public()],
        enrolment: vec![key(ENROLMENT).public()],
        manifest: vec![key(SIGNER).public()],
        policies: vec![Digest::of(&[TAR])],
        ..Trust::default()
    }
}

/// The head of these ledger as an auditor notes it.
pub fn pin(ledger: &TestLedger) -> PinnedHead {
    let (checkpoint, _) = Checkpoint::parse(&ledger.row().head.checkpoint).unwrap();
    PinnedHead { origin: ORIGIN.into(), size: checkpoint.size, root: checkpoint.root }
}

/// Signs the list of files again, keeping what was said about them.
pub fn resign(files: &mut Files, with: &SecretKey) {
    let old = Json::parse(files.get(MANIFEST).unwrap(), &Limits::FILE).unwrap();
    let manifest = statement(files, old.get("predicate").unwrap().clone());
    files.put(ENVELOPE, dsse::sign(PAYLOAD_TYPE, &manifest, &[with]));
    files.put(MANIFEST, manifest);
}

/// Makes again what follows from the other files, and signs the list.
pub fn remake(files: &mut Files, with: &SecretKey) {
    let manifest = Json::parse(files.get(MANIFEST).unwrap(), &Limits::FILE).unwrap();
    let exporter = Exporter::said(manifest.get("predicate").unwrap());
    files.put(CONTROLS, controls::controls(files));
    files.put(PAGE, page::page(files, &exporter));
    resign(files, with);
}

/// A good bundle after this change, signed again by the real evidence key.
pub fn insider(change: impl FnOnce(&mut Files)) -> Report {
    let mut files = export_of(&two_runs(), run_id(1), &[]);
    change(&mut files);
    resign(&mut files, &key(EVIDENCE));
    verify_files(&files, &trust())
}

pub fn caught(report: &Report, by: &str) {
    assert_eq!(report.exit_code(), 1, "not caught:\n{}", report.to_text());
    assert!(report.failed().contains(&by), "expected {by}:\n{}", report.to_text());
    assert_eq!(report.level(), None);
}

/// Replaces text in a file; the text has to be there.
pub fn replace(files: &mut Files, name: &str, from: &str, to: &str) {
    let text = String::from_utf8(files.get(name).unwrap().to_vec()).unwrap();
    assert!(text.contains(from), "`{name}` has no `{from}`");
    files.put(name, text.replacen(from, to, 1));
}

pub fn lines(files: &Files) -> Vec<Vec<u8>> {
    let text = files.get(ENTRIES).unwrap();
    text.strip_suffix(b"\n").unwrap().split(|b| *b == b'\n').map(<[u8]>::to_vec).collect()
}

pub fn set_lines(files: &mut Files, lines: &[Vec<u8>]) {
    let mut text = lines.join(&b'\n');
    text.push(b'\n');
    files.put(ENTRIES, text);
}

/// Changes the list of inclusion proofs.
pub fn proofs(files: &mut Files, change: impl FnOnce(&mut Vec<serde_json::Value>)) {
    let mut json: serde_json::Value =
        serde_json::from_slice(files.get(INCLUSION).unwrap()).unwrap();
    change(json["proofs"].as_array_mut().unwrap());
    files.put(INCLUSION, json.to_string());
}
