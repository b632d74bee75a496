//! The image without an engine: what `deploy/image/Dockerfile` copies, started as Kubernetes would start
//! it, and held to what it says.

use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use crate::{top, waiting};
use wicketgate_support::program;

/// As in the chart's values.
const GATE: u32 = 65532;
const AGENT: u32 = 10001;

/// A root file system nobody may write to, but for the two directories the chart mounts; the process in it
/// is not root, has no capability and can gain none.
const CONTAINER: &str = r#"set -e
mount --make-rprivate /
mount --bind "$1" "$1"
for dir in var/lib/wicketgate run/wicketgate; do mount --bind "$2/$dir" "$1/$dir"; done
mount --rbind /proc "$1/proc"
mount --rbind /dev "$1/dev"
mount -o remount,bind,ro "$1"
root=$1
shift 2
exec setpriv --no-new-privs chroot --userspec=65532:65532 --groups=65532 "$root" "$@"
"#;

/// Speaks to a socket as a user with these groups and prints the status line: SOCKET UID [GROUP].
const KNOCK: &str = r#"import json, os, socket, sys
os.setgroups([int(group) for group in sys.argv[3:]])
os.setresgid(*[int(sys.argv[2])] * 3)
os.setresuid(*[int(sys.argv[2])] * 3)
body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion":
    "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}}).encode()
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
s.sendall(b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    b"Accept: application/json, text/event-stream\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s"
    % (len(body), body))
print(s.recv(4096).split(b"\r\n")[0].decode())
"#;

/// Makes calls on sessions of 25 each, four at a time, and prints how many were answered how: SOCKET UID GROUP CALLS.
const CALLS: &str = r#"import collections, http.client, json, os, socket, sys, threading
path, uid, group, calls = sys.argv[1], *map(int, sys.argv[2:])
os.setgroups([group]); os.setresgid(uid, uid, uid); os.setresuid(uid, uid, uid)
counts, lock = collections.Counter(), threading.Lock()
class Unix(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(path)
def session(number):
    wire, headers = Unix("localhost"), {"Content-Type": "application/json", "Accept": "application/json"}
    def post(body):
        wire.request("POST", "/mcp", json.dumps({"jsonrpc": "2.0", **body}), headers)
        answer = wire.getresponse()
        return answer, answer.read()
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    answer, text = post({"id": 0, "method": "initialize", "params": hello})
    headers["Mcp-Session-Id"] = answer.getheader("mcp-session-id")
    headers["MCP-Protocol-Version"] = "2025-06-18"
    post({"method": "notifications/initialized"})
    for call in range(25):
        arguments = {"path": "main.rs" if call % 2 else f"none-{number}-{call}.rs"}
        answer, text = post({"id": call + 1, "method": "tools/call", "params": {"name": "repo.read_file", "arguments": arguments}})
        said = json.loads(text)
        with lock:
            counts["result" if "result" in said else text.decode()] += 1
            counts["read"] += "result" in said and not said["result"].get("isError", False)
    wire.request("DELETE", "/mcp", headers=headers)
    wire.getresponse().read()
def some(first):
    for number in range(first, calls // 25, 4):
        session(number)
threads = [threading.Thread(target=some, args=(n,)) for n in range(4)]
[one.start() for one in threads]
[one.join() for one in threads]
print(json.dumps(counts))
"#;

/// Prints what a query of a file says: `FILE SQL`.
const SQLITE: &str = r#"import json, sqlite3, sys
print(json.dumps([row[0] for row in sqlite3.connect(sys.argv[1]).execute(sys.argv[2])]))
"#;

struct Gate(Child);

impl Drop for Gate {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn run(program: &str, args: &[&str], dir: &Path) -> Output {
    Command::new(program).args(args).current_dir(dir).stdin(Stdio::null()).output().unwrap()
}

/// A directory whose group is the pod's `fsGroup`, as the kubelet makes an emptyDir.
fn empty_dir(path: &Path) {
    std::fs::create_dir_all(path).unwrap();
    chown(path, Some(0), Some(GATE)).unwrap();
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o2777)).unwrap();
}

/// Files as the kubelet lays them: root's, in a directory that `..data` leads to, linked from above.
fn volume(at: &Path, from: &Path, paths: &[String], mode: u32) {
    let data = at.join("..2026_11_22");
    for path in paths {
        let to = data.join(path);
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        std::fs::copy(from.join(path), &to).unwrap();
        chown(&to, Some(0), Some(GATE)).unwrap();
        std::fs::set_permissions(&to, PermissionsExt::from_mode(mode)).unwrap();
        let first = path.split('/').next().unwrap();
        if std::fs::symlink_metadata(at.join(first)).is_err() {
            symlink(Path::new("..data").join(first), at.join(first)).unwrap();
        }
    }
    symlink("..2026_11_22", at.join("..data")).unwrap();
}

/// The commands of one block of `deploy/README.md`, which begins with this.
fn block(begins: &str) -> String {
    let text = std::fs::read_to_string(top("deploy/README.md")).unwrap();
    let blocks =
        text.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap().to_owned());
    let found = blocks.into_iter().find(|block| block.starts_with(begins));
    found.unwrap_or_else(|| panic!("no block of deploy/README.md begins with `{begins}`"))
}

/// Runs these commands with the program in their path; what they print.
fn commands(dir: &Path, text: &str) -> String {
    let bin = Path::new(program::gate()).parent().unwrap().display();
    let path = format!("{bin}:{}", std::env::var("PATH").unwrap());
    let done = Command::new("bash")
        .args(["-euc", text])
        .current_dir(dir)
        .env("PATH", path)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

/// Makes what step 1 of `deploy/README.md` makes, and a secret; the paths that step 3 gives to the chart.
fn furnish(dir: &Path) -> Vec<String> {
    let policies = top("policies");
    let copied = run("cp", &["-r", policies.to_str().unwrap(), "policies"], dir.parent().unwrap());
    assert!(copied.status.success());
    commands(dir.parent().unwrap(), &block("mkdir -p gate/keys && cd gate"));
    let secret = "wicketgate config keygen --out fleet.pem\n\
                  echo 'fleet: {key: /run/secrets/wicketgate/fleet.pem}' >> wicketgate.yaml";
    commands(dir, secret);
    // The agents of these tests speak MCP, which claims no model.
    let accepts = "sed -i 's/^spec:$/spec:\\n  binding: {minimum: unclaimed}/' agent.yaml\n\
                   sed -i 's/calls_per_minute: 60/calls_per_minute: 100000/' agent.yaml\n\
                   wicketgate manifest sign agent.yaml --key keys/manifest.pem";
    commands(dir, accepts);
    let install = block("kubectl apply -f - <<EOF");
    let (_, listing) = install.split_once("files=()").unwrap();
    let (listing, _) = listing.split_once("done\n").unwrap();
    let given = commands(dir, &format!("files=(){listing}done; printf '%s\\n' \"${{files[@]}}\""));
    let named = given.lines().filter(|line| *line != "--set-file").map(|line| {
        let (key, path) = line.split_once('=').unwrap();
        assert_eq!(key.strip_prefix("gate.files.").unwrap().replace("\\.", "."), path);
        path.to_owned()
    });
    named.collect()
}

/// The shared libraries the program loads, by path; the loader among them.
fn libraries() -> Vec<PathBuf> {
    let done = run("ldd", &[program::gate()], Path::new("/"));
    let said = String::from_utf8(done.stdout).unwrap();
    let paths = said.split_whitespace().filter(|word| word.starts_with('/'));
    paths.map(PathBuf::from).collect()
}

/// The image's root with the chart's volumes in it.
fn image(root: &Path, files: &Path, given: &[String]) {
    for dir in ["proc", "dev", "run/wicketgate", "var/lib/wicketgate"] {
        std::fs::create_dir_all(root.join(dir)).unwrap();
    }
    std::fs::copy(program::gate(), root.join("wicketgate")).unwrap();
    for library in libraries() {
        let to = root.join(library.strip_prefix("/").unwrap());
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        std::fs::copy(&library, to).unwrap();
    }
    let etc = root.join("etc/wicketgate");
    std::fs::create_dir_all(&etc).unwrap();
    volume(&etc, files, given, 0o644);
    let secrets = root.join("run/secrets/wicketgate");
    std::fs::create_dir_all(&secrets).unwrap();
    let keys = ["fleet.pem", "evidence.pem"].into_iter().filter(|key| files.join(key).exists());
    volume(&secrets, files, &keys.map(str::to_owned).collect::<Vec<_>>(), 0o440);
    // As kubelet gives a projected token to the pod's own user, where there is an `fsGroup`.
    let own = secrets.join("..2026_11_22/evidence.pem");
    if own.exists() {
        chown(&own, Some(GATE), Some(GATE)).unwrap();
        std::fs::set_permissions(&own, PermissionsExt::from_mode(0o640)).unwrap();
    }
}

fn python(script: &str, args: &[&str]) -> String {
    let python = std::env::var("WICKETGATE_TEST_DEPLOY").unwrap_or_else(|_| "python3".to_owned());
    let done = run(&python, &[&["-c", script], args].concat(), Path::new("/"));
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

/// The image's program as the chart's user on a read-only root without `/tmp`, with the pod's volumes.
fn inside(root: &Path, pod: &Path) -> Command {
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "sh", "-c", CONTAINER, "sh"])
        .args([root, pod])
        .arg("/wicketgate")
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .env("WICKETGATE__STATE", "/var/lib/wicketgate")
        .env("WICKETGATE__LISTEN__SOCKET", "/run/wicketgate/agent.sock")
        .stdin(Stdio::null());
    command
}

const SERVE: [&str; 4] = ["serve", "--config", "/etc/wicketgate/wicketgate.yaml", "--json"];

/// Runs a command in there to its good end.
#[track_caller]
fn done(root: &Path, pod: &Path, args: &[&str]) -> String {
    let output = inside(root, pod).args(args).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    assert!(output.status.success(), "{args:?}: {said}");
    said
}

fn knock(socket: &Path, uid: u32, groups: &[u32]) -> String {
    let numbers: Vec<_> =
        std::iter::once(uid).chain(groups.iter().copied()).map(|n| n.to_string()).collect();
    let python = std::env::var("WICKETGATE_TEST_DEPLOY").unwrap_or_else(|_| "python3".to_owned());
    let mut args = vec!["-c", KNOCK, socket.to_str().unwrap()];
    args.extend(numbers.iter().map(String::as_str));
    let done = run(&python, &args, Path::new("/"));
    String::from_utf8(if done.status.success() { done.stdout } else { done.stderr }).unwrap()
}

fn health(url: &str, more: &[&str]) -> (Option<i32>, String) {
    let done = run(program::gate(), &[&["health", "--url", url], more].concat(), Path::new("/"));
    (done.status.code(), String::from_utf8([done.stdout, done.stderr].concat()).unwrap())
}

fn may_make_a_root() -> bool {
    let may = rustix::process::geteuid().is_root();
    if !may {
        let why = "not tested here: the image's root: only root can make one\n";
        drop(std::io::Write::write_all(&mut std::io::stderr(), why.as_bytes()));
    }
    may
}

/// The trust roots of an auditor, where the program in there can read them.
fn trust(files: &Path, state: &Path) {
    let kept =
        std::fs::read_dir(state.join("artifacts/policy")).unwrap().next().unwrap().unwrap().path();
    let digest = kept.file_stem().unwrap().to_str().unwrap();
    for (from, to) in
        [("evidence.pem.pub", "evidence.pub"), ("keys/manifest.pem.pub", "manifest.pub")]
    {
        std::fs::copy(files.join(from), state.join(to)).unwrap();
    }
    let text = format!(
        "evidence-key /var/lib/wicketgate/evidence.pub\nmanifest-key /var/lib/wicketgate/manifest.pub\nenrolment-key /var/lib/wicketgate/enrolment.key.pub\npolicy sha256:{digest}\n"
    );
    std::fs::write(state.join("trust.txt"), text).unwrap();
}

/// Whatever SQLite spills, it spills into memory. Two thousand calls take ten seconds: the first file was wanted after 48 entries, the next
/// ones depend on sizes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_a_read_only_root_without_tmp_two_thousand_calls_an_export_a_verify_and_a_migration_need_the_state_alone()
 {
    if !may_make_a_root() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let [files, root, pod] = ["gate", "root", "pod"].map(|name| dir.path().join(name));
    let given = furnish(&files);
    commands(
        &files,
        "wicketgate config keygen --out evidence.pem\n\
        echo 'evidence: {key: /run/secrets/wicketgate/evidence.pem}' >> wicketgate.yaml\n\
        echo 'limits: {denials_max: null}' >> wicketgate.yaml",
    );
    image(&root, &files, &given);
    let state = pod.join("var/lib/wicketgate");
    empty_dir(&state);
    empty_dir(&pod.join("run/wicketgate"));
    assert!(
        !root.join("tmp").exists() && !root.join("var/tmp").exists(),
        "there is nowhere to write"
    );
    let ledger = state.join("ledger.sqlite");

    let claimed = wicketgate_support::ports::Port::claim();
    let url = format!("http://127.0.0.1:{}", claimed.number());
    let log = dir.path().join("gate.err");
    let child = inside(&root, &pod)
        .args(SERVE)
        .env("WICKETGATE__OPERATOR__LISTEN", format!("127.0.0.1:{}", claimed.number()))
        .stderr(std::fs::File::create(&log).unwrap())
        .spawn()
        .unwrap();
    let mut gate = Gate(child);
    let said = || std::fs::read_to_string(&log).unwrap();
    waiting::until("the gate to be ready", || async { health(&url, &[]).0 == Some(0) }).await;
    let socket = pod.join("run/wicketgate/agent.sock");
    let (agent, group) = (AGENT.to_string(), GATE.to_string());
    let told = python(CALLS, &[socket.to_str().unwrap(), &agent, &group, "2000"]);
    let told: serde_json::Value = serde_json::from_str(&told).unwrap();
    assert_eq!(told["result"], 2000, "{told} {}", said());
    assert!(told["read"].as_u64().unwrap() >= 80, "{told}");
    assert_eq!(health(&url, &[]).0, Some(0), "{}", said());
    assert!(!said().contains("disk I/O error"), "{}", said());

    let asked = |query: &str| -> Vec<serde_json::Value> {
        serde_json::from_str(&python(SQLITE, &[ledger.to_str().unwrap(), query])).unwrap()
    };
    let judged = "SELECT count(*) FROM entry WHERE kind IN ('call.authorized', 'call.denied')";
    assert!(asked(judged)[0].as_u64().unwrap() >= 2000, "{:?}", asked(judged));
    let sealed = asked("SELECT run_id FROM entry WHERE kind = 'run.sealed' ORDER BY seq");
    let run = sealed.first().and_then(serde_json::Value::as_str).unwrap();
    let pid = rustix::process::Pid::from_child(&gate.0);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert_eq!(gate.0.wait().unwrap().code(), Some(0), "{}", said());
    trust(&files, &state);
    let (config, bundle) = ("/etc/wicketgate/wicketgate.yaml", "/var/lib/wicketgate/evidence.zip");
    done(&root, &pod, &["evidence", "export", "--config", config, "--run", run, "--out", bundle]);
    let trusted = "/var/lib/wicketgate/trust.txt";
    let verified =
        done(&root, &pod, &["evidence", "verify", "--trust", trusted, "--run", run, bundle]);
    assert!(verified.contains("VALID"), "{verified}");
    done(&root, &pod, &["ledger", "verify", "--config", config, "--trust", trusted]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_gate_runs_as_the_chart_runs_it_and_only_its_agent_is_let_in() {
    if !may_make_a_root() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let [files, root, pod] = ["gate", "root", "pod"].map(|name| dir.path().join(name));
    let given = furnish(&files);
    image(&root, &files, &given);
    empty_dir(&pod.join("var/lib/wicketgate"));
    empty_dir(&pod.join("run/wicketgate"));
    let claimed = wicketgate_support::ports::Port::claim();
    let port = claimed.number();
    let url = format!("http://127.0.0.1:{port}");
    assert_eq!(health(&url, &["--live"]).0, Some(2), "nobody is there yet");
    let log = dir.path().join("gate.err");
    let child = inside(&root, &pod)
        .args(SERVE)
        .env("WICKETGATE__OPERATOR__LISTEN", format!("127.0.0.1:{port}"))
        .stderr(std::fs::File::create(&log).unwrap())
        .spawn()
        .unwrap();
    let mut gate = Gate(child);
    let said = || std::fs::read_to_string(&log).unwrap();
    waiting::until("the gate to be ready", || async { health(&url, &[]).0 == Some(0) }).await;
    assert_eq!(health(&url, &["--live"]), (Some(0), "ok\n".to_owned()));
    assert_eq!(health(&url, &["--started"]), (Some(0), "started\n".to_owned()));
    let status = std::fs::read_to_string(format!("/proc/{}/status", gate.0.id())).unwrap();
    for fact in [
        format!("Uid:\t{GATE}\t{GATE}"),
        "CapEff:\t0000000000000000".into(),
        "NoNewPrivs:\t1".into(),
    ] {
        assert!(status.contains(&fact), "{status}");
    }

    let socket = pod.join("run/wicketgate/agent.sock");
    assert!(knock(&socket, AGENT, &[GATE]).contains("200"), "{}", said());
    let other = knock(&socket, 10002, &[GATE]);
    assert!(other.starts_with("HTTP/1.1 4"), "another user of the pod is nobody: {other}");
    let outside = knock(&socket, AGENT, &[]);
    assert!(outside.contains("PermissionError"), "without the pod's group: {outside}");

    let pid = rustix::process::Pid::from_child(&gate.0);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert_eq!(gate.0.wait().unwrap().code(), Some(0), "{}", said());
    assert_eq!(health(&url, &["--live"]).0, Some(2));
}

#[test]
fn the_program_needs_nothing_of_the_base_image_but_the_c_library_and_its_companions() {
    let names = libraries();
    let names = names.iter().map(|path| path.file_name().unwrap().to_str().unwrap());
    let allowed = [
        "libc.so.6",
        "libm.so.6",
        "libgcc_s.so.1",
        "ld-linux-x86-64.so.2",
        "ld-linux-aarch64.so.1",
    ];
    let foreign: Vec<_> = names.filter(|name| !allowed.contains(name)).collect();
    assert!(foreign.is_empty(), "{foreign:?}");
}

#[test]
fn the_image_is_the_program_alone_and_its_user_is_a_number() {
    let text = std::fs::read_to_string(top("deploy/image/Dockerfile")).unwrap();
    let lines = text.replace("\\\n", " ");
    let lines: Vec<_> =
        lines.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
    let last = lines.iter().rposition(|line| line.starts_with("FROM ")).unwrap();
    for (i, line) in lines.iter().enumerate() {
        let words: Vec<_> = line.split_whitespace().collect();
        assert!(words[0] != "ADD", "{line}");
        if words[0] == "FROM" {
            assert!(words[1].contains(':') && !words[1].ends_with(":latest"), "pinned: {line}");
        }
        assert!(
            i <= last || matches!(words[0], "COPY" | "USER" | "ENTRYPOINT" | "LABEL" | "ENV"),
            "{line}"
        );
        if i > last && words[0] == "COPY" {
            assert!(words[1].starts_with("--from=build"), "{line}");
        }
        for secret in ["SECRET", "TOKEN", "PASSWORD", ".pem", ".key"] {
            assert!(!line.contains(secret), "{line}");
        }
    }
    let user = lines.iter().find(|line| line.starts_with("USER ")).unwrap();
    assert_eq!(**user, format!("USER {GATE}:{GATE}"));
    assert!(lines.iter().any(|line| line.contains("cargo build --release --locked")), "{lines:?}");
}
