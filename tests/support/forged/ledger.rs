//! A ledger in memory, written by the rules or, on demand, against them.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use wicketgate_crypto::dsse;
use wicketgate_crypto::keys::SecretKey;
use wicketgate_crypto::merkle::Frontier;
use wicketgate_crypto::note::Checkpoint;
use wicketgate_gate::ledger::store::{
    ChainRow, EntryRange, EntryRow, HeadRow, LedgerReader, PayloadRef, PayloadRow, StoreError,
};
use wicketgate_policy::rego::ENGINE;
use wicketgate_record::Kind;
use wicketgate_record::clock::Entropy;
use wicketgate_record::domain::canonical;
use wicketgate_record::domain::commitment::commit;
use wicketgate_record::domain::decision::Verdict;
use wicketgate_record::domain::digest::{Digest, call_digest};
use wicketgate_record::domain::id::{CallId, ChainId, Epoch, RunId, Seq, ToolName};
use wicketgate_record::domain::json::{Json, Limits};
use wicketgate_record::domain::time::Timestamp;

use super::entry::{Commitment, Draft, Entry, RunLink};

pub const ORIGIN: &str = "wicketgate.dev/default/local/0/0";
pub const TAR: &[u8] = b"a deterministic tar of policies";
pub const YAML: &[u8] = b"apiVersion: wicketgate.dev/v1\nkind: AgentManifest\n";

/// Bytes that are the same in every run of the tests.
pub struct Fixed(pub u8);

impl Entropy for Fixed {
    fn fill(&self, bytes: &mut [u8]) {
        bytes.fill(self.0);
    }
}

pub fn key(n: u8) -> SecretKey {
    SecretKey::generate(&Fixed(n))
}

pub fn run_id(n: u8) -> RunId {
    RunId::from_random([n; 16])
}

pub fn json(text: &str) -> Json {
    Json::parse(text.as_bytes(), &Limits::FILE).unwrap()
}

pub struct TestLedger {
    pub chain: ChainId,
    pub origin: String,
    pub enrolment: SecretKey,
    pub writer: SecretKey,
    pub epoch: Epoch,
    pub rows: Vec<EntryRow>,
    pub payloads: BTreeMap<Digest, PayloadRow>,
    pub frontier: Frontier,
    /// The policy in force.
    pub tar: Vec<u8>,
    /// The manifest of its runs.
    pub yaml: Vec<u8>,
    last: Option<(Digest, Timestamp)>,
    runs: BTreeMap<RunId, (u64, Option<Digest>)>,
}

impl TestLedger {
    /// A chain with genesis, writer, policy, manifest and a heartbeat.
    pub fn new(chain: u8, enrolment: SecretKey) -> Self {
        Self::under(chain, enrolment, TAR)
    }

    /// The same under this policy.
    pub fn under(chain: u8, enrolment: SecretKey, tar: &[u8]) -> Self {
        let mut ledger = Self::blank(ORIGIN, chain, enrolment, tar);
        ledger.begin();
        ledger
    }

    /// A chain of this name without a policy or a manifest: a fleet log.
    pub fn bare(origin: &str, chain: u8, enrolment: SecretKey) -> Self {
        let mut ledger = Self::blank(origin, chain, enrolment, TAR);
        ledger.introduce();
        ledger
    }

    /// A further chain of this name.
    pub fn named(origin: &str, chain: u8, enrolment: SecretKey) -> Self {
        let mut ledger = Self::blank(origin, chain, enrolment, TAR);
        ledger.begin();
        ledger
    }

    /// The same under this policy and this manifest, not before this time.
    pub fn after(millis: i64, enrolment: SecretKey, tar: &[u8], yaml: &[u8]) -> Self {
        let mut ledger = Self::blank(ORIGIN, 1, enrolment, tar);
        ledger.yaml = yaml.to_vec();
        ledger.introduce();
        ledger.pause(millis);
        ledger.activate();
        ledger
    }

    fn blank(origin: &str, chain: u8, enrolment: SecretKey, tar: &[u8]) -> Self {
        Self {
            chain: ChainId::from_bytes([chain; 16]),
            origin: origin.into(),
            enrolment,
            writer: key(20),
            epoch: 1,
            rows: Vec::new(),
            payloads: BTreeMap::new(),
            frontier: Frontier::default(),
            tar: tar.to_vec(),
            yaml: YAML.to_vec(),
            last: None,
            runs: BTreeMap::new(),
        }
    }

    fn introduce(&mut self) {
        let enrolled = STANDARD.encode(self.enrolment.public().to_bytes());
        let origin = Json::from(self.origin.as_str());
        self.add(Draft::of(
            Kind::ChainGenesis,
            Json::object([("origin", origin), ("enrolment_key", enrolled.into())]),
        ));
        self.start(1, key(20));
    }

    fn begin(&mut self) {
        self.introduce();
        self.activate();
    }

    fn activate(&mut self) {
        let mut policy =
            Draft::of(Kind::PolicyActivated, json(r#"{"name":"main","version":"1","layers":[]}"#));
        policy.policy = Some(Digest::of(&[&self.tar]));
        self.add(policy);
        let manifest = Digest::of(&[&self.yaml]).prefixed();
        self.add(Draft::of(
            Kind::ManifestBound,
            json(&format!(
                r#"{{"agent":"reviewer","version":"1.0.0","digest":"{manifest}","binding":"claimed"}}"#
            )),
        ));
        self.beat();
    }

    /// From now on this list of people counts for its purpose.
    pub fn list(&mut self, list: &str, (version, text): (u64, &str), expires: Option<Timestamp>) {
        let digest = Digest::of(&[text.as_bytes()]).prefixed();
        let members = [
            ("list", Json::from(list)),
            ("version", Json::from(version)),
            ("digest", Json::from(digest)),
        ];
        let expires = expires.map(|at| ("expires", Json::from(at.to_string())));
        let data = Json::object(members.into_iter().chain(expires));
        self.add(Draft::of(Kind::SignersBound, data));
    }

    /// Nothing is written for so long.
    pub fn pause(&mut self, ms: i64) {
        let (leaf, ts) = self.last.unwrap();
        self.last = Some((leaf, Timestamp::from_millis(ts.millis() + ms)));
    }

    /// The time of the last entry.
    pub fn now(&self) -> Timestamp {
        self.last.unwrap().1
    }

    /// Begins an epoch with this writer key.
    pub fn start(&mut self, epoch: Epoch, writer: SecretKey) {
        self.epoch = epoch;
        self.writer = writer;
        let public = STANDARD.encode(self.writer.public().to_bytes());
        let body = canonical::bytes(&json(&format!(
            r#"{{"epoch":{epoch},"image_digest":"","key":"{public}","not_after":"2030-01-01T00:00:00.000Z","pod":"","slot":"local/0"}}"#
        )));
        let kind = "application/vnd.wicketgate.writer-certificate.v1+json";
        let sig = STANDARD.encode(self.enrolment.sign(&dsse::pae(kind, &body)));
        let (body, keyid) = (STANDARD.encode(body), self.enrolment.public().id());
        self.add(Draft::of(
            Kind::WriterStarted,
            json(&format!(
                r#"{{"version":"0.1.0","image":"","pod":"","writer_key":"{public}","certificate":{{"body":"{body}","keyid":"{keyid}","sig":"{sig}"}},"prev_epoch":{},"watermark_size":0,"watermark_root":"","reason":"start","settings":[{{"k":"heartbeat_ms","v":"10000"}}]}}"#,
                epoch - 1
            )),
        ));
    }

    pub fn beat(&mut self) {
        self.add(Draft::of(Kind::Heartbeat, json(r#"{"open_runs":0,"rejected":0}"#)));
    }

    pub fn add(&mut self, draft: Draft) {
        self.add_with(draft, |_| {});
    }

    /// The entry that this draft becomes.
    fn next(&self, draft: Draft) -> Entry {
        let seq = self.frontier.size();
        let (prev, ts) = self.last.unwrap_or_else(|| {
            (Entry::genesis_prev(&self.chain), Timestamp::from_millis(1_795_000_000_000))
        });
        let run = draft.run.map(|run| {
            let (seq, prev) = self.runs.get(&run).copied().unwrap_or((0, None));
            RunLink { run, seq, prev }
        });
        Entry {
            chain: self.chain,
            epoch: self.epoch,
            seq,
            prev,
            ts: Timestamp::from_millis(ts.millis() + 7),
            boot: "00c0ffee".into(),
            mono: seq * 1000,
            run,
            draft,
        }
    }

    /// Appends an entry after this change.
    pub fn add_with(&mut self, draft: Draft, change: impl FnOnce(&mut Entry)) {
        let mut entry = self.next(draft);
        change(&mut entry);
        let body = entry.bytes();
        self.place(&entry, body);
    }

    /// Appends an entry of a kind that this build does not know.
    pub fn add_unknown(&mut self, draft: Draft, kind: &str) {
        let before = self.rows.len();
        let entry = self.next(Draft { kind: Kind::Heartbeat, ..draft });
        let text = String::from_utf8(entry.bytes()).unwrap();
        let body = text.replace(r#""kind":"heartbeat""#, &format!(r#""kind":"{kind}""#));
        self.place(&entry, body.into_bytes());
        self.rows[before].kind = kind.into();
    }

    fn place(&mut self, entry: &Entry, body: Vec<u8>) {
        let leaf = Entry::leaf(&body);
        if let Some(link) = &entry.run {
            self.runs.insert(link.run, (link.seq + 1, Some(leaf)));
        }
        self.rows.push(EntryRow {
            seq: entry.seq,
            prev: entry.prev,
            leaf,
            run: entry.run.as_ref().map(|link| link.run),
            call: entry.draft.call.clone(),
            kind: entry.draft.kind.as_str().into(),
            body,
        });
        self.frontier.push(leaf);
        self.last = Some((leaf, entry.ts));
    }

    pub fn commit(&mut self, role: &str, body: &[u8]) -> Commitment {
        let salt =
            *Digest::of(&[role.as_bytes(), body, &self.frontier.size().to_be_bytes()]).as_bytes();
        let c = commit(&salt, body);
        let row = PayloadRow {
            commitment: c,
            salt,
            role: role.into(),
            media_type: "application/json".into(),
            body: body.to_vec(),
        };
        self.payloads.insert(c, row);
        Commitment { c, len: body.len() as u64, role: role.into() }
    }

    pub fn open(&mut self, run: RunId) {
        self.open_in(run, "enforce");
    }

    /// Opens a run of this mode.
    pub fn open_in(&mut self, run: RunId, mode: &str) {
        let manifest = Digest::of(&[&self.yaml]).prefixed();
        let mut draft = Draft::of(
            Kind::RunOpened,
            json(&format!(
                r#"{{"agent":"reviewer","version":"1.0.0","manifest":"{manifest}","mode":"{mode}","binding":"claimed","labels":[{{"k":"ticket","v":"<script>"}}],"auth":{{"method":"uds","uid":1000}},"model":"m","instructions":[]}}"#
            )),
        );
        draft.run = Some(run);
        self.add(draft);
    }

    pub fn decided(&mut self, run: RunId, id: &str, kind: Kind, verdict: Verdict) -> Draft {
        let (call, tool) = (CallId::parse(id).unwrap(), ToolName::parse("repo.read_file").unwrap());
        let args = self.commit("args", format!(r#"{{"path":"src/{id}.rs"}}"#).as_bytes());
        let input = self.commit("policy_input", b"{}");
        let digest = call_digest(&run, &call, &tool, &args.c).hex();
        let mut draft = Draft::of(
            kind,
            json(&format!(
                r#"{{"call_digest":"{digest}","tier":"T0","reasons":[{{"code":"policy.denied","detail":"","message":"no <b>writes</b>","rule":"r"}}],"obligations":[{{"type":"redact","kinds":["email"]}}],"layers":[],"enforced":true,"binding":"claimed","executor":"sidecar","after":0,"engine":"{ENGINE}","auth":{{"method":"uds"}}}}"#
            )),
        );
        draft.run = Some(run);
        draft.call = Some(call);
        draft.tool = Some(tool);
        draft.verdict = Some(verdict);
        draft.rule = Some("r".into());
        draft.policy = Some(Digest::of(&[&self.tar]));
        draft.commit = vec![args, input];
        draft
    }

    pub fn decide(&mut self, run: RunId, id: &str, kind: Kind, verdict: Verdict) {
        let draft = self.decided(run, id, kind, verdict);
        self.add(draft);
    }

    pub fn allow(&mut self, run: RunId, id: &str) {
        self.decide(run, id, Kind::CallAuthorized, Verdict::Allow);
    }

    pub fn complete(&mut self, run: RunId, id: &str) {
        let result = self.commit("result", format!(r#"{{"text":"of {id}"}}"#).as_bytes());
        let mut draft =
            Draft::of(Kind::CallCompleted, json(r#"{"us":1200,"status":"200","attempts":1}"#));
        draft.run = Some(run);
        draft.call = CallId::parse(id);
        draft.commit = vec![result];
        self.add(draft);
    }

    pub fn end(&mut self, run: RunId, id: &str, kind: Kind, data: &str) {
        let mut draft = Draft::of(kind, json(data));
        draft.run = Some(run);
        draft.call = CallId::parse(id);
        self.add(draft);
    }

    pub fn seal(&mut self, run: RunId) {
        let count = self.runs[&run].0 + 1;
        let mut draft = Draft::of(
            Kind::RunSealed,
            json(&format!(r#"{{"entries":{count},"calls":[{{"k":"completed","v":1}}]}}"#)),
        );
        draft.run = Some(run);
        self.add(draft);
    }

    /// One allowed and completed call, one denied, one held and cancelled.
    pub fn whole_run(&mut self, run: RunId) {
        self.open(run);
        self.allow(run, "c1");
        self.complete(run, "c1");
        self.decide(run, "c2", Kind::CallDenied, Verdict::Deny);
        self.decide(run, "c3", Kind::CallHeld, Verdict::RequireApproval);
        self.end(run, "c3", Kind::CallCancelled, r#"{"reason":"sealed"}"#);
        self.seal(run);
    }

    pub fn checkpoint(&self, size: usize, key: &SecretKey) -> String {
        let mut frontier = Frontier::default();
        self.rows.iter().take(size).for_each(|row| frontier.push(row.leaf));
        Checkpoint { origin: self.origin.clone(), size: size as u64, root: frontier.root() }
            .sign(key)
    }

    pub fn row(&self) -> ChainRow {
        ChainRow {
            chain: self.chain,
            tenant: "default".into(),
            slot: "local/0".into(),
            origin: self.origin.clone(),
            epoch: self.epoch,
            head: HeadRow {
                size: self.frontier.size(),
                hash: self.rows.last().unwrap().leaf,
                frontier: self.frontier.to_bytes(),
                checkpoint: self.checkpoint(self.rows.len(), &self.writer),
            },
        }
    }
}

#[async_trait]
impl LedgerReader for TestLedger {
    async fn chains(&self) -> Result<Vec<ChainRow>, StoreError> {
        Ok(vec![self.row()])
    }

    async fn select(
        &self,
        _: &ChainId,
        range: EntryRange<'_>,
    ) -> Result<Vec<EntryRow>, StoreError> {
        let rows = self.rows.iter();
        Ok(match range {
            EntryRange::From(from, limit) => {
                rows.filter(|r| r.seq >= from).take(limit as usize).cloned().collect()
            }
            EntryRange::Run(run) => rows.filter(|r| r.run == Some(*run)).cloned().collect(),
            EntryRange::Call(run, call) => {
                let wanted = |r: &&EntryRow| r.run == Some(*run) && r.call.as_ref() == Some(call);
                rows.filter(wanted).cloned().collect()
            }
            EntryRange::Lone(kinds, before, limit) => {
                let wanted = |r: &&EntryRow| {
                    r.run.is_none() && r.seq < before && kinds.contains(&r.kind.as_str())
                };
                let mut last: Vec<_> =
                    rows.rev().filter(wanted).take(limit as usize).cloned().collect();
                last.reverse();
                last
            }
        })
    }

    async fn find_run(&self, run: &RunId) -> Result<Option<ChainId>, StoreError> {
        Ok(self.rows.iter().any(|r| r.run == Some(*run)).then_some(self.chain))
    }

    async fn open_runs(&self, _: &ChainId) -> Result<Vec<RunId>, StoreError> {
        let of = |kind: &str| {
            let rows = self.rows.iter().filter(|row| row.kind == kind);
            rows.filter_map(|row| row.run).collect::<BTreeSet<RunId>>()
        };
        Ok(of("run.opened").difference(&of("run.sealed")).copied().collect())
    }

    async fn leaves(
        &self,
        _: &ChainId,
        from: Seq,
        to: Seq,
    ) -> Result<Vec<(Seq, Digest)>, StoreError> {
        let wanted = self.rows.iter().filter(|r| (from..to).contains(&r.seq));
        Ok(wanted.map(|r| (r.seq, r.leaf)).collect())
    }

    async fn payloads(
        &self,
        _: &ChainId,
        list: &[PayloadRef],
    ) -> Result<Vec<PayloadRow>, StoreError> {
        Ok(list.iter().filter_map(|at| self.payloads.get(&at.commitment).cloned()).collect())
    }

    async fn checkpoints(
        &self,
        _: &ChainId,
        at_least: Seq,
        _: u32,
    ) -> Result<Vec<(Seq, String)>, StoreError> {
        let size = self.frontier.size();
        let note = || Self::checkpoint(self, size as usize, &self.writer);
        Ok((at_least <= size).then(|| (size, note())).into_iter().collect())
    }
}

/// A ledger of several chains.
pub struct TestLedgers(pub Vec<TestLedger>);

impl TestLedgers {
    fn of(&self, chain: &ChainId) -> &TestLedger {
        self.0.iter().find(|ledger| ledger.chain == *chain).unwrap()
    }
}

#[async_trait]
impl LedgerReader for TestLedgers {
    async fn chains(&self) -> Result<Vec<ChainRow>, StoreError> {
        Ok(self.0.iter().map(TestLedger::row).collect())
    }

    async fn select(
        &self,
        chain: &ChainId,
        range: EntryRange<'_>,
    ) -> Result<Vec<EntryRow>, StoreError> {
        self.of(chain).select(chain, range).await
    }

    async fn find_run(&self, run: &RunId) -> Result<Option<ChainId>, StoreError> {
        let has = |ledger: &&TestLedger| ledger.rows.iter().any(|row| row.run == Some(*run));
        Ok(self.0.iter().find(has).map(|ledger| ledger.chain))
    }

    async fn open_runs(&self, chain: &ChainId) -> Result<Vec<RunId>, StoreError> {
        self.of(chain).open_runs(chain).await
    }

    async fn leaves(
        &self,
        chain: &ChainId,
        from: Seq,
        to: Seq,
    ) -> Result<Vec<(Seq, Digest)>, StoreError> {
        self.of(chain).leaves(chain, from, to).await
    }

    async fn payloads(
        &self,
        chain: &ChainId,
        list: &[PayloadRef],
    ) -> Result<Vec<PayloadRow>, StoreError> {
        self.of(chain).payloads(chain, list).await
    }

    async fn checkpoints(
        &self,
        chain: &ChainId,
        at_least: Seq,
        limit: u32,
    ) -> Result<Vec<(Seq, String)>, StoreError> {
        self.of(chain).checkpoints(chain, at_least, limit).await
    }
}
