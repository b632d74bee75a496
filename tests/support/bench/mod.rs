//! What the benches share: how one begins and ends, the folder of a gate, the load, the floors it is compared with, and
//! the table that says the ratios.
#![allow(clippy::print_stdout, reason = "a bench prints its table")]

pub mod chain;
pub mod cpu;
pub mod floor;
pub mod folder;
pub mod gate;
pub mod load;
pub mod policies;
pub mod server;
pub mod table;
pub mod tool;

use std::path::PathBuf;
use std::time::Duration;

/// What was asked for on the command line, without the program's name.
#[derive(Clone, Debug)]
pub struct Asked {
    args: Vec<String>,
}

impl Asked {
    /// Reads it. `cargo test --all-targets` runs benches too, without `--bench`: then the way to run this one is
    /// told, and there is nothing to do.
    pub fn read(usage: &str) -> Option<Self> {
        let args: Vec<String> = std::env::args().skip(1).collect();
        let asked = args.iter().any(|arg| arg == "--bench");
        if !asked {
            println!("run it with: cargo bench --bench {usage}");
        }
        asked.then_some(Self { args })
    }

    /// Whether short measurements will do.
    pub fn quick(&self) -> bool {
        self.args.iter().any(|arg| arg == "--quick")
    }

    /// Whether this part is measured: named, or nothing is.
    pub fn wants(&self, part: &str) -> bool {
        let word = |arg: &&String| !arg.starts_with('-') && arg.parse::<u64>().is_err();
        let mut words = self.args.iter().filter(word).peekable();
        words.peek().is_none() || words.any(|word| word == part)
    }

    /// Whether this part is measured: only if it is named.
    pub fn names(&self, part: &str) -> bool {
        self.args.iter().any(|arg| arg == part)
    }

    /// The number after this switch.
    pub fn number(&self, switch: &str) -> Option<u64> {
        let at = self.args.iter().position(|arg| arg == switch)?;
        self.args.get(at + 1)?.parse().ok()
    }
}

/// Measures on a runtime of as many threads as there are cores.
pub fn run(usage: &str, measure: impl AsyncFnOnce(Asked)) {
    let Some(asked) = Asked::read(usage) else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(measure(asked));
    // A bench leaves servers behind that never end by themselves.
    runtime.shutdown_timeout(Duration::from_secs(1));
}

/// A line of `/proc/<pid>/status` of this process, in MiB: `VmRSS`, `VmHWM`, `RssAnon`.
pub fn memory_of(pid: u32, name: &str) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with(name)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() / 1024.0
}

/// Where ledgers are made: `WICKETGATE_BENCH_DIR`, or beside the build.
pub fn dir() -> PathBuf {
    let dir = std::env::var("WICKETGATE_BENCH_DIR").unwrap_or_else(|_| "target".into());
    std::path::absolute(dir).unwrap()
}
