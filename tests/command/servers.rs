//! MCP servers in the sandbox, the fixture being one that is told what to try.

use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::agent::Agent;
use crate::escape::World;
use crate::estate::{Estate, alive, answer, program, python};
use crate::process;
use crate::waiting::until;
use wicketgate_support::program::gate;

const SERVER: &str = include_str!("server.py");

/// The fixture, as `servers[]` has it, in this sandbox. It reads `data` and writes `ws`, and has this mark.
pub fn fixture(dir: &Path, name: &str, sandbox: Value, mark: &str) -> Value {
    let script = dir.join("data/server.py");
    std::fs::write(&script, SERVER).unwrap();
    let mut sandbox = sandbox;
    if sandbox["level"] != "none" {
        sandbox["read"] = json!(["data"]);
        sandbox["write"] = json!(["ws"]);
    }
    json!({"name": name, "tier": "T1", "timeout_ms": 60_000,
        "stdio": {"command": python(), "args": ["-I", "-S", "-B", script, mark], "sandbox": sandbox}})
}

/// One server in each level: `S1`, `S2`.
fn both(more: &Value, mark: &str) -> Estate {
    Estate::with(&[], |dir| {
        let of = |level: &str| {
            let mut sandbox = more.clone();
            sandbox["level"] = json!(level);
            fixture(dir, &level.to_lowercase(), sandbox, mark)
        };
        vec![of("S1"), of("S2")]
    })
}

/// What the server says, and whether it calls that an error.
pub async fn ask(agent: &Agent, tool: &str, args: Value) -> (String, bool) {
    let got = answer(agent.call(tool, "", &args.to_string()).await);
    let text = got["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{got}"));
    (text.to_owned(), got["isError"] == json!(true))
}

fn marker(name: &str) -> String {
    format!("wgs-{name}-{}", std::process::id())
}

async fn gone(mark: &str) {
    until(&format!("`{mark}` to be gone"), || async { alive(mark).is_empty() }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hostile_server_reaches_nothing_in_either_level() {
    let mut world = World::new();
    let estate = both(&json!({}), "attack");
    let gate = estate.serve();
    let agent = gate.open().await;
    for server in ["s1", "s2"] {
        // It runs where it may write; what it may not is tried from elsewhere.
        let attack = world.script(true, gate.id(), gate.operators().port());
        let text = format!("import os\nos.chdir('/')\n{attack}");
        let (worked, failed) = ask(&agent, &format!("{server}.run"), json!({"text": text})).await;
        // In `S2` that is a directory of its own.
        let own = if server == "s2" { r#"["write /tmp/wicketgate-made"]"# } else { "[]" };
        assert_eq!((worked.trim(), failed), (own, false), "{server}");
        assert!(!Path::new("/tmp/wicketgate-made").exists());
        for name in ["manifest", "wicketgate.yaml", "state/ledger.sqlite", "s/agent.sock"] {
            let path = estate.path(name);
            assert!(path.exists(), "{name}");
            let (why, failed) = ask(&agent, &format!("{server}.read"), json!({"path": path})).await;
            assert!(failed, "{server} read `{name}`: {why}");
        }
    }
    assert!(world.is_untouched());
    assert!(rustix::process::test_kill_process(gate.pid()).is_ok());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_reads_and_writes_what_it_is_given_and_knows_nothing_else() {
    let estate = both(&json!({}), "given");
    let gate = estate.serve();
    let agent = gate.open().await;
    for server in ["s1", "s2"] {
        let own = |tool: &str| format!("{server}.{tool}");
        let note = json!({"path": estate.path("data/notes.txt")});
        assert_eq!(ask(&agent, &own("read"), note).await.0, "one\nneedle two\nthree\n");
        let file = estate.path("ws").join(server);
        let args = json!({"path": file, "text": "kept"});
        assert_eq!(ask(&agent, &own("write"), args).await, ("written".to_owned(), false));
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "kept");
        for outside in ["data/made", "made", "ws/../made"] {
            let args = json!({"path": estate.path(outside), "text": "x"});
            let refused = ask(&agent, &own("write"), args).await.1;
            // In `S2` what lies around is a directory in memory, and what it makes there nobody sees.
            assert!(refused || (server == "s2" && outside != "data/made"), "{server}: `{outside}`");
        }
        let seen: Value =
            serde_json::from_str(&ask(&agent, &own("surroundings"), json!({})).await.0).unwrap();
        assert_eq!(seen["cwd"], json!(estate.path("ws").canonicalize().unwrap()));
        let env: Vec<&String> = seen["env"].as_object().unwrap().keys().collect();
        // What Python itself puts there where there is no locale.
        assert!(env.iter().all(|name| *name == "LC_CTYPE"), "{env:?}");
        assert_ne!(seen["uid"], 0);
    }
    assert!(!estate.path("made").exists() && !estate.path("data/made").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_a_server_with_the_network_of_the_host_connects() {
    let canary = TcpListener::bind("127.0.0.1:0").unwrap();
    canary.set_nonblocking(true).unwrap();
    let estate = Estate::with(&[], |dir| {
        let of = |name: &str, level: &str, network: &str| {
            fixture(dir, name, json!({"level": level, "network": network}), "network")
        };
        vec![
            of("n1", "S1", "none"),
            of("n2", "S2", "none"),
            of("h1", "S1", "host"),
            of("h2", "S2", "host"),
        ]
    });
    let gate = estate.serve();
    let agent = gate.open().await;
    for port in [canary.local_addr().unwrap().port(), gate.operators().port()] {
        for server in ["n1", "n2"] {
            let (why, failed) =
                ask(&agent, &format!("{server}.connect"), json!({"port": port})).await;
            assert!(failed, "{server}: {why}");
        }
    }
    assert!(canary.accept().is_err());
    // Sockets with names stay out of reach, and so do other kinds.
    let others = "import socket\nfor family, kind in [(socket.AF_UNIX, socket.SOCK_STREAM), (socket.AF_UNIX, socket.SOCK_DGRAM), (socket.AF_INET, socket.SOCK_RAW), (socket.AF_NETLINK, socket.SOCK_RAW)]:\n    try:\n        socket.socket(family, kind).close()\n        print(family, kind)\n    except OSError:\n        pass";
    for server in ["h1", "h2"] {
        let port = canary.local_addr().unwrap().port();
        let (said, failed) = ask(&agent, &format!("{server}.connect"), json!({"port": port})).await;
        assert_eq!((said.as_str(), failed), ("connected", false), "{server}");
        assert!(canary.accept().is_ok(), "{server}");
        let (made, _) = ask(&agent, &format!("{server}.run"), json!({"text": others})).await;
        assert_eq!(made, "", "{server}");
    }
}

/// Asks the proxy for each of these by hand, and says what it answers; `[target, request or nothing, …]`.
const ASKS: &str = r#"
import json, os, socket
for target, head in json.loads(os.environ["ASKS"]):
    head = head or "CONNECT {0} HTTP/1.1\r\nHost: {0}\r\n\r\n".format(target)
    with socket.create_connection(("127.0.0.1", 3128), timeout=20) as proxy:
        proxy.sendall(head.encode())
        answer = proxy.recv(4096).decode()
        status = answer.split()[1] if answer else "closed"
        if status == "200":
            proxy.sendall(b"to you")
            status = proxy.recv(4096).decode()
        print(target, status)
"#;

/// Everything else that leads out of a namespace, tried on this port.
const AROUND: &str = r#"
import os, socket
port = int(os.environ["PORT"])
for family, address in [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET, "127.0.0.2"), (socket.AF_INET, "0.0.0.0"), (socket.AF_INET, "10.0.0.1"), (socket.AF_INET6, "::1")]:
    for kind in [socket.SOCK_STREAM, socket.SOCK_DGRAM]:
        try:
            with socket.socket(family, kind) as out:
                out.settimeout(5)
                out.connect((address, port))
                out.send(b"out")
                if kind == socket.SOCK_STREAM or out.recv(16):
                    print(address, kind)
        except OSError:
            pass
try:
    with socket.socket() as inner:
        inner.bind(("127.0.0.1", 0))
        inner.listen()
        print("listens")
except OSError:
    pass
"#;

/// A place that answers each connection with what it said.
fn echo() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, mut said) = (stream.unwrap(), [0_u8; 64]);
            let length = std::io::Read::read(&mut stream, &mut said).unwrap_or(0);
            let _ = std::io::Write::write_all(&mut stream, &said[..length]);
        }
    });
    port
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_with_named_hosts_reaches_these_through_the_gate_and_nothing_else() {
    let (named, canary) = (echo(), TcpListener::bind("127.0.0.1:0").unwrap());
    canary.set_nonblocking(true).unwrap();
    let other = canary.local_addr().unwrap().port();
    let estate = Estate::with(&[], |dir| {
        let sandbox = json!({"level": "S2", "private_addresses": ["127.0.0.1/32"],
            "hosts": [format!("127.0.0.1:{named}"), "api.example.com"]});
        vec![
            fixture(dir, "h", sandbox, "hosts"),
            fixture(dir, "n", json!({"level": "S2"}), "hosts"),
        ]
    });
    let gate = estate.serve();
    let agent = gate.open().await;
    let run = async |server: &str, program: String| {
        ask(&agent, &format!("{server}.run"), json!({"text": program})).await
    };
    let gets = format!("GET http://127.0.0.1:{named}/ HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
    let asks = json!([
        [format!("127.0.0.1:{named}"), null],
        [format!("127.0.0.1:{other}"), null],
        [format!("127.0.0.1:{}", gate.operators().port()), null],
        [format!("localhost:{named}"), null],
        [format!("127.1:{named}"), null],
        [format!("127.0.0.1.:{named}"), null],
        [format!("2130706433:{named}"), null],
        [format!("[::ffff:127.0.0.1]:{named}"), null],
        [format!("x@127.0.0.1:{named}"), null],
        ["127.0.0.1", null],
        ["api.example.com:80", null],
        ["api.example.com.evil.test:443", null],
        ["evil.test:443", null],
        ["plain", gets],
        ["nonsense", "\u{0}\r\n\r\n"],
    ]);
    let program = ASKS.replace(r#"os.environ["ASKS"]"#, &format!("{:?}", asks.to_string()));
    let (said, failed) = run("h", program.clone()).await;
    assert!(!failed, "{said}");
    let said: Vec<(&str, &str)> = said.lines().map(|line| line.split_once(' ').unwrap()).collect();
    assert_eq!(said.len(), asks.as_array().unwrap().len(), "{said:?}");
    for (at, (target, answer)) in said.iter().enumerate() {
        let right: &[&str] = match at {
            0 => &["to you"],
            13 => &["405"],
            _ => &["403", "400", "closed"],
        };
        assert!(right.contains(answer), "{target}: {answer}");
    }
    let around = |port: u16| AROUND.replace(r#"os.environ["PORT"]"#, &port.to_string());
    for port in [named, other, gate.operators().port()] {
        for server in ["h", "n"] {
            assert_eq!(run(server, around(port)).await, (String::new(), false), "{server} {port}");
        }
    }
    assert!(canary.accept().is_err());
    let (why, failed) = run("n", program).await;
    assert!(failed, "without hosts there is no proxy: {why}");
    // What programs look for is set, and the host that was asked for in vain is in the log.
    let env: Value =
        serde_json::from_str(&ask(&agent, "h.surroundings", json!({})).await.0).unwrap();
    assert_eq!(env["env"]["HTTPS_PROXY"], "http://127.0.0.1:3128");
    assert!(gate.said().contains("evil.test:443"), "{}", gate.said());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_sandbox_level_is_recorded_and_shown_with_the_tools() {
    let estate = Estate::with(&[], |dir| {
        let of = |name: &str, level: &str| fixture(dir, name, json!({"level": level}), "shown");
        let mut unsaid = of("unsaid", "none");
        unsaid["stdio"].as_object_mut().unwrap().remove("sandbox");
        vec![of("plain", "none"), of("s1", "S1"), of("s2", "S2"), unsaid]
    });
    let gate = estate.serve();
    let agent = gate.open().await;
    let servers = [("plain", "none"), ("s1", "S1"), ("s2", "S2"), ("unsaid", "none")];
    for (server, _) in servers {
        ask(&agent, &format!("{server}.surroundings"), json!({})).await;
    }
    let ended = estate.entries("call.completed");
    let levels: Vec<&Value> = ended.iter().map(|data| &data["observed"]["sandbox"]).collect();
    assert_eq!(levels, ["none", "S1", "S2", "none"]);
    std::fs::write(estate.path("trust.txt"), "enrolment-key state/enrolment.key.pub\n").unwrap();
    estate.run(&["ledger", "verify", "--config", "wicketgate.yaml", "--trust", "trust.txt"]);

    let listed: Value = serde_json::from_str(&estate.run(&["tools", "list", "--json"])).unwrap();
    for (server, level) in servers {
        let of = |list: &str, member: &str| {
            let all = listed[list].as_array().unwrap();
            all.iter().find(|one| one[member] == server).unwrap_or_else(|| panic!("{listed}"))["sandbox"].clone()
        };
        assert_eq!((of("servers", "name"), of("tools", "server")), (json!(level), json!(level)));
    }
    assert!(estate.run(&["tools", "list"]).contains("mcp:s1:S1"));
    let (ok, _, warned) = process::run(estate.command(&["config", "check", "wicketgate.yaml"]));
    assert!(ok && warned.contains("server `unsaid` runs without a sandbox"), "{warned}");
    assert!(!warned.contains("`plain` runs") && !warned.contains("`s1` runs"), "{warned}");
    assert!(gate.said().contains("server `unsaid` runs without a sandbox"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_of_a_server_outlives_its_gate() {
    for how in ["killed", "stopped"] {
        let mark = marker(how);
        let estate = Estate::with(&[], |dir| {
            let children = json!({"level": "S2", "programs": [program("true")]});
            let mut family = fixture(dir, "family", children, &mark);
            // It does not end by itself, and neither do its children.
            family["stdio"]["args"].as_array_mut().unwrap().insert(4, json!("stay"));
            vec![fixture(dir, "alone", json!({"level": "S1"}), &mark), family]
        });
        let gate = estate.serve();
        let agent = gate.open().await;
        ask(&agent, "alone.surroundings", json!({})).await;
        assert_eq!(ask(&agent, "family.family", json!({})).await.0, "there");
        until("all to run", || async { alive(&mark).len() >= 4 }).await;
        if how == "killed" {
            rustix::process::kill_process(gate.pid(), rustix::process::Signal::KILL).unwrap();
        } else {
            drop(agent);
            gate.finish();
        }
        gone(&mark).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fork_bomb_and_a_hoarder_stay_in_their_boxes() {
    let mark = marker("bomb");
    let estate = Estate::with(&[], |dir| {
        let limits = json!({"level": "S2", "programs": [program("true")], "pids": 12, "memory_bytes": 268_435_456});
        let small = json!({"level": "S1", "memory_bytes": 268_435_456});
        vec![fixture(dir, "s2", limits, &mark), fixture(dir, "s1", small, "other")]
    });
    let gate = estate.serve();
    let agent = gate.open().await;
    let made: u32 = ask(&agent, "s2.bomb", json!({})).await.0.parse().unwrap();
    assert!((1..12).contains(&made), "{made}");
    assert_eq!(ask(&agent, "s1.bomb", json!({})).await.0, "0");
    for server in ["s1", "s2"] {
        assert_eq!(ask(&agent, &format!("{server}.memory"), json!({})).await.0, "[]", "{server}");
    }
    // It had no room for what comes after, and everybody else has.
    assert!(ask(&agent, "s1.surroundings", json!({})).await.0.contains("cwd"));
    drop(agent);
    gate.finish();
    gone(&mark).await;
}

/// What it may write is a directory that it can replace by a link.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_in_place_of_what_was_given_leads_nowhere() {
    let mark = marker("link");
    for level in ["S1", "S2"] {
        let estate = Estate::with(&[], |dir| {
            use std::os::unix::fs::PermissionsExt as _;
            std::fs::create_dir(dir.join("ws/inner")).unwrap();
            let anybody = std::fs::Permissions::from_mode(0o777);
            std::fs::set_permissions(dir.join("ws/inner"), anybody).unwrap();
            let first = fixture(dir, "first", json!({"level": level}), &mark);
            let mut second = fixture(dir, "second", json!({"level": level}), &mark);
            second["stdio"]["sandbox"]["write"] = json!(["ws/inner"]);
            vec![first, second]
        });
        std::fs::create_dir(estate.path("secret")).unwrap();
        std::fs::write(estate.path("secret/key"), "secret").unwrap();
        let gate = estate.serve();
        let agent = gate.open().await;
        ask(&agent, "second.surroundings", json!({})).await;
        let (inner, secret) = (estate.path("ws/inner"), estate.path("secret"));
        let swap = format!(
            "import os\nos.rename({inner:?}, {:?})\nos.symlink({secret:?}, {inner:?})\nprint('swapped')",
            estate.path("ws/old")
        );
        assert_eq!(ask(&agent, "first.run", json!({"text": swap})).await.0, "swapped\n");
        assert!(inner.is_symlink());
        // The second one is started again, and would be given what the link leads to.
        for pid in alive(&mark).iter().filter_map(|line| line.split(':').next()?.parse().ok()) {
            let pid = rustix::process::Pid::from_raw(pid).unwrap();
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
        let args = json!({"path": secret.join("key")}).to_string();
        let got = agent.call("second.read", "", &args).await;
        let shown = format!("{got:?}");
        assert!(
            !shown.contains("\"secret\"") && !shown.contains("text\":\"secret"),
            "{level}: {shown}"
        );
        assert!(
            got.is_err() || shown.contains("isError\\\":true") || shown.contains("Error"),
            "{level}: {shown}"
        );
        drop(agent);
        gate.finish();
        gone(&mark).await;
    }
}

#[test]
fn what_a_sandbox_may_not_be_given_is_refused_with_its_place() {
    let estate = both(&json!({}), "refused");
    let config = std::fs::read_to_string(estate.path("wicketgate.yaml")).unwrap();
    let config: Value = serde_json::from_str(&config).unwrap();
    for (member, value, why) in [
        ("level", json!("S3"), "servers[0].stdio.sandbox.level: expected `none`, `S1` or `S2`"),
        ("read", json!(["state"]), "servers[0].stdio.sandbox.read[0]: "),
        ("read", json!(["."]), "servers[0].stdio.sandbox.read[0]: "),
        ("write", json!(["bundle"]), "servers[0].stdio.sandbox.write[0]: "),
        ("write", json!(["changed.yaml"]), "servers[0].stdio.sandbox.write[0]: "),
        ("read", json!(["lock.pub"]), "servers[0].stdio.sandbox.read[0]: "),
        ("read", json!(["/proc"]), "servers[0].stdio.sandbox.read[0]: "),
        ("read", json!(["nowhere"]), "cannot open"),
        ("network", json!("all"), "servers[0].stdio.sandbox.network: expected `none` or `host`"),
        (
            "hosts",
            json!(["api.test"]),
            "servers[0].stdio.sandbox.hosts: a network of its own needs",
        ),
        ("hosts", json!(["a/b"]), "servers[0].stdio.sandbox.hosts[0]: `a/b` is not `HOST`"),
        ("hosts", json!(["*.test"]), "servers[0].stdio.sandbox.hosts[0]: "),
        ("hosts", json!(["10.0.0.1"]), "list its range under `private_addresses`"),
        ("private_addresses", json!(["10.0.0.0/8"]), "means nothing without `hosts`"),
        (
            "programs",
            json!([program("true")]),
            "servers[0].stdio.sandbox.programs: processes of its own need",
        ),
        ("pids", json!(0), "servers[0].stdio.sandbox.pids: "),
        ("reed", json!([]), "servers[0].stdio.sandbox.reed: unknown field"),
    ] {
        let mut changed = config.clone();
        changed["servers"][0]["stdio"]["sandbox"][member] = value.clone();
        std::fs::write(estate.path("changed.yaml"), changed.to_string()).unwrap();
        let (ok, out, err) = process::run(estate.command(&["config", "check", "changed.yaml"]));
        assert!(!ok && format!("{out}{err}").contains(why), "{member} {value}: {out}{err}");
    }
    // Another sandbox is another way to reach it: the lock is signed again, or its tools are not there.
    let mut changed = config;
    changed["servers"][0]["stdio"]["sandbox"]["network"] = json!("host");
    std::fs::write(estate.path("changed.yaml"), changed.to_string()).unwrap();
    let (ok, out, err) = process::run(estate.command(&["config", "check", "changed.yaml"]));
    assert!(!ok && format!("{out}{err}").contains("is not the one the lock pins"), "{out}{err}");
}

#[test]
fn the_example_can_be_configured() {
    let estate = Estate::new(&[]);
    let dir = estate.path("srv");
    let example = include_str!("../../examples/mcp/sandboxed.yaml");
    let example = example.replace("/srv", dir.to_str().unwrap());
    let servers: Value = serde_saphyr::from_str(&example).unwrap();
    let config = std::fs::read_to_string(estate.path("wicketgate.yaml")).unwrap();
    let mut config: Value = serde_json::from_str(&config).unwrap();
    config["servers"] = servers;
    std::fs::write(estate.path("example.yaml"), config.to_string()).unwrap();
    let check = || process::run(estate.command(&["config", "check", "example.yaml"]));
    let (ok, _, err) = check();
    assert!(!ok && err.contains("servers[1].stdio.sandbox.read[0]: cannot open"), "{err}");
    for made in ["mcp/node_modules", "files"] {
        std::fs::create_dir_all(dir.join(made)).unwrap();
    }
    for script in ["mcp/weather.py", "mcp/issues.py"] {
        std::fs::write(dir.join(script), "").unwrap();
    }
    let (ok, out, err) = check();
    assert!(ok && !err.contains("without a sandbox"), "{out}{err}");
}

/// A gate in a user namespace in which no other can be made.
#[test]
fn a_server_whose_level_is_not_there_is_refused_and_never_started() {
    let mark = marker("missing");
    let estate = Estate::with(&[], |dir| vec![fixture(dir, "s2", json!({"level": "S2"}), &mark)]);
    let within = |words: &str| {
        let mut command = Command::new("unshare");
        let text = format!("echo 0 > /proc/sys/user/max_user_namespaces && {words}");
        command.args(["--user", "--map-user=1000", "--keep-caps", "sh", "-c", &text]);
        command.current_dir(estate.path(""));
        command
    };
    let (able, _, why) = process::run(within("true"));
    if !able {
        eprintln!("not tested here: a system without nested user namespaces ({why})");
        return;
    }
    for words in ["config check wicketgate.yaml", "serve --config wicketgate.yaml", "tools probe"] {
        let (ok, out, err) = process::run(within(&format!("{} {words}", gate())));
        assert!(!ok, "{words}: {out}");
        let said = format!("{out}{err}");
        assert!(said.contains("sandbox.unavailable: S2 is not there"), "{words}: {said}");
    }
    assert!(alive(&mark).is_empty());
}
