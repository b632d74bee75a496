//! `file.read` and `file.write` beside the system calls alone: a write without the gate is also staged,
//! synced, renamed and synced again.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use wicketgate::catalog::Binding;
use wicketgate::catalog::binding::{Kind, Root, Writing};
use wicketgate::catalog::schema::Schema;
use wicketgate::domain::digest::Digest;
use wicketgate::domain::id::ToolName;
use wicketgate::domain::tier::Tier;
use wicketgate::enforce::Bounds;
use wicketgate::ledger::sqlite::Sqlite;
use wicketgate::tool::Toolbox;
use wicketgate::tool::mcp::Upstreams;

use crate::road::Gate;

const CALLS: usize = 300;
const SIZES: [usize; 3] = [1 << 10, 64 << 10, 256 << 10];

/// The harness grants these names.
fn bindings(root: &Path) -> Vec<Binding> {
    let root = Root { name: "bench".into(), path: root.to_owned(), ..Root::default() };
    let writing = || Kind::FileWrite(Writing { root: root.clone(), create_parents: false });
    let kinds = [
        ("t0", Tier::T0, Kind::FileRead(root.clone())),
        ("t", Tier::T1, writing()),
        ("t2", Tier::T2, writing()),
    ];
    let binding = |(name, tier, kind): (&str, Tier, Kind)| Binding {
        name: ToolName::parse(name).unwrap(),
        description: "works on a file".into(),
        schema: Schema::parse(br#"{"type":"object","additionalProperties":true}"#).unwrap(),
        kind,
        tier,
        read_only: tier == Tier::T0,
        idempotent: false,
        timeout: Duration::from_secs(10),
        result_bytes_max: 1 << 20,
        cost_micro_usd: None,
        shown: None,
        definition: Digest::of(&[name.as_bytes()]),
    };
    kinds.into_iter().map(binding).collect()
}

fn write_alone(root: &Path, content: &[u8]) {
    let staged = root.join("staged");
    let mut file = File::create(&staged).unwrap();
    file.write_all(content).unwrap();
    file.sync_all().unwrap();
    std::fs::rename(&staged, root.join("f")).unwrap();
    File::open(root).unwrap().sync_all().unwrap();
}

/// In milliseconds.
pub fn median(mut all: Vec<Duration>) -> f64 {
    all.sort();
    all[all.len() / 2].as_secs_f64() * 1e3
}

/// Prints one line per tool and size.
pub async fn measure(dir: &Path) {
    let dir = tempfile::tempdir_in(dir).unwrap();
    let root = dir.path().join("root");
    std::fs::create_dir(&root).unwrap();
    let store = Arc::new(Sqlite::open(&dir.path().join("ledger.sqlite")).await.unwrap());
    let gate = Gate::over(store, Bounds::default(), &Arc::new(AtomicU64::new(0))).await;
    let toolbox = Toolbox::build(bindings(&root), &Upstreams::new(&[])).unwrap();
    gate.road.set_toolbox(toolbox).await.unwrap();
    let run = gate.run().await;
    for size in SIZES {
        let content = "x".repeat(size);
        std::fs::write(root.join("f"), &content).unwrap();
        let write = serde_json::json!({"path": "f", "content": content}).to_string();
        let ways = [
            ("file.read", "t0", r#"{"path":"f"}"#),
            ("file.write T1", "t", write.as_str()),
            ("file.write T2", "t2", write.as_str()),
        ];
        for (name, tool, args) in ways {
            let (mut alone, mut through) = (Vec::new(), Vec::new());
            for _ in 0..CALLS {
                let began = Instant::now();
                if tool == "t0" {
                    assert_eq!(std::fs::read(root.join("f")).unwrap().len(), size);
                } else {
                    write_alone(&root, content.as_bytes());
                }
                alone.push(began.elapsed());
                let began = Instant::now();
                gate.call_tool(&run, tool, args).await.unwrap();
                through.push(began.elapsed());
            }
            let (alone, through) = (median(alone), median(through));
            println!(
                "{name:<14} {size:>7} bytes   alone {alone:>7.3} ms   through the gate {through:>7.3} ms   added {:.3} ms",
                through - alone
            );
        }
    }
    gate.end().await;
}
