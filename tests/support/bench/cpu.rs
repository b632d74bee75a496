//! Processor time, user and system together.

use std::time::Duration;

/// What this process used so far.
pub fn of(pid: u32) -> Duration {
    let [user, system, ..] = ticks(pid).unwrap_or_default();
    time(user + system)
}

/// What this process used so far with those of its children that have ended.
pub fn with_ended(pid: u32) -> Duration {
    time(ticks(pid).unwrap_or_default().iter().sum())
}

/// `utime`, `stime`, and those of the children that were waited for (proc_pid_stat(5)).
fn ticks(pid: u32) -> Option<[u64; 4]> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<u64> = stat
        .rsplit_once(')')?
        .1
        .split_whitespace()
        .skip(11)
        .take(4)
        .map_while(|field| field.parse().ok())
        .collect();
    fields.try_into().ok()
}

/// The kernel's USER_HZ is 100 on every Linux.
fn time(ticks: u64) -> Duration {
    Duration::from_millis(ticks * 10)
}
