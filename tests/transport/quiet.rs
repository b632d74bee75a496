//! What a gate does that nobody asked for: nothing. Looked at from outside, by its system calls.

use std::path::Path;

use crate::checker::{calls, check};
use crate::sidecar::Estate;
use crate::tool::Tool;

/// System calls that reach the network or leave a file.
const TRACED: &str = "trace=network,open,openat,creat,mkdir,mkdirat,rename,renameat,renameat2,link,linkat,symlink,symlinkat,mknod,mknodat";

/// The quoted paths in a call.
fn paths(call: &str) -> impl Iterator<Item = &str> {
    call.split('"').skip(1).step_by(2)
}

/// What of a call is not the gate's to do: it leaves a file elsewhere, or speaks to or listens for somebody else.
fn surprise(call: &str, home: &Path, tool: u16) -> bool {
    let name = call.split('(').next().unwrap_or_default();
    let own = |path: &str| {
        let path = home.join(path);
        path.starts_with(home.join("state")) || path.starts_with(home.join("s"))
    };
    match name {
        "bind" => {
            let loopback = call.contains("sin_port=htons(0)") && call.contains("\"127.0.0.1\"");
            !(loopback || call.contains("AF_UNIX") && paths(call).all(own))
        }
        "connect" | "sendto" | "sendmsg" | "sendmmsg" if call.contains("sa_family=") => {
            let to_tool = format!("sin_port=htons({tool}), sin_addr=inet_addr(\"127.0.0.1\")");
            !(call.contains(&to_tool) || call.contains("AF_UNIX") && paths(call).all(own))
        }
        "open" | "openat" => {
            let writes = ["O_WRONLY", "O_RDWR", "O_CREAT"].iter().any(|flag| call.contains(flag));
            writes && !paths(call).all(|path| own(path) || path == "/dev/null")
        }
        "creat" | "mkdir" | "mkdirat" | "rename" | "renameat" | "renameat2" | "link" | "linkat"
        | "symlink" | "symlinkat" | "mknod" | "mknodat" => !paths(call).all(own),
        _ => false,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gate_binds_only_its_listeners_connects_only_to_tools_and_writes_only_its_state() {
    let tool = Tool::start().await;
    let estate = Estate::sqlite(&tool);
    let trace = estate.path("trace").display().to_string();
    let mut sidecar = estate.start_under(&["strace", "-f", "-qqq", "-o", &trace, "-e", TRACED]);
    sidecar.ready().await;
    let agent = sidecar.open().await;
    agent.call("work.do", "a", r#"{"n":1}"#).await.unwrap();
    agent.seal().await.unwrap();
    // The tracer hears no signal, and ends with what it traced.
    rustix::process::kill_process_group(sidecar.pid(), rustix::process::Signal::TERM).unwrap();
    sidecar.ends(0).await;
    let summary = check(&estate.database, &tool, &estate.receipts);
    assert_eq!(calls(&summary, "completed"), 1, "{summary}");
    let text = std::fs::read_to_string(&trace).unwrap();
    let made =
        text.lines().filter_map(|line| line.split_once(' ').map(|(_, call)| call.trim_start()));
    let made: Vec<&str> = made.filter(|call| !call.contains("resumed>")).collect();
    // The C library of a static program opens files with the older call.
    for seen in [&["bind("][..], &["connect("], &["open(", "openat("]] {
        let is_seen = |call: &&&str| seen.iter().any(|one| call.starts_with(one));
        assert!(made.iter().any(|call| is_seen(&call)), "the tracer saw no {seen:?}");
    }
    let home = estate.path("");
    let strange: Vec<&&str> = made.iter().filter(|call| surprise(call, &home, tool.port)).collect();
    assert!(strange.is_empty(), "{strange:#?}");
}
