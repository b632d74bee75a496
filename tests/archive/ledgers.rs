//! Ledgers with a known history, in SQLite and PostgreSQL, and whoever owns the database.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _, PgConnection};
use wicketgate::clock::{SystemClock, SystemEntropy};
use wicketgate::crypto::keys::SecretKey;
use wicketgate::crypto::merkle::Frontier;
use wicketgate::crypto::note::Checkpoint;
use wicketgate::domain::digest::Digest;
use wicketgate::domain::id::{ChainId, RunId};
use wicketgate::domain::json::{Json, Limits};
use wicketgate::domain::time::Timestamp;
use wicketgate::ledger::fleet::{FleetParts, OpenFleetLog};
use wicketgate::ledger::postgres::{Options, PostgresStore};
use wicketgate::ledger::spool::NoJournal;
use wicketgate::ledger::sqlite::SqliteStore;
use wicketgate::ledger::store::{
    Batch, EntryRow, HeadRow, LeaseKey, LeaseRequest, LedgerStore, PayloadRow,
};
use wicketgate::record::{Draft, Entry};

use crate::forged::{ORIGIN, TestLedger, key, run_id};
use wicketgate_support::pg::{Pg, TestDb};
use wicketgate_support::ran::Ran;

pub const ENROLMENT: u8 = 31;
pub const FLEET: u8 = 40;
/// Entries of one commit.
pub const COMMIT: usize = 7;

/// Everything that is stored of one chain.
#[derive(Clone)]
pub struct State {
    pub rows: Vec<EntryRow>,
    pub head: HeadRow,
    pub checkpoints: Vec<(u64, String)>,
    pub payloads: Vec<PayloadRow>,
    /// Whether the chain is listed at all.
    pub listed: bool,
}

pub fn writer() -> SecretKey {
    key(20)
}

pub fn chain() -> ChainId {
    ChainId::from_bytes([1; 16])
}

/// A chain of 5 + 7·`runs` + 1 entries, committed seven at a time.
pub fn state(runs: u8) -> State {
    let mut ledger = TestLedger::new(1, key(ENROLMENT));
    for run in 1..=runs {
        ledger.whole_run(run_id(run));
    }
    ledger.beat();
    State::of(&ledger)
}

impl State {
    pub fn of(ledger: &TestLedger) -> State {
        let mut state = State {
            rows: ledger.rows.clone(),
            head: HeadRow {
                size: 0,
                hash: Digest::of(&[]),
                frontier: Vec::new(),
                checkpoint: String::new(),
            },
            checkpoints: Vec::new(),
            payloads: ledger.payloads.values().cloned().collect(),
            listed: true,
        };
        state.sign();
        state
    }

    pub fn size(&self) -> usize {
        self.rows.len()
    }

    /// The signed note over the first `size` rows.
    pub fn note(&self, size: usize) -> String {
        Checkpoint { origin: ORIGIN.into(), size: size as u64, root: self.root(size) }
            .sign(&writer())
    }

    pub fn root(&self, size: usize) -> Digest {
        self.frontier(size).root()
    }

    fn frontier(&self, size: usize) -> Frontier {
        let mut frontier = Frontier::default();
        self.rows[..size].iter().for_each(|row| frontier.push(row.leaf));
        frontier
    }

    /// Head and checkpoints as the writer would have them over these rows.
    pub fn sign(&mut self) {
        let sizes: Vec<usize> =
            (1..=self.size()).filter(|n| n % COMMIT == 0 || *n == self.size()).collect();
        self.checkpoints = sizes.iter().map(|n| (*n as u64, self.note(*n))).collect();
        self.head_at(self.size());
    }

    /// Sets the head row to what it was at this size.
    pub fn head_at(&mut self, size: usize) {
        self.head = HeadRow {
            size: size as u64,
            hash: self.rows[size - 1].leaf,
            frontier: self.frontier(size).to_bytes(),
            checkpoint: self.note(size),
        };
    }

    /// Changes an entry and repairs its stored hash.
    pub fn edit(&mut self, at: usize, from: &str, to: &str) {
        let text = String::from_utf8(self.rows[at].body.clone()).unwrap();
        assert!(text.contains(from), "{text}");
        self.rows[at].body = text.replacen(from, to, 1).into_bytes();
        self.rows[at].leaf = Entry::leaf(&self.rows[at].body);
    }

    /// Links everything from here on anew, as somebody without the key can.
    pub fn relink(&mut self, from: usize, change: impl Fn(&mut Entry)) {
        let mut runs: std::collections::BTreeMap<RunId, Digest> = std::collections::BTreeMap::new();
        for row in &self.rows[..from] {
            runs.extend(row.run.map(|run| (run, row.leaf)));
        }
        for at in from..self.rows.len() {
            let mut entry = Entry::parse(&self.rows[at].body).unwrap();
            if at > 0 {
                entry.prev = self.rows[at - 1].leaf;
            }
            if let Some(link) = &mut entry.run {
                link.prev = runs.get(&link.run).copied();
            }
            change(&mut entry);
            let row = &mut self.rows[at];
            row.body = entry.bytes();
            (row.prev, row.leaf) = (entry.prev, Entry::leaf(&row.body));
            runs.extend(row.run.map(|run| (run, row.leaf)));
        }
    }

    /// As if it had all been written so many days earlier.
    pub fn age(&mut self, days: i64) {
        self.relink(0, |entry| {
            entry.ts = Timestamp::from_millis(entry.ts.millis() - days * 86_400_000);
        });
        self.sign();
    }

    /// The first entry of this kind at or after `from`.
    pub fn find(&self, kind: &str, from: usize) -> usize {
        (from..self.size()).find(|at| self.rows[*at].kind == kind).unwrap()
    }

    /// Gives every row the number of its place.
    pub fn renumber(&mut self) {
        (0..).zip(&mut self.rows).for_each(|(seq, row)| row.seq = seq);
    }
}

/// Lets whoever owns a SQLite file write through the views that tools read.
const THROUGH_VIEWS: &str = "
CREATE TRIGGER forged_entry INSTEAD OF INSERT ON entry BEGIN
  INSERT OR IGNORE INTO run (run_id, chain)
  SELECT NEW.run_id, no FROM chain WHERE chain_id = NEW.chain_id AND NEW.run_id IS NOT NULL;
  INSERT INTO stored_entry (id, call, call_id, kind, leaf, prev, body)
  SELECT c.no << 40 | NEW.seq, r.no << 32 | (NEW.call_id IS NOT NULL), NEW.call_id, NEW.kind, NEW.leaf, NEW.prev, NEW.body
    FROM chain c LEFT JOIN run r ON r.run_id = NEW.run_id AND r.chain = c.no WHERE c.chain_id = NEW.chain_id;
END;
CREATE TRIGGER dropped_entry INSTEAD OF DELETE ON entry BEGIN
  DELETE FROM stored_entry WHERE id = (SELECT no << 40 | OLD.seq FROM chain WHERE chain_id = OLD.chain_id);
END;
CREATE TRIGGER forged_checkpoint INSTEAD OF INSERT ON checkpoint BEGIN
  INSERT INTO kept_checkpoint SELECT no, NEW.size, NEW.epoch, NEW.note FROM chain WHERE chain_id = NEW.chain_id;
END;
CREATE TRIGGER dropped_checkpoint INSTEAD OF DELETE ON checkpoint BEGIN
  UPDATE stored_entry SET note = NULL
   WHERE id = (SELECT no << 40 | OLD.size - 1 FROM chain WHERE chain_id = OLD.chain_id);
  DELETE FROM kept_checkpoint
   WHERE size = OLD.size AND chain = (SELECT no FROM chain WHERE chain_id = OLD.chain_id);
END;
";

/// A ledger, and whoever owns its database.
pub enum Ledger {
    Sqlite(tempfile::TempDir),
    Postgres(TestDb, tempfile::TempDir),
}

impl Ledger {
    pub fn sqlite() -> Ledger {
        Ledger::Sqlite(tempfile::tempdir().unwrap())
    }

    pub async fn postgres() -> Ledger {
        Ledger::Postgres(Pg::cluster().database().await, tempfile::tempdir().unwrap())
    }

    pub fn dir(&self) -> &Path {
        match self {
            Ledger::Sqlite(dir) | Ledger::Postgres(_, dir) => dir.path(),
        }
    }

    fn db(&self) -> PathBuf {
        self.dir().join("ledger.db")
    }

    /// Appends what the state has and the ledger does not, through the store.
    pub async fn append(&self, state: &State, held: Option<LeaseKey>) -> LeaseKey {
        let store: Arc<dyn LedgerStore> = match self {
            Ledger::Sqlite(_) => Arc::new(SqliteStore::open(&self.db()).await.unwrap()),
            Ledger::Postgres(db, _) => {
                Arc::new(PostgresStore::connect(&db.writer_url, Options::default()).await.unwrap())
            }
        };
        let request = LeaseRequest {
            tenant: "default".into(),
            pool: "local".into(),
            writer: "desk".into(),
            previous: held.clone(),
            secret: [1; 32],
            chain: chain(),
            term: Duration::from_secs(600),
        };
        let (key, mut head) = match held {
            None => {
                let leased = store.lease(&request).await.unwrap();
                (leased.key, leased.head)
            }
            Some(key) => {
                let head = store.head(&key).await.unwrap();
                (key, head)
            }
        };
        for (size, note) in &state.checkpoints {
            if *size <= head.size {
                continue;
            }
            let (from, to) = (head.size as usize, *size as usize);
            let next = HeadRow {
                size: *size,
                hash: state.rows[to - 1].leaf,
                frontier: state.frontier(to).to_bytes(),
                checkpoint: note.clone(),
            };
            let entries = state.rows[from..to].to_vec();
            let payloads = entries.iter().flat_map(|row| {
                let body = String::from_utf8_lossy(&row.body);
                let own = state.payloads.iter().filter(|one| body.contains(&one.commitment.hex()));
                own.map(|one| (row.seq, one.clone())).collect::<Vec<_>>()
            });
            let payloads = payloads.collect();
            let batch = Arc::new(Batch { entries, payloads, head: next.clone() });
            store.append(&key, &head, &batch).await.unwrap();
            head = next;
        }
        key
    }

    /// Opens the fleet log and records these.
    pub async fn record(&self, drafts: Vec<Draft>) {
        let store: Arc<dyn LedgerStore> = match self {
            Ledger::Sqlite(_) => Arc::new(SqliteStore::open_fleet(&self.db()).await.unwrap()),
            Ledger::Postgres(db, _) => {
                Arc::new(PostgresStore::connect(&db.writer_url, Options::default()).await.unwrap())
            }
        };
        let fleet = OpenFleetLog::open(FleetParts {
            store,
            clock: Arc::new(SystemClock::new()),
            entropy: Arc::new(SystemEntropy),
            enrolment: Arc::new(key(ENROLMENT)),
            key: Arc::new(key(FLEET)),
            previous: None,
            anchor_file: None,
            sights: Vec::new(),
            journal: Box::new(NoJournal),
            tenant: "default".into(),
        })
        .await
        .unwrap();
        for draft in drafts {
            fleet.record(draft).await.unwrap();
        }
        fleet.close().await.unwrap();
    }

    /// Runs SQL as whoever owns the database.
    pub async fn owner(&self, sqlite: &str, postgres: &str) {
        match self {
            Ledger::Sqlite(_) => {
                let options = SqliteConnectOptions::new().filename(self.db());
                let mut conn = options.connect().await.unwrap();
                let sql = AssertSqlSafe(sqlite.to_owned());
                sqlx::raw_sql(sql).execute(&mut conn).await.unwrap();
                conn.close().await.unwrap();
            }
            Ledger::Postgres(db, _) => {
                let mut conn = PgConnection::connect(&db.admin_url).await.unwrap();
                let sql = AssertSqlSafe(postgres.to_owned());
                sqlx::raw_sql(sql).execute(&mut conn).await.unwrap();
                conn.close().await.unwrap();
            }
        }
    }

    /// The sizes of the chain's stored checkpoints.
    pub async fn checkpoints(&self) -> Vec<u64> {
        let id = hex::encode(chain().as_bytes());
        let rows: Vec<(i64,)> = match self {
            Ledger::Sqlite(_) => {
                let options = SqliteConnectOptions::new().filename(self.db());
                let mut conn = options.connect().await.unwrap();
                let sql =
                    format!("SELECT size FROM checkpoint WHERE chain_id = x'{id}' ORDER BY size");
                sqlx::query_as(AssertSqlSafe(sql)).fetch_all(&mut conn).await.unwrap()
            }
            Ledger::Postgres(db, _) => {
                let mut conn = PgConnection::connect(&db.admin_url).await.unwrap();
                let sql = format!(
                    "SELECT size FROM ledger.checkpoint WHERE chain_id = '\\x{id}' ORDER BY size"
                );
                sqlx::query_as(AssertSqlSafe(sql)).fetch_all(&mut conn).await.unwrap()
            }
        };
        rows.into_iter().map(|(size,)| size.cast_unsigned()).collect()
    }

    /// Takes away every guard the owner can take away.
    pub async fn unguard(&self) {
        let names = [
            "entry_next",
            "entry_no_update",
            "entry_no_delete",
            "checkpoint_next",
            "checkpoint_no_update",
            "checkpoint_no_delete",
            "entry_view_insert",
            "entry_view_delete",
            "checkpoint_view_insert",
            "checkpoint_view_delete",
            "head_monotonic",
            "head_no_replace",
            "head_no_delete",
        ];
        let dropped: String = names.map(|name| format!("DROP TRIGGER {name};")).concat();
        let sqlite = dropped + THROUGH_VIEWS;
        self.owner(
            &sqlite,
            "DO $$ DECLARE t text; c text; BEGIN
               FOREACH t IN ARRAY ARRAY['entry', 'checkpoint', 'head'] LOOP
                 EXECUTE format('ALTER TABLE ledger.%I DISABLE TRIGGER ALL', t);
               END LOOP;
               FOR t IN SELECT relid::text FROM pg_partition_tree('ledger.entry') LOOP
                 EXECUTE format('ALTER TABLE %s DISABLE TRIGGER ALL', t);
               END LOOP;
               FOR c IN SELECT conname FROM pg_constraint
                         WHERE conrelid = 'ledger.entry'::regclass AND contype = 'c' LOOP
                 EXECUTE format('ALTER TABLE ledger.entry DROP CONSTRAINT %I', c);
               END LOOP;
             END $$",
        )
        .await;
    }

    /// Makes the stored chain this one, row by row, behind every guard.
    pub async fn put(&self, state: &State) {
        let (sqlite, postgres) =
            (matches!(self, Ledger::Sqlite(_)), matches!(self, Ledger::Postgres(..)));
        let hex = |bytes: &[u8]| {
            let hex = hex::encode(bytes);
            if sqlite { format!("x'{hex}'") } else { format!("'\\x{hex}'::bytea") }
        };
        let text = |text: &str| format!("'{}'", text.replace('\'', "''"));
        let schema = if postgres { "ledger." } else { "" };
        let id = hex(chain().as_bytes());
        let (leaf, prev, hash) =
            if sqlite { ("leaf", "prev", "hash") } else { ("leaf_hash", "prev_hash", "head_hash") };
        let mut sql = vec![
            format!("DELETE FROM {schema}entry WHERE chain_id = {id}"),
            format!("DELETE FROM {schema}checkpoint WHERE chain_id = {id}"),
            format!("DELETE FROM {schema}subtree WHERE chain_id = {id}"),
        ];
        for row in &state.rows {
            let maybe =
                |value: Option<String>| value.map_or_else(|| "NULL".to_owned(), |v| text(&v));
            sql.push(format!(
                "INSERT INTO {schema}entry (chain_id, seq, {leaf}, {prev}, run_id, call_id, kind, body)
                 VALUES ({id}, {}, {}, {}, {}, {}, {}, {})",
                row.seq,
                hex(row.leaf.as_bytes()),
                hex(row.prev.as_bytes()),
                maybe(row.run.map(|run| run.to_string())),
                maybe(row.call.as_ref().map(ToString::to_string)),
                text(&row.kind),
                hex(&row.body),
            ));
        }
        for (size, note) in &state.checkpoints {
            sql.push(format!(
                "INSERT INTO {schema}checkpoint VALUES ({id}, {size}, 1, {})",
                text(note)
            ));
        }
        sql.push(format!(
            "UPDATE {schema}head SET size = {}, {hash} = {}, frontier = {}, checkpoint = {}
              WHERE chain_id = {id}",
            state.head.size,
            hex(state.head.hash.as_bytes()),
            hex(&state.head.frontier),
            text(&state.head.checkpoint),
        ));
        if sqlite {
            // Everything is read from the entries themselves again.
            sql.push("DELETE FROM entry_call; UPDATE head SET indexed = 0".to_owned());
        }
        if !state.listed {
            if postgres {
                sql.push(format!("DELETE FROM ledger.open_run WHERE chain_id = {id}"));
            }
            for table in ["entry", "checkpoint", "payload", "subtree", "head", "chain"] {
                sql.push(format!("DELETE FROM {schema}{table} WHERE chain_id = {id}"));
            }
        }
        let sql = format!("BEGIN; {}; COMMIT", sql.join(";\n"));
        self.owner(&sql, &sql).await;
    }

    /// The arguments that name this ledger to the program.
    pub fn named(&self) -> Vec<String> {
        match self {
            Ledger::Sqlite(_) => vec!["--sqlite".into(), self.db().display().to_string()],
            Ledger::Postgres(db, dir) => {
                let file = dir.path().join("reader.url");
                std::fs::write(&file, &db.reader_url).unwrap();
                vec!["--postgres-url-file".into(), file.display().to_string()]
            }
        }
    }
}

/// What `ledger verify` and its like print.
pub trait Report {
    /// The JSON object of this log.
    fn log(&self, origin: &str) -> Json;

    /// Kind and seq of the damage, if any was found.
    fn damage(&self) -> Option<(String, u64)>;
}

impl Report for Ran {
    fn log(&self, origin: &str) -> Json {
        let parse = |line: &str| Json::parse(line.as_bytes(), &Limits::FILE).unwrap();
        let all = self.out.lines().map(parse);
        let of = |json: &Json| json.get("origin").and_then(Json::as_str) == Some(origin);
        all.into_iter().find(of).unwrap_or_else(|| panic!("{}\n{}", self.out, self.err))
    }

    fn damage(&self) -> Option<(String, u64)> {
        let log = self.log(ORIGIN);
        let damage = log.get("damage")?;
        let kind = damage.get("kind").and_then(Json::as_str).unwrap().to_owned();
        Some((kind, damage.get("seq").and_then(Json::as_u64).unwrap()))
    }
}

pub fn run(args: &[String]) -> Ran {
    Ran::gate(".", [&["ledger".to_owned()], args].concat())
}

pub fn words(text: &[&str]) -> Vec<String> {
    text.iter().map(|word| (*word).to_owned()).collect()
}

/// A trust file with the enrolment key and these lines.
pub fn trust(dir: &Path, lines: &str) -> String {
    let path = dir.join("trust.txt");
    let key = STANDARD.encode(key(ENROLMENT).public().to_bytes());
    std::fs::write(&path, format!("enrolment-key ed25519:{key}\n{lines}")).unwrap();
    path.display().to_string()
}

/// `ledger verify --json` with the enrolment key trusted and these pinned heads.
pub fn verify(ledger: &Ledger, pins: &str) -> Ran {
    let trust = trust(ledger.dir(), pins);
    let args = [words(&["verify", "--json", "--trust", &trust]), ledger.named()].concat();
    run(&args)
}
