//! The index beside the ledger: a chain that is broken, a search beside the filler, the index of a hub, and proofs.

use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use serde_json::Value;
use sqlx::{Connection as _, PgConnection, Row as _};
use wicketgate::clock::{Clock as _, SystemClock};
use wicketgate::crypto::merkle;
use wicketgate::crypto::tlog_proof::TlogProof;
use wicketgate::domain::digest::Digest;
use wicketgate::domain::id::{CallId, ChainId, RunId, Seq, ToolName};
use wicketgate::domain::json::Json;
use wicketgate::domain::time::Timestamp;
use wicketgate::index::query::Query;
use wicketgate::index::{Index, RowSearch};
use wicketgate::ledger::drafts::DraftWithPayloads;
use wicketgate::ledger::sqlite::SqliteReader;
use wicketgate::ledger::store::{
    ChainRow, EntryRange, EntryRow, LedgerReader, PayloadRef, PayloadRow, StoreError,
};
use wicketgate::operator::search::Search;
use wicketgate::record::sample::body;
use wicketgate::record::{Draft, Kind};
use wicketgate_support::pg::{Pg, TestDb};

use crate::api::{ApiServer, ask, run_id};
use crate::search::{busy, deny, found, ids, rows};

/// A ledger whose entries are changed when they are read.
struct Altered<F> {
    ledger: SqliteReader,
    alter: F,
    /// Entries that were read in a row.
    read: AtomicU64,
}

impl<F: Fn(&mut EntryRow)> Altered<F> {
    async fn of(api: &ApiServer, alter: F) -> Self {
        let ledger = SqliteReader::open(&api.path("ledger.sqlite")).await.unwrap();
        Self { ledger, alter, read: AtomicU64::new(0) }
    }
}

#[async_trait]
impl<F: Fn(&mut EntryRow) + Send + Sync + 'static> LedgerReader for Altered<F> {
    async fn chains(&self) -> Result<Vec<ChainRow>, StoreError> {
        self.ledger.chains().await
    }

    async fn select(
        &self,
        chain: &ChainId,
        range: EntryRange<'_>,
    ) -> Result<Vec<EntryRow>, StoreError> {
        let mut rows = self.ledger.select(chain, range).await?;
        self.read.fetch_add(u64::try_from(rows.len()).unwrap(), Ordering::SeqCst);
        rows.iter_mut().for_each(&self.alter);
        Ok(rows)
    }

    async fn find_run(&self, run: &RunId) -> Result<Option<ChainId>, StoreError> {
        self.ledger.find_run(run).await
    }

    async fn open_runs(&self, chain: &ChainId) -> Result<Vec<RunId>, StoreError> {
        self.ledger.open_runs(chain).await
    }

    async fn leaves(
        &self,
        chain: &ChainId,
        from: Seq,
        to: Seq,
    ) -> Result<Vec<(Seq, Digest)>, StoreError> {
        self.ledger.leaves(chain, from, to).await
    }

    async fn checkpoints(
        &self,
        chain: &ChainId,
        at_least: Seq,
        limit: u32,
    ) -> Result<Vec<(Seq, String)>, StoreError> {
        self.ledger.checkpoints(chain, at_least, limit).await
    }

    async fn payloads(
        &self,
        chain: &ChainId,
        list: &[PayloadRef],
    ) -> Result<Vec<PayloadRow>, StoreError> {
        self.ledger.payloads(chain, list).await
    }
}

fn now() -> Timestamp {
    SystemClock::new().now()
}

async fn calls_in(index: &Index, query: &str) -> Vec<String> {
    let query = Query::parse(query, now()).unwrap();
    let found = index.calls(RowSearch { query, after: None, limit: 200 }).await.unwrap();
    found.rows.into_iter().map(|row| row.call).collect()
}

/// More entries than the filler reads at once follow each other, so that one of them can fail to.
async fn long(api: &ApiServer) {
    let run = run_id(1);
    api.open_run(run).await;
    for n in 0..1_050 {
        deny(api, run, &format!("c{n}"), "pay.out", "amount").await;
    }
}

/// The last entries of a chain belong to another history: what came before is found, and the chain is not read again in
/// every round.
#[tokio::test]
async fn a_chain_that_is_broken_is_read_up_to_there_and_not_again() {
    let api = ApiServer::open().await;
    long(&api).await;
    let forged = Digest::of(&[b"another history"]);
    let alter = move |row: &mut EntryRow| {
        if row.seq == 1_000 {
            row.prev = forged;
        }
    };
    let ledger = Altered::of(&api, alter).await;
    let index = Index::open(&api.path("broken.sqlite")).unwrap();
    let reach = index.fill(&ledger, None, (now(), u64::MAX)).await.unwrap();
    let broken = reach.broken.unwrap();
    assert_eq!((broken.seq, reach.entries), (1_000, 1_000), "{reach:?}");
    assert!(broken.to_string().contains("run `wicketgate ledger verify`"), "{broken}");
    assert!(reach.behind > 0, "{reach:?}");
    assert_eq!(calls_in(&index, "call:c7").await, ["c7"], "what came before is found");
    let before = ledger.read.load(Ordering::SeqCst);
    for _ in 0..3 {
        let again = index.fill(&ledger, None, (now(), u64::MAX)).await.unwrap();
        assert_eq!(again.broken, reach.broken);
    }
    assert_eq!(ledger.read.load(Ordering::SeqCst), before, "nothing is read again");
    // Emptied, it is read once more, and then it is whole.
    let sound = SqliteReader::open(&api.path("ledger.sqlite")).await.unwrap();
    index.clear().await.unwrap();
    let whole = index.fill(&sound, None, (now(), u64::MAX)).await.unwrap();
    assert_eq!((whole.broken, whole.behind), (None, 0));
}

/// Another process holds the file, so the filler waits: a search does not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_search_does_not_wait_for_the_filler() {
    let api = ApiServer::open().await;
    let run = run_id(1);
    api.open_run(run).await;
    deny(&api, run, "c1", "pay.out", "amount").await;
    let reader = SqliteReader::open(&api.path("ledger.sqlite")).await.unwrap();
    let index = Index::open(&api.path("beside.sqlite")).unwrap();
    index.fill(&reader, None, (now(), u64::MAX)).await.unwrap();
    deny(&api, run, "c2", "pay.out", "amount").await;
    let other = rusqlite::Connection::open(api.path("beside.sqlite")).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let ledger = Altered::of(&api, |_: &mut EntryRow| ()).await;
    let ledger = std::sync::Arc::new(ledger);
    let (filler, read) = (index.clone(), std::sync::Arc::clone(&ledger));
    let filling = tokio::spawn(async move { filler.fill(&*read, None, (now(), u64::MAX)).await });
    // It has read what it wants to put.
    while ledger.read.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(calls_in(&index, "tool:pay.out").await, ["c1"]);
    assert!(!filling.is_finished(), "the search waited for the filler");
    other.execute_batch("ROLLBACK").unwrap();
    assert_eq!(filling.await.unwrap().unwrap().behind, 0);
    assert_eq!(calls_in(&index, "tool:pay.out").await, ["c2", "c1"]);
}

/// Every row of the index of a hub, in the order and the form of a SQLite file.
async fn hub_rows(db: &TestDb) -> Vec<String> {
    let mut admin = PgConnection::connect(&db.admin_url).await.unwrap();
    let mut all = Vec::new();
    for (table, columns, key) in [
        (
            "call",
            "chain, seq, at, run, call, agent, version, tool, tier, verdict, enforced, state, code, detail, rule, \
            outcome, us, masked, approvals, decided_by, codes, findings, hosts, last",
            "chain, seq",
        ),
        ("cursor", "chain, next, leaf, at", "chain"),
        ("mark", "kind, value, at, chain, seq", "kind, value, chain, seq"),
        (
            "run",
            "run, chain, seq, at, agent, version, manifest, parent, sealed, reason, calls, running, held, denied",
            "run, chain",
        ),
    ] {
        let columns: Vec<&str> = columns.split(", ").map(str::trim).collect();
        let texts: Vec<String> = columns
            .iter()
            .map(|name| format!("CASE WHEN {name} IS NULL THEN 'Null' ELSE {name}::text END"))
            .collect();
        let sql = format!(
            "SELECT concat_ws('|', {}) FROM console.{table} ORDER BY {key}",
            texts.join(", ")
        );
        for row in sqlx::query(sqlx::AssertSqlSafe(sql)).fetch_all(&mut admin).await.unwrap() {
            all.push(format!("{table} {}", row.get::<String, _>(0)));
        }
    }
    all
}

/// The same of a SQLite file.
fn file_rows(path: &std::path::Path) -> Vec<String> {
    use rusqlite::types::Value as Cell;
    rows(path)
        .into_iter()
        .map(|(table, cells)| {
            let cells = cells.into_iter().map(|cell| match cell {
                Cell::Null => "Null".to_owned(),
                Cell::Integer(number) => number.to_string(),
                Cell::Real(number) => number.to_string(),
                Cell::Text(text) => text,
                Cell::Blob(bytes) => format!("\\x{}", hex::encode(bytes)),
            });
            format!("{table} {}", cells.collect::<Vec<_>>().join("|"))
        })
        .collect()
}

#[tokio::test]
async fn the_index_of_a_hub_has_the_rows_of_a_file_however_it_is_filled() {
    let api = ApiServer::open().await;
    busy(&api).await;
    let reader = SqliteReader::open(&api.path("ledger.sqlite")).await.unwrap();
    let file = Index::open(&api.path("whole.sqlite")).unwrap();
    file.fill(&reader, None, (now(), u64::MAX)).await.unwrap();
    let expected = file_rows(&api.path("whole.sqlite"));
    assert!(expected.iter().any(|row| row.starts_with("mark code|amount")), "{expected:?}");
    let db = Pg::cluster().database().await;
    let hub = |holder| Index::postgres(&db.operator_url, holder).unwrap();
    // Two replicas fill at once, in steps of any size: the batch of who comes second is dropped.
    let (one, other) = (hub("one"), hub("other"));
    for most in [1, 7, 30, u64::MAX] {
        let (first, second) = tokio::join!(
            one.fill(&reader, None, (now(), most)),
            other.fill(&reader, None, (now(), most))
        );
        first.and(second).unwrap();
    }
    assert_eq!(one.fill(&reader, None, (now(), u64::MAX)).await.unwrap().behind, 0);
    assert_eq!(hub_rows(&db).await, expected);
    one.clear().await.unwrap();
    assert_eq!(hub_rows(&db).await, Vec::<String>::new());
    other.fill(&reader, None, (now(), u64::MAX)).await.unwrap();
    assert_eq!(hub_rows(&db).await, expected);
    // Both find the same.
    for query in [
        "",
        "amount",
        "tool:pay.*",
        "-tool:pay.*",
        "state:held",
        "-state:held",
        "code:four*",
        "held",
        "agent:refund*",
        "chain:0",
        "verdict:deny code:amount",
        "since:1h -verdict:deny",
        "until:1h",
        "finding:masked",
        "by:none",
        "host:pay.test",
        "b.te",
        "-host:pay*",
        "version:1.2.0 state:expired",
        &format!("run:{}", run_id(3)),
        &run_id(4).to_string()[..6],
        "rule:wicket*",
        "parent:none",
        "enforced:yes",
    ] {
        let (here, there) = (calls_in(&file, query).await, calls_in(&one, query).await);
        assert_eq!(here, there, "{query}");
    }
    let row = one.run(&run_id(5)).await.unwrap().unwrap();
    let counts = row.counts;
    assert_eq!((counts.all, counts.running, counts.held, counts.denied), (3, 0, 1, 1));
    let (calls, more) = one.calls_of((&run_id(5), &row.chain), None, 2).await.unwrap();
    assert!(more && calls[0].call == "denied", "{calls:?}");
    let rest = one.calls_of((&run_id(5), &row.chain), Some(calls[1].seq), 2).await.unwrap();
    assert_eq!((rest.0.len(), rest.0[0].call.as_str(), rest.1), (1, "held", false));
}

#[tokio::test]
async fn one_replica_of_a_hub_fills_and_a_hub_sees_its_own_tenant_alone() {
    let db = Pg::cluster().database().await;
    let hub = |holder| Index::postgres(&db.operator_url, holder).unwrap();
    let (one, other) = (hub("one"), hub("other"));
    assert!(one.turn().await.unwrap());
    assert!(!other.turn().await.unwrap());
    assert!(one.turn().await.unwrap(), "it goes on");
    let mut admin = PgConnection::connect(&db.admin_url).await.unwrap();
    let gone = "UPDATE console.filler SET until = now() - interval '1 second'";
    sqlx::query(gone).execute(&mut admin).await.unwrap();
    assert!(other.turn().await.unwrap(), "the one that filled is silent");
    assert!(!one.turn().await.unwrap());
    // A row of another tenant is not there, and none can be put.
    let api = ApiServer::open().await;
    let run = run_id(1);
    api.open_run(run).await;
    deny(&api, run, "c1", "pay.out", "amount").await;
    let reader = SqliteReader::open(&api.path("ledger.sqlite")).await.unwrap();
    one.fill(&reader, None, (now(), u64::MAX)).await.unwrap();
    assert_eq!(calls_in(&one, "").await, ["c1"]);
    for table in ["call", "mark", "run", "cursor"] {
        let moved = format!("UPDATE console.{table} SET tenant = 'other'");
        sqlx::query(sqlx::AssertSqlSafe(moved)).execute(&mut admin).await.unwrap();
    }
    assert_eq!(calls_in(&one, "").await, Vec::<String>::new());
    for query in ["agent:a*", "code:amount", "c1", "-tool:x"] {
        assert_eq!(calls_in(&one, query).await, Vec::<String>::new(), "{query}");
    }
    // Who writes calls or reads the ledger has no part in it.
    for url in [&db.writer_url, &db.reader_url, &db.other_writer_url] {
        let index = Index::postgres(url, "x").unwrap();
        let query = Query::parse("", now()).unwrap();
        let refused = index.calls(RowSearch { query, after: None, limit: 1 }).await.unwrap_err();
        // The server does not even show them that it is there.
        let told = refused.to_string();
        assert!(["42501", "42P01"].iter().any(|code| told.contains(code)), "{told}");
    }
}

#[tokio::test]
async fn a_search_of_a_hub_that_takes_too_long_says_so_also_on_a_connection_that_was_used() {
    let db = Pg::cluster().database().await;
    let index = Index::postgres(&db.operator_url, "one").unwrap();
    assert_eq!(calls_in(&index, "").await, Vec::<String>::new());
    let mut admin = PgConnection::connect(&db.admin_url).await.unwrap();
    for sql in ["BEGIN", "LOCK TABLE console.call"] {
        sqlx::query(sql).execute(&mut admin).await.unwrap();
    }
    let query = Query::parse("", now()).unwrap();
    let late = index.calls(RowSearch { query, after: None, limit: 1 }).await.unwrap_err();
    assert!(matches!(late, wicketgate::index::Error::Long), "{late}");
}

#[tokio::test]
async fn a_receipt_is_proven_under_the_signed_checkpoint() {
    let api = ApiServer::open().await;
    let run = run_id(1);
    api.open_run(run).await;
    deny(&api, run, "c1", "pay.out", "amount").await;
    let call = found(&api, "c1").await["calls"][0].clone();
    let chain = call["chain"].as_str().unwrap();
    let path = |seq: &str| format!("/v1/receipts/{chain}/{seq}/proof");
    let (status, proof) = api.get("vera", &path(&call["seq"].to_string())).await;
    assert_eq!(status, 200, "{proof}");
    let read = TlogProof::parse(proof["proof"].as_str().unwrap()).unwrap();
    let leaf = Digest::parse(proof["leaf"].as_str().unwrap()).unwrap();
    assert!(read.includes(&leaf) && !read.includes(&Digest::of(&[b"x"])), "{proof}");
    let reader = SqliteReader::open(&api.path("ledger.sqlite")).await.unwrap();
    let seq = call["seq"].as_u64().unwrap();
    let rows = reader.entries(&ChainId::parse(chain).unwrap(), seq, 1).await.unwrap();
    assert_eq!(merkle::leaf_hash(&rows[0].body), leaf);
    let one = api.get("vera", &format!("/v1/calls/{chain}/{seq}")).await.1;
    assert_eq!(
        (&one["unproven"], one["entries"][0]["leaf"].as_str()),
        (&Value::Null, proof["leaf"].as_str())
    );
    assert!(one["checkpoint"].as_u64() > Some(seq), "{one}");
    for wrong in ["99999", "x"] {
        assert_eq!(api.get("vera", &path(wrong)).await.0, 404, "{wrong}");
    }
    let foreign = format!("/v1/receipts/{}/0/proof", "0".repeat(32));
    assert_eq!(api.get("vera", &foreign).await.0, 404);
    let other = ApiServer::of("other").await;
    other.open_run(run).await;
    let reader = SqliteReader::open(&other.path("ledger.sqlite")).await.unwrap();
    let chain = reader.chains().await.unwrap()[0].chain;
    assert_eq!(other.get("vera", &format!("/v1/receipts/{chain}/0/proof")).await.0, 404);
}

/// Who can write into the database changed an entry and what is kept beside it: the call is shown, and said not to be
/// proven.
#[tokio::test]
async fn an_entry_that_was_changed_is_not_said_to_be_in_the_checkpoint() {
    let api = ApiServer::open().await;
    let run = run_id(1);
    api.open_run(run).await;
    deny(&api, run, "c1", "pay.out", "amount").await;
    let alter = |row: &mut EntryRow| {
        let text = String::from_utf8(row.body.clone()).unwrap();
        row.body = text.replace(r#""detail":"amount""#, r#""detail":"forged""#).into_bytes();
        row.leaf = merkle::leaf_hash(&row.body);
    };
    let ledger = Altered::of(&api, alter).await;
    let index = Index::memory().unwrap();
    let search = Search { index: &index, reader: &ledger, tenant: None, now: now() };
    search.fill(u64::MAX).await.unwrap();
    let query = Query::parse("c1", now()).unwrap();
    let row = index.calls(RowSearch { query, after: None, limit: 1 }).await.unwrap().rows.remove(0);
    let shown = search.call(&row.chain, row.seq).await.unwrap();
    assert_eq!((shown.call.detail.as_deref(), shown.checkpoint), (Some("forged"), None));
    let why = shown.unproven.unwrap();
    assert!(why.contains("is not the one that the log has"), "{why}");
    let refused = search.proof(&row.chain, row.seq).await.unwrap_err();
    assert!(refused.to_string().contains("ledger verify"), "{refused}");
}

/// Records that this approver released a held call, and that it ran.
async fn release(api: &ApiServer, run: RunId, call: &str, by: &str) {
    let draft = |kind, members: Vec<(&'static str, Json)>| Draft {
        run: Some(run),
        call: CallId::parse(call),
        tool: ToolName::parse("payments.refund").filter(|_| kind == Kind::CallAuthorized),
        verdict: (kind == Kind::CallAuthorized)
            .then_some(wicketgate::domain::decision::Verdict::Allow),
        ..Draft::of(body(kind, members))
    };
    for one in [
        draft(Kind::ApprovalGranted, vec![("subject", Json::from(by))]),
        draft(Kind::CallAuthorized, vec![("enforced", Json::from(true))]),
        draft(Kind::CallCompleted, vec![]),
    ] {
        api.ledger.record(DraftWithPayloads::bare(one)).await.unwrap();
    }
}

#[tokio::test]
async fn a_held_call_is_compared_with_the_last_approved_one_of_its_kind() {
    let api = ApiServer::open().await;
    let run = run_id(1);
    api.open_run(run).await;
    api.hold(ask(run, "new", r#"{"amount":4200,"iban":"DE89","note":"x"}"#)).await;
    let path = format!("/v1/similar/{run}/new");
    let (status, none) = api.get("aude", &path).await;
    assert_eq!((status, &none["against"]), (200, &Value::Null), "{none}");
    assert!(api.entries(Kind::PayloadViewed).await.is_empty(), "nothing was shown");
    for (call, args, by) in [
        ("older", r#"{"amount":7,"iban":"DE12","note":"x"}"#, "al"),
        ("last", r#"{"amount":1200,"iban":"DE12","note":"x","to":"b"}"#, "bo"),
    ] {
        api.hold(ask(run, call, args)).await;
        release(&api, run, call, by).await;
    }
    // Held, and never approved; and of another tool.
    api.hold(ask(run, "waits", r#"{"amount":1}"#)).await;
    api.end_call(run, "waits").await;
    let (status, similar) = api.get("aude", &path).await;
    assert_eq!(status, 200, "{similar}");
    let against = &similar["against"];
    assert_eq!(
        (&against["call"], &against["decided_by"]),
        (&"last".into(), &serde_json::json!(["bo"]))
    );
    let changes: Vec<String> = similar["changes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| format!("{} {} {}", one["at"], one["old"], one["new"]).replace('\\', ""))
        .collect();
    let expected =
        [r#""/amount" "1200" "4200""#, r#""/iban" ""DE12"" ""DE89"""#, r#""/to" ""b"" null"#];
    assert_eq!(changes, expected, "{similar}");
    assert_eq!(similar["more"], false);
    // Who sees the arguments of the other call is recorded, and who may not read them does not.
    let viewed = api.entries(Kind::PayloadViewed).await;
    let member = |name: &str| viewed[0].get(name).and_then(Json::as_str).map(str::to_owned);
    assert_eq!(
        (viewed.len(), member("by"), member("call")),
        (1, Some("aude".into()), Some("last".into()))
    );
    assert_eq!(api.get("vera", &path).await.0, 403);
    assert_eq!(api.get("aude", &format!("/v1/similar/{run}/last")).await.0, 404, "it is not held");
    assert_eq!(ids(&found(&api, "state:held").await), ["new"]);
}

#[tokio::test]
async fn a_person_who_approves_again_with_another_key_is_one_approval() {
    let api = ApiServer::open().await;
    let run = run_id(1);
    api.open_run(run).await;
    api.hold(ask(run, "c1", r#"{"amount":1}"#)).await;
    for (by, key, counted) in [("al", "passkey", 1), ("Al", "file", 1), ("bo", "file", 2)] {
        let members = vec![("subject", Json::from(by)), ("key_kind", Json::from(key))];
        let granted = Draft {
            run: Some(run),
            call: CallId::parse("c1"),
            ..Draft::of(body(Kind::ApprovalGranted, members))
        };
        api.ledger.record(DraftWithPayloads::bare(granted)).await.unwrap();
        let line = found(&api, "call:c1").await;
        assert_eq!(line["calls"][0]["approvals"], counted, "{by}: {line}");
    }
}
