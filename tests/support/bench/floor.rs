//! What the parts cost by themselves: the disk, a commit, the chain as one would first write it.

use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use sqlx::postgres::PgConnection;
use sqlx::{Connection as _, Row as _};
use tokio::sync::{mpsc, oneshot};

use super::load::{self, Seen, short};

/// Bytes of one entry in every floor.
pub const ENTRY_BYTES: usize = 640;

/// Device, database and load before anything is measured.
pub async fn machine(dir: &Path, admin_url: &str) -> String {
    let mut conn = PgConnection::connect(admin_url).await.unwrap();
    let row = sqlx::query(
        "SELECT current_setting('synchronous_commit'), current_setting('fsync'), version()",
    )
    .fetch_one(&mut conn)
    .await
    .unwrap();
    let (commit, fsync, version): (String, String, String) = (row.get(0), row.get(1), row.get(2));
    let version = version.split(" on ").next().unwrap_or_default().to_owned();
    format!(
        "machine: {} cores, {}; {version}, synchronous_commit {commit}, fsync {fsync}; SQLite synchronous FULL\nbefore: {}",
        std::thread::available_parallelism().map_or(0, usize::from),
        cpu(),
        after(dir),
    )
}

/// fdatasync and load now.
pub fn after(dir: &Path) -> String {
    let sync = fdatasync(dir);
    format!(
        "fdatasync of 4 KiB: p50 {}, p99 {}; load average {}",
        short(sync.p50),
        short(sync.p99),
        std::fs::read_to_string("/proc/loadavg")
            .unwrap_or_default()
            .split(' ')
            .take(3)
            .collect::<Vec<_>>()
            .join(" ")
    )
}

fn cpu() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = text.lines().find_map(|l| l.strip_prefix("model name"));
    name.map(|n| n.trim_start_matches([' ', '\t', ':']).to_owned()).unwrap_or_default()
}

/// Appends of 4 KiB, each made durable, in this directory.
pub fn fdatasync(dir: &Path) -> Seen {
    let path = dir.join("sync.probe");
    let mut file = std::fs::File::create(&path).unwrap();
    let mut all = Vec::new();
    let started = Instant::now();
    for _ in 0..300 {
        let one = Instant::now();
        file.write_all(&[7; 4096]).unwrap();
        file.sync_data().unwrap();
        all.push(one.elapsed());
    }
    std::fs::remove_file(path).unwrap();
    Seen::of(all, started.elapsed())
}

/// One durable INSERT of one entry's bytes after another, on one connection.
pub async fn commit(admin_url: &str, each: Duration) -> Seen {
    let mut conn = PgConnection::connect(admin_url).await.unwrap();
    sqlx::raw_sql("CREATE TABLE IF NOT EXISTS bare (n bigserial PRIMARY KEY, body bytea)")
        .execute(&mut conn)
        .await
        .unwrap();
    load::drive(vec![conn], each / 8, each, |mut conn, _| async move {
        sqlx::query("INSERT INTO bare (body) VALUES ($1)")
            .bind(vec![7_u8; ENTRY_BYTES])
            .execute(&mut conn)
            .await
            .unwrap();
        conn
    })
    .await
}

/// An entry's bytes, and who waits for their commit.
type Waiting = (Vec<u8>, oneshot::Sender<()>);
/// Most entries of one statement.
const GROUP: usize = 1000;

/// A bare grouped INSERT: entries that wait at the same time go into one statement (`unnest`, bound parameters) and share
/// its commit. So many connections with a table's key of their own, to which the callers are spread evenly.
pub async fn grouped(
    admin_url: &str,
    (chains, callers): (usize, usize),
    (warm, each): (Duration, Duration),
) -> Seen {
    let mut conn = PgConnection::connect(admin_url).await.unwrap();
    sqlx::raw_sql(
        "DROP TABLE IF EXISTS grouped;
         CREATE TABLE grouped (chain int, seq bigint, body bytea, PRIMARY KEY (chain, seq))",
    )
    .execute(&mut conn)
    .await
    .unwrap();
    let mut senders = Vec::new();
    for chain in 0..i32::try_from(chains).unwrap() {
        let (send, waiting) = mpsc::channel(4096);
        tokio::spawn(group(PgConnection::connect(admin_url).await.unwrap(), chain, waiting));
        senders.push(send);
    }
    let callers = (0..callers).map(|n| senders[n % chains].clone()).collect();
    load::drive(callers, warm, each, |send: mpsc::Sender<Waiting>, _| async move {
        let (done, committed) = oneshot::channel();
        send.send((vec![7_u8; ENTRY_BYTES], done)).await.unwrap();
        committed.await.unwrap();
        send
    })
    .await
}

/// Writes what waits, again and again, until nothing can come any more.
async fn group(mut conn: PgConnection, chain: i32, mut waiting: mpsc::Receiver<Waiting>) {
    let (mut size, mut batch) = (0_i64, Vec::new());
    while waiting.recv_many(&mut batch, GROUP).await > 0 {
        let (bodies, done): (Vec<_>, Vec<_>) = batch.drain(..).unzip();
        let next = size + i64::try_from(bodies.len()).unwrap();
        sqlx::query("INSERT INTO grouped SELECT $1, * FROM unnest($2::bigint[], $3::bytea[])")
            .bind(chain)
            .bind((size..next).collect::<Vec<_>>())
            .bind(bodies)
            .execute(&mut conn)
            .await
            .unwrap();
        size = next;
        for one in done {
            // A caller whose time is over does not wait.
            let _ = one.send(());
        }
    }
}

/// The chain as one would first write it: lock the head, insert, commit, once per entry.
pub async fn naive_chain(admin_url: &str, clients: usize, each: Duration) -> Seen {
    let mut conn = PgConnection::connect(admin_url).await.unwrap();
    sqlx::raw_sql(
        "DROP TABLE IF EXISTS naive_entry, naive_head;
         CREATE TABLE naive_head (one int PRIMARY KEY, size bigint, hash bytea);
         INSERT INTO naive_head VALUES (1, 0, '');
         CREATE TABLE naive_entry (seq bigint PRIMARY KEY, hash bytea, body bytea)",
    )
    .execute(&mut conn)
    .await
    .unwrap();
    let mut conns = Vec::new();
    for _ in 0..clients {
        conns.push(PgConnection::connect(admin_url).await.unwrap());
    }
    load::drive(conns, each / 4, each, |mut conn, _| async move {
        let mut tx = conn.begin().await.unwrap();
        let head = sqlx::query("SELECT size, hash FROM naive_head WHERE one = 1 FOR UPDATE")
            .fetch_one(&mut *tx)
            .await
            .unwrap();
        let (size, before): (i64, Vec<u8>) = (head.get(0), head.get(1));
        let body = vec![7_u8; ENTRY_BYTES];
        let hash =
            wicketgate_record::domain::digest::Digest::of(&[&before, &body]).as_bytes().to_vec();
        sqlx::query("INSERT INTO naive_entry VALUES ($1, $2, $3)")
            .bind(size)
            .bind(hash.clone())
            .bind(body)
            .execute(&mut *tx)
            .await
            .unwrap();
        sqlx::query("UPDATE naive_head SET size = $1, hash = $2 WHERE one = 1")
            .bind(size + 1)
            .bind(hash)
            .execute(&mut *tx)
            .await
            .unwrap();
        tx.commit().await.unwrap();
        conn
    })
    .await
}
