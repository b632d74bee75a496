//! Whoever is told no is told what is wrong, where, and what to do next.

use std::io::{Read as _, Write as _};

use crate::folder::Folder;

/// Everything a failure of these commands has to say: the exit code, and words of it.
fn fails(folder: &Folder, args: &[&str], code: i32, words: &[&str]) {
    let said = folder.run(args).ends(code);
    for word in words {
        assert!(said.err.contains(word), "{args:?} does not say `{word}`: {}", said.err);
    }
    // What the client library, or a write, would call it helps nobody who reads.
    for odd in ["client error", "not written", "storage failed", "tool's host"] {
        assert!(!said.err.contains(odd), "{args:?} says `{odd}`: {}", said.err);
    }
}

#[test]
fn a_ledger_that_cannot_be_read_is_named_with_what_to_do() {
    let folder = Folder::new();
    folder.write("empty.db", "");
    folder.write(
        "text.db",
        "this is no database, however long one looks at it: ".repeat(20).as_str(),
    );
    for command in ["verify", "tail", "head"] {
        let of = |file| ["ledger", command, "--sqlite", file];
        fails(&folder, &of("none.db"), 2, &["`none.db`", "does not exist", "--config"]);
        fails(&folder, &of("empty.db"), 2, &["`empty.db`", "no gate has written in it yet"]);
        fails(&folder, &of("text.db"), 2, &["`text.db`", "cannot be read as a ledger"]);
        let of = ["ledger", command, "--config", "none.yaml"];
        fails(&folder, &of, 2, &["none.yaml: cannot be read", "wicketgate init"]);
    }
}

#[test]
fn evidence_that_is_none_and_trust_that_is_none_are_named_with_what_to_do() {
    let folder = Folder::new();
    std::fs::create_dir(folder.path("empty")).unwrap();
    folder.write("nobody.txt", "# nobody\n");
    folder.write("wrong.txt", "evidence-kex k.pub\n");
    let of = |trust, bundle| ["evidence", "verify", "--trust", trust, bundle];
    fails(&folder, &of("none.txt", "empty"), 64, &["the trust file `none.txt`", "evidence guide"]);
    fails(&folder, &of("wrong.txt", "empty"), 64, &["`wrong.txt` line 1: unknown keyword"]);
    fails(
        &folder,
        &of("nobody.txt", "none"),
        64,
        &["`none` is not a directory", "evidence export"],
    );
    fails(&folder, &of("nobody.txt", "empty"), 1, &["holds no `manifest.json`", "evidence export"]);
    folder.write("empty/manifest.json", "{}");
    fails(&folder, &of("nobody.txt", "empty"), 1, &["names no `evidence-key`"]);
}

#[test]
fn health_distinguishes_an_unreachable_gate_from_a_server_that_is_not_a_gate() {
    let folder = Folder::new();
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let nobody = format!("http://{}", free.local_addr().unwrap());
    drop(free);
    let asks = ["health", "--url", &nobody];
    fails(&folder, &asks, 2, &[&nobody, "does not answer", "wicketgate serve", "--socket"]);
    fails(&folder, &["health", "--socket", "none.sock"], 2, &["`none.sock`", "operator.listen"]);
    let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", other.local_addr().unwrap());
    let answering = std::thread::spawn(move || {
        let (mut stream, _) = other.accept().unwrap();
        let mut read = [0; 1024];
        let _some = stream.read(&mut read).unwrap();
        let page = "HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno";
        stream.write_all(page.as_bytes()).unwrap();
    });
    fails(&folder, &["health", "--url", &url], 2, &[&url, "404", "is not a gate"]);
    answering.join().unwrap();
}

#[test]
fn a_gate_that_cannot_start_names_the_cause() {
    let folder = Folder::with_manifest();
    fails(&folder, &["serve", "--config", "none.yaml"], 78, &["none.yaml", "wicketgate init"]);
    folder.write(
        "wicketgate.yaml",
        "state: state\noperator: {listen: '127.0.0.1:0'}\ntrust: {manifest_keys: [k.pub]}\n\
         agents:\n- manifest: agent.yaml\n  callers: [{uid: 1000}]\n",
    );
    std::fs::create_dir(folder.path("state")).unwrap();
    folder.write(
        "state/ledger.sqlite",
        "this is no database, however long one looks: ".repeat(20).as_str(),
    );
    let said = folder.run(&["serve"]).ends(1);
    assert!(said.err.contains("state/ledger.sqlite`: keep the file as it is"), "{}", said.err);
}
