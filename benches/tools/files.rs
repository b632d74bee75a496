//! `file.read` and `file.write` beside the system calls alone: a write without the gate is also staged,
//! synced, renamed and synced again.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;

use wicketgate::catalog::Binding;
use wicketgate::catalog::binding::{Kind, Root, Writing};
use wicketgate::domain::tier::Tier;

use crate::turns::{Setup, binding};

const SIZES: [usize; 3] = [1 << 10, 64 << 10, 256 << 10];

fn bindings(root: &Path) -> Vec<Binding> {
    let root = Root { name: "bench".into(), path: root.to_owned(), ..Root::default() };
    let writing =
        || Kind::FileWrite(Writing { root: root.clone(), create_parents: false, edits: false });
    vec![
        binding("t0", Tier::T0, Kind::FileRead(root.clone())),
        binding("t", Tier::T1, writing()),
        binding("t2", Tier::T2, writing()),
    ]
}

fn write_alone(root: &Path, content: &[u8]) {
    let staged = root.join("staged");
    let mut file = File::create(&staged).unwrap();
    file.write_all(content).unwrap();
    file.sync_all().unwrap();
    std::fs::rename(&staged, root.join("f")).unwrap();
    File::open(root).unwrap().sync_all().unwrap();
}

/// Prints one line per tool and size.
pub async fn measure(dir: &Path) {
    let setup = Setup::new(dir).await;
    let root = setup.path("root");
    std::fs::create_dir(&root).unwrap();
    setup.tools(bindings(&root)).await;
    for size in SIZES {
        let content = "x".repeat(size);
        std::fs::write(root.join("f"), &content).unwrap();
        let args = serde_json::json!({"path": "f", "content": content}).to_string();
        let read = async || assert_eq!(std::fs::read(root.join("f")).unwrap().len(), size);
        let write = async || write_alone(&root, content.as_bytes());
        let what = |kind: &str| format!("{kind}, {size} bytes");
        setup.by_turns(&what("file.read"), "t0", r#"{"path":"f"}"#, read).await;
        setup.by_turns(&what("file.write T1"), "t", &args, write).await;
        setup.by_turns(&what("file.write T2"), "t2", &args, write).await;
    }
    setup.gate.end().await;
}
