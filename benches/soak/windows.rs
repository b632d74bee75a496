//! The time of one store in windows, printed as they end.

use std::collections::BTreeMap;
use std::time::Duration;

use wicketgate_support::bench::load::{Seen, number, short};

use crate::callers::Answers;
use crate::gate::Sizes;

const MIB: f64 = 1024.0 * 1024.0;

/// What is known of a window when it ends.
#[derive(Debug)]
pub struct Ended {
    /// From the start.
    pub at: Duration,
    /// Whether the gate lived all the time.
    pub calm: bool,
    pub answers: Answers,
    pub sizes: Sizes,
}

/// One window, as it is judged.
#[derive(Debug)]
pub struct Window {
    at: Duration,
    pub calm: bool,
    pub seen: Seen,
    slow: u64,
    /// Median, MiB.
    pub memory: f64,
    pub sizes: Sizes,
    refused: String,
}

/// All of them.
#[derive(Debug)]
pub struct Windows {
    store: &'static str,
    began: Duration,
    samples: Vec<f64>,
    pub all: Vec<Window>,
    /// Refusals so far, by code.
    pub shed: BTreeMap<String, u64>,
    pub around: BTreeMap<String, u64>,
    pub wrong: BTreeMap<String, u64>,
}

impl Windows {
    pub fn new(store: &'static str) -> Self {
        Self {
            store,
            began: Duration::ZERO,
            samples: Vec::new(),
            all: Vec::new(),
            shed: BTreeMap::new(),
            around: BTreeMap::new(),
            wrong: BTreeMap::new(),
        }
    }

    /// What the gate takes now, MiB.
    pub fn sample(&mut self, memory: f64) {
        self.samples.push(memory);
    }

    /// Ends one, and prints it.
    pub fn end(&mut self, ended: Ended) {
        let refused = codes([&ended.answers.shed, &ended.answers.around, &ended.answers.wrong]);
        let slow = ended.answers.slow;
        let took = ended.answers.took.clone();
        self.rest(ended.answers);
        let window = Window {
            at: ended.at,
            calm: ended.calm,
            seen: Seen::of(took, ended.at - self.began),
            slow,
            memory: median(std::mem::take(&mut self.samples)),
            sizes: ended.sizes,
            refused,
        };
        self.began = ended.at;
        eprintln!("{}: {}", self.store, window.line());
        self.all.push(window);
    }

    /// Counts what was answered after the last window, too.
    pub fn rest(&mut self, answers: Answers) {
        for (all, more) in [
            (&mut self.shed, answers.shed),
            (&mut self.around, answers.around),
            (&mut self.wrong, answers.wrong),
        ] {
            for (code, count) in more {
                *all.entry(code).or_default() += count;
            }
        }
    }

    /// Medians of a figure over the second quarter of the calm windows and over the last.
    pub fn quarters(&self, figure: impl Fn(&Window) -> f64) -> (f64, f64) {
        let calm: Vec<f64> = self.all.iter().filter(|one| one.calm).map(figure).collect();
        let many = calm.len();
        let of = |from: usize, to: usize| median(calm[from..to].to_vec());
        (of(many / 4, many / 2), of(many * 3 / 4, many))
    }

    /// The largest of a figure.
    pub fn most(&self, figure: impl Fn(&Window) -> u64) -> u64 {
        self.all.iter().map(figure).max().unwrap_or(0)
    }

    /// Prints them all as Markdown.
    pub fn print(&self) {
        println!("\n### {}\n", self.store);
        println!(
            "| s | | calls/s, p50, p99 | slow calls | RSS, MiB | ledger, MiB | WAL, MiB | spool, KiB | rest of the state, KiB | refused |"
        );
        println!("|---|---|---|---|---|---|---|---|---|---|");
        for window in &self.all {
            println!("{}", window.line());
        }
    }
}

impl Window {
    fn line(&self) -> String {
        let sizes = &self.sizes;
        format!(
            "| {:.0} | {} | {}, {}, {} | {} | {:.1} | {:.1} | {:.1} | {:.0} | {:.0} | {} |",
            self.at.as_secs_f64(),
            if self.calm { "calm" } else { "kills" },
            number(self.seen.per_second),
            short(self.seen.p50),
            short(self.seen.p99),
            self.slow,
            self.memory,
            sizes.ledger as f64 / MIB,
            sizes.wal as f64 / MIB,
            sizes.spool as f64 / 1024.0,
            sizes.rest as f64 / 1024.0,
            self.refused,
        )
    }
}

/// `overloaded 3, shutdown 1`.
pub fn codes<'a>(of: impl IntoIterator<Item = &'a BTreeMap<String, u64>>) -> String {
    let all = of.into_iter().flatten().map(|(code, count)| format!("{code} {count}"));
    all.collect::<Vec<_>>().join(", ")
}

/// The middle one; 0 of none.
pub fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied().unwrap_or(0.0)
}
