//! What a gate stands on: its state directory, its addresses, its ledger and the clock.

use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::time::Duration;

use super::list::CheckSection;
use crate::cli::reader::{self, LedgerLocation};
use crate::clock::{Clock as _, SystemClock};
use crate::config::{Config, Ledger};
use crate::domain::plural::many;
use crate::domain::time::Timestamp;
use crate::ledger::store::{ChainRow, StoreError};
use crate::record::Entry;

/// How long a database may take to answer.
const WITHIN: Duration = Duration::from_secs(10);
/// Free bytes below which a disk is soon full: an hour of a busy gate.
const FREE_BYTES_MIN: u64 = 1 << 30;
/// How far a clock may be behind the newest entry: entries of another machine.
const BEHIND_MS_MAX: i64 = 1_000;

/// The directory with keys, sockets and, by default, the ledger.
pub(super) fn state(config: &Config) -> CheckSection {
    let mut section = CheckSection::new("state");
    let dir = &config.state;
    let shown = dir.display();
    match std::fs::metadata(dir) {
        Ok(meta) if !meta.is_dir() => {
            let hint = "set `state` to a directory of the gate".to_owned();
            section.failed(format!("`{shown}` is not a directory"), hint);
        }
        Ok(meta) => {
            owner(&mut section, dir, &meta);
            free(&mut section, dir);
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => match parent(dir) {
            Some(above) if is_writable(above) => {
                section.passed(format!("`{shown}` is not there yet; the gate makes it"));
                free(&mut section, above);
            }
            Some(_) | None => {
                let hint = format!("make it for the gate's user: mkdir -m 0700 {shown}");
                section.failed(format!("`{shown}` cannot be made by this user"), hint);
            }
        },
        Err(error) => section.failed(format!("`{shown}`: {error}"), None),
    }
    section
}

fn owner(section: &mut CheckSection, dir: &Path, meta: &std::fs::Metadata) {
    let (shown, mode) = (dir.display(), meta.permissions().mode() & 0o777);
    let user = rustix::process::geteuid().as_raw();
    if meta.uid() != user && user != 0 {
        let hint = "run this check as the gate's user".to_owned();
        section.failed(format!("`{shown}` belongs to user {}", meta.uid()), hint);
    } else if mode & 0o077 != 0 {
        let hint = format!("chmod 0700 {shown}");
        section.failed(format!("`{shown}` has the mode {mode:04o}: others may enter it"), hint);
    } else if is_writable(dir) {
        section.passed(format!("`{shown}` is the gate's alone"));
    } else {
        let hint = "mount it writable".to_owned();
        section.failed(format!("`{shown}` cannot be written"), hint);
    }
}

fn is_writable(dir: &Path) -> bool {
    rustix::fs::access(dir, rustix::fs::Access::WRITE_OK).is_ok()
}

/// The nearest directory above that is there.
fn parent(dir: &Path) -> Option<&Path> {
    dir.ancestors().skip(1).find(|above| above.is_dir())
}

fn free(section: &mut CheckSection, dir: &Path) {
    let Ok(of) = rustix::fs::statvfs(dir) else { return };
    let bytes = of.f_bavail.saturating_mul(of.f_frsize);
    let text = format!("{} MiB are free there", bytes >> 20);
    if bytes < FREE_BYTES_MIN {
        section.warned(format!("{text}: a gate whose disk is full denies every call"));
    } else {
        section.passed(text);
    }
}

/// The addresses that the gate will listen on; before it runs nothing else may have them.
pub(super) fn addresses(config: &Config) -> CheckSection {
    let mut section = CheckSection::new("listeners");
    let listen = &config.listen;
    let all = [("operator.listen", Some(config.operator.listen)), ("listen.tcp", listen.tcp)];
    for (name, address) in all {
        let Some(address) = address else { continue };
        bindable(&mut section, name, address);
    }
    section
}

fn bindable(section: &mut CheckSection, name: &str, address: SocketAddr) {
    match TcpListener::bind(address) {
        Ok(_) => section.passed(format!("{name}: {address} is free")),
        Err(error) => {
            let hint = format!("stop what listens there, or set `{name}` to another address");
            section.failed(format!("{name}: {address}: {error}"), hint);
        }
    }
}

/// The ledger and the clock that stamps its entries.
pub(super) async fn ledger(config: &Config) -> (CheckSection, CheckSection) {
    let (mut ledger, mut clock) = (CheckSection::new("ledger"), CheckSection::new("clock"));
    let place = match &config.ledger {
        Ledger::Sqlite(sqlite) if !sqlite.path.exists() => {
            let path = sqlite.path.display();
            ledger.passed(format!("`{path}` is not there yet; the gate makes it"));
            clock.skipped("the ledger has no entry to compare the clock with");
            return (ledger, clock);
        }
        Ledger::Sqlite(sqlite) => LedgerLocation::Sqlite(&sqlite.path),
        Ledger::Postgres(_) => match &config.hub.reader_url_file {
            Some(file) => LedgerLocation::PostgresUrlFile(file),
            None => {
                ledger.skipped(
                    "the ledger is in Postgres, and `hub.reader_url_file` names no login that may read it",
                );
                clock.skipped("the ledger was not read");
                return (ledger, clock);
            }
        },
    };
    match tokio::time::timeout(WITHIN, chains(place)).await {
        Ok(Ok((rows, newest))) => {
            let entries = rows.iter().map(|row| row.head.size).fold(0, u64::saturating_add);
            let (logs, entries) = (many(rows.len(), "log"), many(entries, "entry"));
            ledger.passed(format!("it can be read: {logs}, {entries}"));
            time(&mut clock, newest);
        }
        Ok(Err(why)) => {
            let hint = "look at the file or the login; `wicketgate ledger verify` names damage";
            ledger.failed(why.to_string(), hint.to_owned());
            clock.skipped("the ledger was not read");
        }
        Err(_late) => {
            ledger.unknown("no answer in time", "look at the database and the way to it");
            clock.skipped("the ledger was not read");
        }
    }
    (ledger, clock)
}

/// Why a ledger cannot be read.
#[derive(Debug, thiserror::Error)]
enum UnreadLedger {
    /// It cannot be opened.
    #[error(transparent)]
    Open(#[from] reader::Error),
    /// It cannot be read.
    #[error("{}", .0.reason())]
    Read(#[from] StoreError),
}

/// The logs, and the time of the newest entry in any of them.
async fn chains(
    place: LedgerLocation<'_>,
) -> Result<(Vec<ChainRow>, Option<Timestamp>), UnreadLedger> {
    let reader = reader::open_place(place).await?;
    let rows = reader.chains().await?;
    let mut newest = None;
    for row in &rows {
        let Some(last) = row.head.size.checked_sub(1) else { continue };
        let entries = reader.entries(&row.chain, last, 1).await?;
        let entry = entries.first().and_then(|entry| Entry::parse(&entry.body).ok());
        newest = newest.max(entry.map(|entry| entry.ts));
    }
    Ok((rows, newest))
}

/// Whether this clock is behind the newest entry: the gate would stamp its entries with that time.
fn time(clock: &mut CheckSection, newest: Option<Timestamp>) {
    let Some(newest) = newest else {
        return clock.skipped("the ledger has no entry to compare the clock with");
    };
    let behind = newest.millis().saturating_sub(SystemClock::new().now().millis());
    if behind > BEHIND_MS_MAX {
        let text = format!("this clock is {behind} ms behind the newest entry of the ledger");
        let hint = "set the clock by NTP; deadlines and validities are judged by it".to_owned();
        clock.failed(text, hint);
    } else {
        clock.passed("this clock is not behind the ledger");
    }
}
