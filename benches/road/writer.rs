//! The writer alone: entries per second through the real sequencer, stores, journal and spool.

use std::path::Path;
use std::sync::Arc;

use wicketgate::ledger::postgres::{self, PostgresStore};
use wicketgate::ledger::spool::{HeadFile, Spool};
use wicketgate::ledger::sqlite::SqliteStore;
use wicketgate_support::bench::load::Seen;
use wicketgate_support::bench::table::{Row, Table, Target};
use wicketgate_support::bench::{chain, floor};

use crate::Plan;

/// Callers of one chain that share commits in the rows which have a target.
const TARGETED: [usize; 2] = [32, 128];

/// Prints the writer's rows.
pub async fn measure(plan: &Plan, dir: &Path, table: &mut Table) {
    let database = crate::server().database().await;
    let naive = floor::naive_chain(&database.admin_url, 32, plan.each).await;
    let naive_words = format!("naive chain, 32 clients: {}", naive.words("entries"));
    let open_postgres = async |slot: &str| {
        let spool = Spool::open(&dir.join(format!("spool-{slot}"))).unwrap();
        let store =
            PostgresStore::connect(&database.writer_url, postgres::Options::default()).await;
        chain::open(Arc::new(store.unwrap()), Box::new(spool), slot).await
    };
    let grouped = async |chains: usize, callers: usize| {
        floor::grouped(&database.admin_url, (chains, callers), (plan.warm, plan.each)).await
    };
    let file = dir.join("writer.sqlite");
    let sqlite = Arc::new(SqliteStore::open(&file).await.unwrap());
    let journal = HeadFile::open(&dir.join("writer.head")).unwrap();
    let sqlite = chain::open(sqlite, Box::new(journal), "local").await;
    let postgres = open_postgres("local").await;
    for (name, database) in [("SQLite", &sqlite), ("Postgres", &postgres)] {
        for callers in [1, 16, 32, 128, 1024] {
            let seen =
                chain::drive(plan.warm, plan.each, std::slice::from_ref(&database.ledger), callers)
                    .await;
            if name == "Postgres" && TARGETED.contains(&callers) {
                table.add(over_grouped(name, callers, &seen, &grouped(1, callers).await));
            } else {
                table.add(row(name, callers, &seen, &naive, &naive_words));
            }
        }
    }
    sqlite.close().await;
    let mut more = vec![postgres];
    for slot in ["local2", "local3", "local4"] {
        more.push(open_postgres(slot).await);
    }
    let ledgers: Vec<_> = more.iter().map(|o| o.ledger.clone()).collect();
    for each in TARGETED {
        let callers = each * ledgers.len();
        let seen = chain::drive(plan.warm, plan.each, &ledgers, callers).await;
        let bare = grouped(ledgers.len(), callers).await;
        table.add(over_grouped("Postgres, 4 chains", callers, &seen, &bare));
    }
    for open in more {
        open.close().await;
    }
}

fn row(store: &str, callers: usize, seen: &Seen, naive: &Seen, words: &str) -> Row {
    Row {
        what: format!("writer, {store}, {callers} callers, {} B entries", floor::ENTRY_BYTES),
        ours: seen.words("entries"),
        floor: words.to_owned(),
        ratio: Some(seen.per_second / naive.per_second),
        target: None,
    }
}

/// The same over the bare grouped INSERT of as many bytes.
fn over_grouped(store: &str, callers: usize, seen: &Seen, bare: &Seen) -> Row {
    let words = format!("bare grouped INSERT (unnest): {}", bare.words("entries"));
    Row { target: Some(Target::AtLeast(0.6)), ..row(store, callers, seen, bare, &words) }
}
