//! A ledger of so many calls that is nowhere: its entries are made when they are read, in order, as a writer makes them.

use async_trait::async_trait;
use parking_lot::Mutex;
use wicketgate::clock::SystemEntropy;
use wicketgate::crypto::merkle;
use wicketgate::domain::decision::Verdict;
use wicketgate::domain::digest::Digest;
use wicketgate::domain::id::{CallId, ChainId, RunId, Seq, ToolName};
use wicketgate::domain::json::Json;
use wicketgate::domain::time::Timestamp;
use wicketgate::ledger::store::{
    ChainRow, EntryRange, EntryRow, HeadRow, LedgerReader, PayloadRef, PayloadRow, StoreError,
};
use wicketgate::record::sample::body;
use wicketgate::record::{Body, Boot, Draft, Entry, Kind, RunLink};

/// Calls of a run; the first run has a tenth of all.
pub const CALLS_OF_RUN: u64 = 30;
/// Milliseconds between two calls: a million are 90 days.
const STEP: i64 = 7_776;
/// When the first call was.
const BEGAN: i64 = 1_750_000_000_000;

/// Entries are made in order.
struct Writer {
    next: Seq,
    prev: Digest,
    /// Entries of the step that was begun.
    pending: Vec<Draft>,
    step: u64,
}

/// The bodies, which are the same for many calls.
struct Bodies {
    opened: Vec<Body>,
    authorized: Body,
    completed: Vec<Body>,
    denied: Vec<Body>,
    held: Body,
    granted: Body,
}

/// The ledger.
pub struct Calls {
    chain: ChainId,
    calls: u64,
    writer: Mutex<Writer>,
    bodies: Bodies,
}

/// The run of a call.
pub fn run_of(calls: u64, call: u64) -> u64 {
    let long = calls / 10;
    if call < long { 0 } else { 1 + (call - long) / CALLS_OF_RUN }
}

pub fn run_id(run: u64) -> RunId {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&run.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    bytes[8..].copy_from_slice(&run.to_be_bytes());
    RunId::from_random(bytes)
}

/// A number that looks random and is the same every time.
fn mixed(n: u64, salt: u64) -> u64 {
    let x = (n ^ (salt << 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (x ^ (x >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 33
}

fn reason(code: &str, detail: &str) -> Json {
    Json::object([
        ("code", Json::from(code)),
        ("detail", Json::from(detail)),
        ("message", Json::from("no")),
        ("rule", Json::from("wicketgate.agent.deny agent/main.rego:12")),
    ])
}

impl Bodies {
    fn new() -> Self {
        let opened = |n: u64| {
            body(
                Kind::RunOpened,
                [("agent", Json::from(format!("agent-{n:03}"))), ("version", Json::from("1.4"))],
            )
        };
        let completed = |us: u64, masked: u64| {
            let redaction = Json::object([("masked", Json::from(masked))]);
            let observed =
                (masked > 0).then(|| ("observed", Json::object([("redaction", redaction)])));
            let own = [("status", Json::from("200")), ("us", Json::from(us))];
            body(Kind::CallCompleted, own.into_iter().chain(observed))
        };
        let denied = |n: u64| {
            let detail =
                if n == 39 { "rare_code".to_owned() } else { format!("code_{:02}", n % 39) };
            let tier = ("tier", Json::from("T1"));
            body(
                Kind::CallDenied,
                [("reasons", vec![reason("policy.denied", &detail)].into()), tier],
            )
        };
        Self {
            opened: (0..200).map(opened).collect(),
            authorized: body(
                Kind::CallAuthorized,
                [("tier", Json::from("T1")), ("enforced", true.into())],
            ),
            completed: (0..64).map(|n| completed(1000 + n * 997, u64::from(n == 0))).collect(),
            denied: (0..40).map(denied).collect(),
            held: body(
                Kind::CallHeld,
                [("reasons", vec![reason("policy.denied", "four_eyes")].into())],
            ),
            granted: body(Kind::ApprovalGranted, [("subject", Json::from("bo"))]),
        }
    }
}

impl Calls {
    pub fn of(calls: u64) -> Self {
        let chain = ChainId::from_bytes(wicketgate::clock::random16(&SystemEntropy));
        Self { chain, calls, writer: Mutex::new(Self::start(&chain)), bodies: Bodies::new() }
    }

    fn start(chain: &ChainId) -> Writer {
        let prev = Digest::of(&[chain.as_bytes()]);
        Writer { next: 0, prev, pending: Vec::new(), step: 0 }
    }

    /// The time of a call.
    pub fn at(call: u64) -> Timestamp {
        Timestamp::from_millis(BEGAN + i64::try_from(call).unwrap() * STEP)
    }

    /// The drafts of one call, the newest first.
    fn drafts(&self, call: u64) -> Vec<Draft> {
        let (run, bodies) = (run_of(self.calls, call), &self.bodies);
        let pick = |list: &[Body], n: u64| list[usize::try_from(n).unwrap() % list.len()].clone();
        let draft = |verdict: Option<Verdict>, body: Body| Draft {
            run: Some(run_id(run)),
            call: CallId::parse(&format!("c-{call}")),
            tool: ToolName::parse(&format!(
                "svc{}.do_{}",
                mixed(call, 1) % 50,
                mixed(call, 2) % 10
            )),
            verdict,
            ..Draft::of(body)
        };
        let allowed = || draft(Some(Verdict::Allow), bodies.authorized.clone());
        let ended = || draft(None, pick(&bodies.completed, mixed(call, 3)));
        let kind = mixed(call, 4) % 100;
        let mut all = match kind {
            0..8 => {
                let rare = mixed(call, 6).is_multiple_of(1000);
                let code = if rare { 39 } else { mixed(call, 5) % 39 };
                vec![draft(Some(Verdict::Deny), pick(&bodies.denied, code))]
            }
            8..10 => vec![
                draft(Some(Verdict::RequireApproval), bodies.held.clone()),
                draft(None, bodies.granted.clone()),
                allowed(),
                ended(),
            ],
            _ => vec![allowed(), ended()],
        };
        if call == 0 || run_of(self.calls, call - 1) != run {
            let opened = Draft::of(pick(&bodies.opened, mixed(run, 7)));
            all.insert(0, Draft { run: Some(run_id(run)), ..opened });
        }
        all.reverse();
        all
    }

    /// The next entry; `None` at the end.
    fn next(&self, writer: &mut Writer) -> Option<EntryRow> {
        if writer.pending.is_empty() {
            if writer.step == self.calls {
                return None;
            }
            writer.pending = self.drafts(writer.step);
            writer.step += 1;
        }
        let draft = writer.pending.pop()?;
        let link = RunLink { run: draft.run?, seq: writer.next, prev: Some(writer.prev) };
        let entry = Entry {
            chain: self.chain,
            epoch: 1,
            seq: writer.next,
            prev: writer.prev,
            ts: Self::at(writer.step - 1),
            boot: Boot::from_random([7; 4]),
            mono: writer.next,
            run: Some(link),
            draft,
        };
        let body = entry.bytes();
        let leaf = merkle::leaf_hash(&body);
        let row = EntryRow {
            seq: entry.seq,
            prev: entry.prev,
            leaf,
            run: entry.draft.run,
            call: entry.draft.call.clone(),
            kind: entry.draft.kind().to_string(),
            body,
        };
        (writer.next, writer.prev) = (writer.next + 1, leaf);
        Some(row)
    }
}

#[async_trait]
impl LedgerReader for Calls {
    async fn chains(&self) -> Result<Vec<ChainRow>, StoreError> {
        let writer = self.writer.lock();
        let is_read = writer.step == self.calls && writer.pending.is_empty();
        let head = HeadRow {
            // How many there are is known once they have been made.
            size: if is_read { writer.next } else { self.calls * 5 },
            hash: Digest::of(&[]),
            frontier: Vec::new(),
            checkpoint: String::new(),
        };
        Ok(vec![ChainRow {
            chain: self.chain,
            tenant: "default".into(),
            slot: "local/0".into(),
            origin: "wicketgate.dev/default/local/0/0".into(),
            epoch: 1,
            head,
        }])
    }

    async fn select(
        &self,
        _: &ChainId,
        range: EntryRange<'_>,
    ) -> Result<Vec<EntryRow>, StoreError> {
        let EntryRange::From(from, limit) = range else { return Ok(Vec::new()) };
        let mut writer = self.writer.lock();
        if from == 0 {
            *writer = Self::start(&self.chain);
        }
        // They are made in order: whoever wants others, such as the last ones, gets none.
        if from != writer.next {
            return Ok(Vec::new());
        }
        Ok((0..limit).map_while(|_| self.next(&mut writer)).collect())
    }

    async fn find_run(&self, _: &RunId) -> Result<Option<ChainId>, StoreError> {
        Ok(None)
    }

    async fn open_runs(&self, _: &ChainId) -> Result<Vec<RunId>, StoreError> {
        Ok(Vec::new())
    }

    async fn leaves(&self, _: &ChainId, _: Seq, _: Seq) -> Result<Vec<(Seq, Digest)>, StoreError> {
        Ok(Vec::new())
    }

    async fn checkpoints(
        &self,
        _: &ChainId,
        _: Seq,
        _: u32,
    ) -> Result<Vec<(Seq, String)>, StoreError> {
        Ok(Vec::new())
    }

    async fn payloads(&self, _: &ChainId, _: &[PayloadRef]) -> Result<Vec<PayloadRow>, StoreError> {
        Ok(Vec::new())
    }
}
