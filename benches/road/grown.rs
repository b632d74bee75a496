//! What grows with use: calls on a ledger of many entries, and beside many open runs.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use wicketgate::clock::SystemEntropy;
use wicketgate::crypto::keys::SecretKey;
use wicketgate::ledger::postgres::{self, PostgresStore};
use wicketgate::ledger::spool::{HeadFile, Spool};
use wicketgate::ledger::sqlite::SqliteStore;
use wicketgate_support::bench::chain;
use wicketgate_support::bench::folder::{Folder, Sidecar, Store};
use wicketgate_support::bench::load::{Seen, number, short};
use wicketgate_support::bench::table::{Row, Table, Target};

use crate::Plan;
use crate::calls::{self, SMALL};

/// Callers of these rows.
const CALLERS: usize = 32;

/// Both stores, each with a name for what is measured.
async fn stores() -> [Store; 2] {
    [Store::Sqlite, Store::Postgres(crate::server().database().await.writer_url)]
}

/// Calls per second of a gate whose own chain has many entries, over those of one with none.
pub async fn entries(plan: &Plan, folder: &Folder, tool: SocketAddr, table: &mut Table) {
    for store in stores().await {
        let other = stores().await.into_iter().find(|one| one.name() == store.name()).unwrap();
        let make = |what: &str, store: &Store| {
            folder.configure(&format!("{what}-{}", store.name()), store, "fifteen", tool)
        };
        let (empty, grown) = (make("empty", &other), make("grown", &store));
        // It makes its keys and its chain, which the writer here goes on with as the gate itself would.
        grown.start().stop();
        let state = folder.dir().join(format!("grown-{}", store.name()));
        let began = std::time::Instant::now();
        fill(&state, &store, plan.entries).await;
        let filled = began.elapsed().as_secs_f64();
        let [none, many] = in_turn(plan, [&empty, &grown]).await;
        table.add(Row {
            what: format!(
                "governed calls, {}, {CALLERS} callers, {} entries over none",
                store.name(),
                plan.entries
            ),
            ours: format!(
                "{}; written at {} entries/s; start to ready {}",
                many.0.words("calls"),
                number(plan.entries as f64 / filled),
                short(many.1)
            ),
            floor: format!("{}; start to ready {}", none.0.words("calls"), short(none.1)),
            ratio: Some(many.0.per_second / none.0.per_second),
            target: Some(Target::AtLeast(0.95)),
        });
    }
}

/// Appends so many entries to the chain of a gate that has ended, with its keys and its memory of the chain.
async fn fill(state: &Path, store: &Store, entries: u64) {
    let enrolment = SecretKey::load(&state.join("enrolment.key")).unwrap();
    let open = match store {
        Store::Sqlite => {
            let file = SqliteStore::open(&state.join("ledger.sqlite")).await.unwrap();
            let pool = file.pool("default", &SystemEntropy).await.unwrap();
            let journal = HeadFile::open(&state.join("ledger.sqlite.head")).unwrap();
            chain::open_under(enrolment, Arc::new(file), Box::new(journal), &pool).await
        }
        Store::Postgres(url) => {
            let spool = Spool::open(&state.join("spool")).unwrap();
            let store = PostgresStore::connect(url, postgres::Options::default()).await.unwrap();
            // The slots that `Folder::configure` names.
            chain::open_under(enrolment, Arc::new(store), Box::new(spool), "fifteen").await
        }
    };
    chain::fill(&open.ledger, entries).await;
    open.close().await;
}

/// Both measured twice in turn, so that a machine that changes meets both; the better of each, with its start.
async fn in_turn(plan: &Plan, both: [&Sidecar; 2]) -> [(Seen, std::time::Duration); 2] {
    let mut best: [Option<(Seen, std::time::Duration)>; 2] = [None, None];
    for _ in 0..2 {
        for (best, sidecar) in best.iter_mut().zip(both) {
            let running = sidecar.start();
            let seen = calls::governed(plan, &sidecar.socket, CALLERS, SMALL).await;
            let ready = running.ready_after;
            running.stop();
            if best.as_ref().is_none_or(|(old, _)| old.per_second < seen.per_second) {
                *best = Some((seen, ready));
            }
        }
    }
    best.map(Option::unwrap)
}

/// Calls per second beside many open runs that nobody calls in, over those without.
pub async fn runs(plan: &Plan, folder: &Folder, tool: SocketAddr, table: &mut Table) {
    for store in stores().await {
        let name = format!("runs-{}", store.name());
        let sidecar = folder.configure(&name, &store, "fifteen", tool);
        let file = folder.dir().join(format!("{name}.yaml"));
        let text = std::fs::read_to_string(&file).unwrap();
        let raised = format!("limits: {{open_runs_max: {}, ", plan.runs + 1000);
        std::fs::write(&file, text.replace("limits: {", &raised)).unwrap();
        let running = sidecar.start();
        let none = calls::governed(plan, &sidecar.socket, CALLERS, SMALL).await;
        let before = running.memory("VmRSS");
        let began = std::time::Instant::now();
        calls::open_runs(&sidecar.socket, plan.runs).await;
        let opened = plan.runs as f64 / began.elapsed().as_secs_f64();
        let many = calls::governed(plan, &sidecar.socket, CALLERS, SMALL).await;
        let memory = running.memory("VmRSS");
        running.stop();
        table.add(Row {
            what: format!(
                "governed calls, {}, {CALLERS} callers, {} open runs over none",
                store.name(),
                plan.runs
            ),
            ours: format!(
                "{}; opened at {} runs/s; {before:.1} → {memory:.1} MiB RSS",
                many.words("calls"),
                number(opened)
            ),
            floor: none.words("calls"),
            ratio: Some(many.per_second / none.per_second),
            target: Some(Target::AtLeast(0.9)),
        });
    }
}
