//! What the sandbox of a command costs, beside the same program without one, in the same run.
//!
//! `cargo bench --bench command` prints one table. Nothing here asserts a time. See benches/README.md.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a measurement may stop at the first surprise, and prints"
)]

use std::fs::File;
use std::io::Read as _;
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use wicketgate::catalog::command::{CommandLimits, Level, inspect};
use wicketgate::tool::sandbox::{self, Levels, SandboxPlan, SandboxReport, Scratch};

/// Runs of each kind.
const RUNS: usize = 100;
/// What the large process holds, bytes.
const LARGE: usize = 1 << 30;

fn main() -> ExitCode {
    let args: Vec<std::ffi::OsString> = std::env::args_os().collect();
    // The helper is this very program, started again.
    if let Some(end) = sandbox::role(&args) {
        return end;
    }
    if !args.iter().any(|arg| arg == "--bench") {
        println!("run it with: cargo bench --bench command");
        return ExitCode::SUCCESS;
    }
    println!("{:<24} {:>10} {:>10}", "", "median ms", "p95 ms");
    table("small");
    let held = vec![1_u8; LARGE];
    table("1 GiB held");
    assert_eq!(held[LARGE / 2], 1);
    ExitCode::SUCCESS
}

fn program() -> PathBuf {
    let found = ["/usr/bin/true", "/bin/true"].into_iter().map(PathBuf::from);
    found.into_iter().find(|path| path.exists()).unwrap()
}

fn table(what: &str) {
    let plain = || assert!(Command::new(program()).status().unwrap().success());
    row(&format!("{what}, plain"), plain);
    let levels = Levels::default();
    for level in [Level::S1, Level::S2] {
        match levels.check(level) {
            Ok(()) => row(&format!("{what}, {}", level.as_str()), || confined(level)),
            Err(why) => println!("{what}, {}: not measured here: {why}", level.as_str()),
        }
    }
}

fn row(what: &str, run: impl Fn()) {
    let mut took: Vec<Duration> = (0..RUNS)
        .map(|_| {
            let began = Instant::now();
            run();
            began.elapsed()
        })
        .collect();
    took.sort();
    let ms = |at: usize| took[at].as_secs_f64() * 1000.0;
    println!("{what:<24} {:>10.2} {:>10.2}", ms(RUNS / 2), ms(RUNS * 95 / 100));
}

fn confined(level: Level) {
    let file = File::open(program()).unwrap();
    let interpreter = inspect(&std::fs::read(program()).unwrap()).unwrap().interpreter;
    let plan = SandboxPlan {
        level,
        argv: vec!["true".to_owned()],
        env: Vec::new(),
        interpreter,
        read: Vec::new(),
        write: Vec::new(),
        children: Vec::new(),
        scratch: Scratch::None,
        cwd: PathBuf::from("/"),
        network: sandbox::Network::None,
        serves: false,
        cpu: sandbox::next_cpu(),
        uid: sandbox::next_uid(),
        limits: CommandLimits {
            memory_bytes: 512 << 20,
            cpu_seconds: 10,
            pids: 8,
            together: false,
        },
    };
    let (mut command, mut control) = sandbox::supervisor().unwrap();
    let mut child = command.spawn().unwrap();
    drop(command);
    let input = File::open("/dev/null").unwrap();
    sandbox::hand_over(&control, &plan, file.as_fd(), input.as_fd(), (None, None)).unwrap();
    let mut report = Vec::new();
    control.read_to_end(&mut report).unwrap();
    child.wait().unwrap();
    let report = SandboxReport::read(&report).unwrap();
    assert_eq!(report.code, Some(0), "{report:?}");
}
