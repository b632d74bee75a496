//! N callers, each asking again as soon as it was answered.

use std::future::Future;
use std::time::{Duration, Instant};

/// What callers saw.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Answers per second.
    pub per_second: f64,
    /// Median.
    pub p50: Duration,
    /// 99th percentile.
    pub p99: Duration,
    /// Answers that were none, warm-up included.
    pub failed: u64,
}

impl Seen {
    /// In words.
    pub fn words(&self, of: &str) -> String {
        let failed = match self.failed {
            0 => String::new(),
            n => format!(", **{n} failed**"),
        };
        format!(
            "{} {of}/s, p50 {}, p99 {}{failed}",
            number(self.per_second),
            short(self.p50),
            short(self.p99)
        )
    }

    /// From single durations and the time they took together.
    pub fn of(mut all: Vec<Duration>, took: Duration) -> Self {
        all.sort_unstable();
        let at = |q: usize| all.get(all.len() * q / 100).or(all.last()).copied();
        Self {
            per_second: all.len() as f64 / took.as_secs_f64(),
            p50: at(50).unwrap_or_default(),
            p99: at(99).unwrap_or_default(),
            failed: 0,
        }
    }
}

/// 1,234 as people write it.
pub fn number(n: f64) -> String {
    if n >= 10_000.0 { format!("{:.1} k", n / 1000.0) } else { format!("{n:.0}") }
}

/// A duration in the unit that fits.
pub fn short(d: Duration) -> String {
    let us = d.as_secs_f64() * 1e6;
    if us < 1000.0 { format!("{us:.0} µs") } else { format!("{:.2} ms", us / 1000.0) }
}

/// Drives one task per element of `callers`; each does `ask` over and over.
pub async fn drive<C, A, F>(callers: Vec<C>, warm: Duration, each: Duration, ask: A) -> Seen
where
    C: Send + 'static,
    A: Fn(C, u64) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = C> + Send,
{
    let from = Instant::now() + warm;
    let until = from + each;
    let mut tasks = tokio::task::JoinSet::new();
    for mut caller in callers {
        let ask = ask.clone();
        tasks.spawn(async move {
            let mut all = Vec::new();
            let mut n = 0_u64;
            loop {
                let started = Instant::now();
                if started >= until {
                    return all;
                }
                caller = ask(caller, n).await;
                n += 1;
                let ended = Instant::now();
                if started >= from && ended <= until {
                    all.push(ended - started);
                }
            }
        });
    }
    let mut all = Vec::new();
    while let Some(done) = tasks.join_next().await {
        all.extend(done.expect("a caller failed"));
    }
    Seen::of(all, each)
}
