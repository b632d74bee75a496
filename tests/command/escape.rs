//! What hostile code in a command can do: nothing outside.

use std::net::TcpListener;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::process::{Child, Command};

use serde_json::{Value, json};

use crate::estate::{Estate, answer, program, python, script, tool};
use crate::process;

/// Tries everything, and prints what worked.
pub const ATTACK: &str = include_str!("attack.py");

pub struct World {
    pub estate: Estate,
    tcp: TcpListener,
    unix: UnixListener,
    dgram: UnixDatagram,
    /// A process of the user that commands run as.
    victim: Child,
}

impl Drop for World {
    fn drop(&mut self) {
        drop(self.victim.kill());
        drop(self.victim.wait());
    }
}

/// Who commands run as where the gate is root.
const NOBODY: u32 = 65_534;

impl World {
    /// What there is to be reached, and a tool that tries, in each level.
    pub fn new() -> Self {
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        tcp.set_nonblocking(true).unwrap();
        let estate = Estate::new(&[]);
        std::fs::write(estate.path("canary"), "outside").unwrap();
        let unix = UnixListener::bind(estate.path("canary.sock")).unwrap();
        unix.set_nonblocking(true).unwrap();
        let dgram = UnixDatagram::bind(estate.path("canary.dgram")).unwrap();
        dgram.set_nonblocking(true).unwrap();
        for name in ["canary.sock", "canary.dgram"] {
            // Nobody is kept from it by its mode.
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o777);
            std::fs::set_permissions(estate.path(name), mode).unwrap();
        }
        // A file and a process that only the sandbox keeps a command from.
        let kept = estate.path("kept");
        std::fs::write(&kept, "kept").unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(&kept, mode).unwrap();
        let mut victim = Command::new(program("sleep"));
        victim.arg("600");
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(&kept, Some(NOBODY), Some(NOBODY)).unwrap();
            std::os::unix::process::CommandExt::uid(&mut victim, NOBODY);
        }
        Self { estate, tcp, unix, dgram, victim: victim.spawn().unwrap() }
    }

    /// The script, told where everything is.
    pub fn script(&self, inside: bool, sidecar: u32, operator: u16) -> String {
        let facts = json!({
            "inside": inside,
            "sidecar": sidecar,
            "ports": [self.tcp.local_addr().unwrap().port(), operator],
            "sockets": [self.estate.path("canary.sock"), self.estate.path("s/agent.sock")],
            "dgram": self.estate.path("canary.dgram"),
            "files": [self.estate.path("canary"), self.estate.path("wicketgate.yaml"), "/etc/passwd", "/etc/shadow"],
            "made": self.estate.path("made"),
            "kept": self.estate.path("kept"),
            "victim": self.victim.id(),
        });
        format!("import json\nFACTS = json.loads(r'''{facts}''')\n{ATTACK}")
    }

    pub fn is_untouched(&mut self) -> bool {
        let kept = std::fs::metadata(self.estate.path("kept")).unwrap();
        self.victim.try_wait().unwrap().is_none()
            && kept.mode() & 0o777 == 0o600
            && kept.mtime() > 1
            && self.tcp.accept().is_err()
            && self.unix.accept().is_err()
            && self.dgram.recv(&mut [0; 8]).is_err()
            && !self.estate.path("made").exists()
    }
}

#[test]
fn the_attack_works_where_there_is_no_sandbox() {
    let mut world = World::new();
    let mut command = Command::new(python());
    command.args(["-I", "-S", "-B", "-c", &world.script(false, std::process::id(), 1)]);
    let (ok, out, err) = process::run(command);
    assert!(ok, "{err}");
    let worked: Vec<String> = serde_json::from_str(&out).unwrap();
    // Or the test below would prove nothing.
    for what in [
        "tcp", "unix", "dgram", "udp", "read", "write", "signal", "proc", "fork", "exec", "memfd",
        "rlimit", "kill by", "ioctl F", "ioctl S", "mode", "owner", "times",
    ] {
        assert!(worked.iter().any(|one| one.starts_with(what)), "{what} is not in {worked:?}");
    }
    assert!(!world.is_untouched());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_code_reaches_nothing_in_either_level() {
    // The gate's own number is known only when it runs: the script asks for it by its arguments.
    let mut world = World::new();
    let read = |level: &str| {
        let command = json!({"program": python(), "sandbox": level, "argv": ["-I", "-S", "-B", "-c", {"arg": "a"}]});
        tool(&format!("attack.{level}"), command, json!({}))
    };
    let estate = Estate::new(&[read("S1"), read("S2")]);
    let gate = estate.serve();
    let agent = gate.open().await;
    for level in ["S1", "S2"] {
        let args = json!({"a": world.script(true, gate.id(), gate.operators().port())}).to_string();
        let got = answer(agent.call(&format!("attack.{level}"), "", &args).await);
        assert_eq!(got["exit_code"], 0, "{got}");
        assert_eq!(got["stdout"], "[]\n", "{level}: {got}");
    }
    assert!(world.is_untouched());
    assert!(rustix::process::test_kill_process(gate.pid()).is_ok());
}

/// Ways to make well-known tools do something else, all written by an operator who should not have.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn well_known_tools_start_and_write_nothing_else() {
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(dir.path(), mode).unwrap();
    let canary = dir.path().join("canary").display().to_string();
    let touch = format!("{} {canary}", program("touch"));
    let gtfo: Vec<(&str, Value)> = vec![
        ("find", json!([".", "-exec", program("touch"), canary, ";"])),
        ("find", json!([".", "-fprintf", canary, "x"])),
        ("awk", json!([format!("BEGIN {{ system(\"{touch}\") }}")])),
        ("awk", json!([format!("BEGIN {{ print 1 > \"{canary}\" }}")])),
        ("sed", json!([format!("1e {touch}"), "notes.txt"])),
        ("sed", json!([format!("w {canary}"), "notes.txt"])),
        (
            "tar",
            json!([
                "-cf",
                "/dev/null",
                "notes.txt",
                "--checkpoint=1",
                format!("--checkpoint-action=exec={touch}")
            ]),
        ),
        ("tar", json!(["-cf", "-", "notes.txt", "-I", touch])),
        ("sort", json!(["notes.txt", "-o", canary])),
        ("env", json!([program("touch"), canary])),
        ("env", json!(["-S", touch])),
        ("nohup", json!([program("touch"), canary])),
        ("timeout", json!(["5", program("touch"), canary])),
        ("stdbuf", json!(["-oL", program("touch"), canary])),
        ("setsid", json!([program("touch"), canary])),
        ("tee", json!([canary])),
        ("cp", json!(["notes.txt", canary])),
        ("ln", json!(["-s", "notes.txt", canary])),
        ("bash", json!(["-c", touch])),
        ("perl", json!(["-e", format!("system('{touch}'); open(F, '>', '{canary}')")])),
    ];
    let mut tools = Vec::new();
    for (i, (name, argv)) in gtfo.iter().enumerate() {
        for level in ["S1", "S2"] {
            let command =
                json!({"program": program(name), "argv": argv, "read": ["data"], "sandbox": level});
            tools.push(tool(&format!("t{i}.{level}"), command, json!({})));
        }
    }
    let loader = "/lib64/ld-linux-x86-64.so.2";
    if std::path::Path::new(loader).exists() {
        let command =
            json!({"program": loader, "argv": [program("touch"), canary], "sandbox": "S1"});
        tools.push(tool("loader", command, json!({})));
    }
    let estate = Estate::new(&tools);
    let gate = estate.serve();
    let agent = gate.open().await;
    for tool in &tools {
        let name = tool["name"].as_str().unwrap();
        // However it ends, the canary is not there.
        let ended = agent.call(name, "", "{}").await;
        assert!(!std::path::Path::new(&canary).is_symlink(), "{tool}: {ended:?}");
        assert!(!std::path::Path::new(&canary).exists(), "{tool}: {ended:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_agent_says_is_no_option_and_no_other_program() {
    let find =
        json!({"program": program("find"), "argv": [".", "-name", {"arg": "a"}], "read": ["data"]});
    let tar =
        json!({"program": program("tar"), "argv": ["-cf", "-", {"arg": "a"}], "read": ["data"]});
    let estate = Estate::new(&[tool("find", find, json!({})), tool("tar", tar, json!({}))]);
    let gate = estate.serve();
    let agent = gate.open().await;
    for (tool, args) in [
        ("find", json!({"a": "-exec"})),
        ("tar", json!({"a": "--to-command=touch /tmp/x"})),
        ("tar", json!({"a": "-Itouch"})),
    ] {
        let refused = agent.call(tool, "", &args.to_string()).await.unwrap_err();
        assert_eq!(
            (refused.code.as_str(), refused.detail.as_str()),
            ("effect.refused", "command.arg_not_allowed"),
            "{refused:?}"
        );
    }
    for args in [
        json!({"a": "x", "env": {"LD_PRELOAD": "/tmp/x.so"}}),
        json!({"a": "x", "argv": ["sh", "-c", "id"]}),
        json!({"a": ["x", "-exec"]}),
    ] {
        let refused = agent.call("find", "", &args.to_string()).await.unwrap_err();
        assert_eq!(refused.code, "arguments.invalid", "{refused:?}");
        assert!(refused.detail.starts_with("schema."), "{refused:?}");
    }
    assert_eq!(estate.entries("call.denied").len(), 6);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_that_the_gate_was_started_with_is_open_in_there() {
    let look = "import os, json\nfound = []\nfor fd in range(3, 1024):\n    try:\n        os.fstat(fd)\n        found.append(fd)\n    except OSError:\n        pass\nprint(json.dumps(found))";
    let of =
        |level: &str| script(&format!("fds.{level}"), look, json!({"sandbox": level}), json!({}));
    let estate = Estate::new(&[of("S1"), of("S2")]);
    // Its parent forgot to close it.
    let secret = std::fs::File::open(estate.path("wicketgate.yaml")).unwrap();
    rustix::io::fcntl_setfd(&secret, rustix::io::FdFlags::empty()).unwrap();
    let gate = estate.serve();
    let inherited = std::fs::read_dir(format!("/proc/{}/fd", gate.id())).unwrap();
    let inherited = inherited.filter_map(|fd| std::fs::read_link(fd.ok()?.path()).ok());
    assert!(inherited.into_iter().any(|to| to.ends_with("wicketgate.yaml")), "the gate has it");
    let agent = gate.open().await;
    for level in ["S1", "S2"] {
        let got = answer(agent.call(&format!("fds.{level}"), "", "{}").await);
        assert_eq!(got["stdout"], "[]\n", "{level}: {got}");
    }
}
