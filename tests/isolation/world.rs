//! A network of one test's own, a gate in it, and an agent with a uid of its own.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use rustix::process::{Gid, Uid};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::agent::{Agent, Receipts, Refused};
use crate::canaries::{Canaries, V4, V6};
use crate::sidecar::{Estate, Sidecar};
use crate::tool::Tool;
use wicketgate_support::program;

/// Set in the network: the process is a test's second life.
const INSIDE: &str = "WICKETGATE_TEST_WORLD";
/// The agent, another caller that is mapped to it, and somebody nobody knows.
pub const AGENT: u32 = 1500;
pub const TWIN: u32 = 1502;
pub const STRANGER: u32 = 1501;
/// The group that may connect to the gate.
const GROUP: u32 = 1600;

const RULES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/isolation/agent-egress.nft");
const ISOLATED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/isolation/run-isolated");

/// Brings the network up and goes on as the test program in it; no namespaces can be made below it. What the host
/// mounts in `/run` and its resolver are not this world's.
fn setup() -> String {
    let mut script = String::from("set -e\nip link set lo up\n");
    V4.iter().for_each(|at| script.push_str(&format!("ip addr add {at}/32 dev lo\n")));
    V6.iter().for_each(|at| script.push_str(&format!("ip -6 addr add {at}/128 dev lo nodad\n")));
    script.push_str("mount -t tmpfs none /run\n");
    script.push_str("mount --bind \"$1\" /etc/resolv.conf\n");
    script.push_str("echo 0 >/proc/sys/user/max_user_namespaces\n");
    script.push_str("shift\nexec \"$@\"");
    script
}

/// Runs a test as root of namespaces of its own, in which every uid of the machine is known. `name`: as `--exact`
/// wants it. Needs root: who may not map uids cannot run a gate and an agent apart.
pub fn run(name: &str, body: impl FnOnce()) {
    if std::env::var_os(INSIDE).is_some() {
        return body();
    }
    if !rustix::process::geteuid().is_root() {
        // Past the capture of the harness: nobody shall take this for a test that ran.
        let _ = writeln!(std::io::stderr(), "not tested here: {name}: only root may map uids");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let resolver = dir.path().join("resolv.conf");
    std::fs::write(&resolver, "nameserver 127.0.0.53\n").unwrap();
    let begin = "echo made; read -r _; exec unshare --net --mount --pid --fork --mount-proc --kill-child -- \"$@\"";
    let mut again = Command::new("unshare")
        .args(["--user", "sh", "-c", begin, "sh", "sh", "-c", &setup(), "sh"])
        .arg(&resolver)
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture", "--test-threads=1"])
        .env(INSIDE, "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .unwrap();
    let mut out = BufReader::new(again.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    assert_eq!(line, "made\n", "{name}: no user namespace");
    for map in ["uid_map", "gid_map"] {
        std::fs::write(format!("/proc/{}/{map}", again.id()), "0 0 65536\n").unwrap();
    }
    again.stdin.take().unwrap().write_all(b"go\n").unwrap();
    let mut text = String::new();
    std::io::Read::read_to_string(&mut out, &mut text).unwrap();
    let done = again.wait_with_output().unwrap();
    let err = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success() && text.contains("1 passed"), "{text}\n{err}");
}

/// The network, what listens in it, and a gate that may have to be told about it.
pub struct World {
    pub canaries: Canaries,
    pub tool: Tool,
    pub estate: Estate,
    pub sidecar: Sidecar,
    pub runtime: Runtime,
    pub program: PathBuf,
}

impl World {
    /// Starts everything; `change` changes the configuration.
    pub fn begin(change: impl FnOnce(&mut Value)) -> World {
        let runtime = Runtime::new().unwrap();
        let canaries = Canaries::listen();
        let tool = runtime.block_on(Tool::start());
        let estate = Estate::sqlite(&tool);
        estate.configure(|config| {
            config["agents"][0]["callers"] = json!([{"uid": AGENT}, {"uid": TWIN}]);
            config["isolation"] = json!("enforced");
            change(config);
        });
        let open = |path: &Path| {
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            std::fs::set_permissions(path, mode).unwrap();
        };
        open(&estate.path("."));
        // Where the program was built, the agent may not be able to look.
        let program = estate.path("wicketgate");
        std::fs::copy(program::gate(), &program).unwrap();
        open(&program);
        let sidecar = estate.start();
        let world = World { canaries, tool, estate, sidecar, runtime, program };
        world.opened();
        world
    }

    /// Waits until the agent may connect and the gate says what it misses.
    fn opened(&self) {
        let socket = self.estate.socket();
        self.wait("the agent's socket", || socket.exists() && self.operator_url().is_some());
        std::os::unix::fs::chown(&socket, None, Some(GROUP)).unwrap();
        // Only a gate that is open says what it misses of agents.
        self.runtime.block_on(crate::until("the open gate", || async {
            let told = self.sidecar.readiness().await;
            told.is_some_and(|(ready, text)| ready || text.contains("isolation."))
        }));
    }

    /// Starts the gate again after it was killed.
    pub fn restart(&mut self) {
        self.sidecar = self.estate.start();
        self.opened();
    }

    pub fn wait(&self, what: &str, done: impl Fn() -> bool) {
        self.runtime.block_on(crate::until(what, || async { done() }));
    }

    fn operator_url(&self) -> Option<()> {
        self.sidecar.said().contains("operator API listening").then_some(())
    }

    /// Waits until the gate is not ready for a reason that contains this.
    pub fn not_ready(&self, reason: &str) {
        self.runtime.block_on(self.sidecar.not_ready(reason));
    }

    /// Waits until the gate serves.
    pub fn ready(&mut self) {
        self.runtime.block_on(self.sidecar.ready());
    }

    /// Loads the rules of topology A.
    pub fn rules(&self) {
        let uid = format!("AGENT_UID={AGENT}");
        done(Command::new("nft").args(["--define", &uid, "--file", RULES]));
    }

    /// What the rules refused: packets over IPv4 and over IPv6.
    pub fn refused(&self) -> [u64; 2] {
        counted("wicketgate")
    }

    /// Runs the doctor without privileges under this uid: what it found, and its exit code.
    pub fn doctor(&self, uid: u32) -> Found {
        let (uid, group) = (uid.to_string(), GROUP.to_string());
        let mut command = Command::new("setpriv");
        command.args(["--reuid", &uid, "--regid", &group, "--clear-groups", "--no-new-privs"]);
        command.args(["--bounding-set=-all", "--inh-caps=-all", "--"]).arg(&self.program);
        self.examine(command)
    }

    /// The same, in a process namespace of its own, as a container has: there the gate's process has no number.
    pub fn doctor_in_a_container(&self) -> Found {
        self.examine(self.contained())
    }

    fn contained(&self) -> Command {
        let (uid, group) = (AGENT.to_string(), GROUP.to_string());
        let mut command = Command::new("unshare");
        command.args(["--pid", "--mount", "--fork", "--mount-proc", "--kill-child", "setpriv"]);
        command.args(["--reuid", &uid, "--regid", &group, "--clear-groups", "--no-new-privs"]);
        command.args(["--bounding-set=-all", "--inh-caps=-all", "--"]).arg(&self.program);
        command
    }

    /// A doctor that looks again and again, in a container, before there is a gate; it ends with the test.
    pub fn doctor_that_waits(&self) -> std::process::Child {
        let mut command = self.contained();
        command.args(["doctor", "--every", "3600", "--socket"]).arg(self.estate.socket());
        command.current_dir("/").stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    /// The same, in topology C.
    pub fn isolated_doctor(&self) -> Found {
        let mut command = Command::new(ISOLATED);
        command.args([AGENT.to_string(), GROUP.to_string()]).arg(&self.program);
        self.examine(command)
    }

    /// The same, as the gate itself runs.
    pub fn doctor_as_the_gate(&self) -> Found {
        self.examine(Command::new(&self.program))
    }

    fn examine(&self, mut command: Command) -> Found {
        command.args(["doctor", "--json", "--socket"]).arg(self.estate.socket());
        self.found(command)
    }

    /// What this doctor says.
    pub fn found(&self, mut command: Command) -> Found {
        let told = command.current_dir("/").output().unwrap();
        let err = String::from_utf8_lossy(&told.stderr).into_owned();
        let value = serde_json::from_slice(&told.stdout);
        let value = value.unwrap_or_else(|e| panic!("{e}: {err} {}", self.sidecar.said()));
        Found { value, code: told.status.code().unwrap() }
    }

    /// Opens a run as the agent and calls a tool that every rule allows: the refusal, or nothing.
    pub fn call(&self) -> Result<(), Refused> {
        let (socket, receipts) = (self.estate.socket(), self.estate.receipts.clone());
        as_uid(AGENT, async move || called(&socket, &receipts).await)
    }

    /// Ends the gate, and has its books read by somebody else.
    pub fn close(mut self) -> Value {
        self.runtime.block_on(self.sidecar.stop());
        crate::checker::check(&self.estate.database, &self.tool, &self.estate.receipts)
    }
}

async fn called(socket: &Path, receipts: &Receipts) -> Result<(), Refused> {
    let agent = Agent::try_open(socket, receipts).await.unwrap();
    let answer = agent.call("work.do", "a", "{}").await.map(drop);
    agent.seal().await.unwrap();
    answer
}

/// What the rules of this table refused: packets over IPv4 and over IPv6.
pub fn counted(table: &str) -> [u64; 2] {
    ["refused_ipv4", "refused_ipv6"].map(|counter| {
        let list = ["--json", "list", "counter", "inet", table, counter];
        let text = done(Command::new("nft").args(list));
        let told: Value = serde_json::from_slice(&text.stdout).unwrap();
        let counters = told["nftables"].as_array().unwrap();
        counters.iter().find_map(|one| one["counter"]["packets"].as_u64()).unwrap()
    })
}

/// What a doctor said.
pub struct Found {
    pub value: Value,
    pub code: i32,
}

impl Found {
    /// The kinds of attempts of this outcome, each once.
    pub fn kinds(&self, outcome: &str) -> Vec<&str> {
        let probes = self.value["probes"].as_array().unwrap();
        let such = probes.iter().filter(|probe| probe["outcome"] == outcome);
        let mut kinds: Vec<&str> = such.map(|probe| probe["probe"].as_str().unwrap()).collect();
        kinds.dedup();
        kinds
    }

    #[track_caller]
    pub fn passed(&self) {
        assert_eq!(self.code, 0, "{:#}", self.value);
        assert_eq!(self.value["receipt"]["passed"], true, "{:#}", self.value);
    }

    #[track_caller]
    pub fn open(&self, kinds: &[&str]) {
        assert_eq!(self.code, 1, "{:#}", self.value);
        assert_eq!(self.value["receipt"]["passed"], false, "{:#}", self.value);
        let open = self.kinds("open");
        for kind in kinds {
            assert!(open.contains(kind), "{kind} is not open: {:#}", self.value);
        }
    }
}

/// Runs a command to its good end.
#[track_caller]
pub fn done(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {err}");
    output
}

/// Does this with another uid and the group of the gate's socket, on a thread that never comes back to root.
pub fn as_uid<T: Send + 'static>(uid: u32, work: impl AsyncFnOnce() -> T + Send + 'static) -> T {
    let thread = std::thread::spawn(move || {
        let group = Gid::from_raw(GROUP);
        rustix::thread::set_thread_groups(&[group]).unwrap();
        rustix::thread::set_thread_res_gid(group, group, group).unwrap();
        let uid = Uid::from_raw(uid);
        rustix::thread::set_thread_res_uid(uid, uid, uid).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(work())
    });
    thread.join().unwrap()
}
