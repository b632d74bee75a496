//! Topology B: the agent in a pod of its own, which reaches the gate's pod by mutual TLS and nothing else.

use std::fs::Permissions;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;
use std::time::Duration;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde_json::{Value, json};

use crate::ca::Ca;
use crate::checker::kinds;
use crate::world::{self, AGENT, Found, World, as_uid, done};
use wicketgate_support::program::python;

/// Where the gate's pod is, and its port for agents.
const GATE: &str = "10.77.0.1";
const PORT: &str = "7302";
const RULES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/isolation/agent-pod.nft");
const CLIENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/interop/gate_client.py");
/// The network namespace of the agent's pod.
const POD: &str = "/run/netns/agent";
const AGENTS: &str = "spiffe://example.org/ns/agents/sa/";

/// Makes the agent's pod, with a way to everywhere through the node.
const MAKE: &str = "set -e
ip netns add agent
ip link add pod type veth peer name eth0 netns agent
ip addr add 10.77.0.1/24 dev pod
ip -6 addr add fd77::1/64 dev pod nodad
ip link set pod up
nsenter --net=/run/netns/agent sh -ec '
ip link set lo up
ip addr add 10.77.0.2/24 dev eth0
ip -6 addr add fd77::2/64 dev eth0 nodad
ip link set eth0 up
ip route add default via 10.77.0.1
ip -6 route add default via fd77::1'";

/// Two pods and an authority of their certificates.
struct Pods {
    world: World,
    ca: Ca,
}

impl Pods {
    fn begin() -> Pods {
        done(Command::new("sh").args(["-c", MAKE]));
        let ca = Ca::new();
        // The Python client asks for `localhost` wherever it connects.
        ca.called("gate", &format!("IP:{GATE},DNS:localhost"));
        certify(&ca, "reviewer");
        certify(&ca, "twin");
        let files = ["gate.pem", "gate.key", "ca.pem"].map(|name| ca.shown(name));
        let world = World::begin(|config| {
            config["listen"]["tcp"] = json!(format!("0.0.0.0:{PORT}"));
            config["listen"]["tls"] =
                json!({"cert": files[0], "key": files[1], "client_ca": files[2]});
            let names =
                ["reviewer", "twin"].map(|name| json!({"spiffe": format!("{AGENTS}{name}")}));
            config["agents"][0]["callers"] = json!(names);
        });
        Pods { world, ca }
    }

    /// What the node lets out of the agent's pod.
    fn rules(&self) {
        let mut nft = Command::new("nft");
        for (name, value) in [("POD", "pod"), ("GATE", GATE), ("PORT", PORT)] {
            nft.arg("--define").arg(format!("{name}={value}"));
        }
        done(nft.args(["--file", RULES]));
    }

    fn refused(&self) -> [u64; 2] {
        world::counted("wicketgate_pod")
    }

    /// Runs the doctor in the agent's pod with the certificate of this name.
    fn doctor(&self, of: &Ca, who: &str) -> Command {
        let uid = AGENT.to_string();
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={POD}")).arg("setpriv");
        command.args(["--reuid", &uid, "--regid", &uid, "--clear-groups", "--no-new-privs"]);
        command.args(["--bounding-set=-all", "--inh-caps=-all", "--"]).arg(&self.world.program);
        command.args(["doctor", "--json", "--gate", &format!("https://{GATE}:{PORT}")]);
        command.args([
            "--ca",
            &self.ca.shown("ca.pem"),
            "--cert",
            &of.shown(&format!("{who}.pem")),
        ]);
        command.args(["--cert-key", &of.shown(&format!("{who}.key"))]).current_dir("/");
        command
    }

    fn examine(&self) -> Found {
        self.world.found(self.doctor(&self.ca, "reviewer"))
    }

    /// One command of the Python client in the agent's pod.
    fn ask(&self, who: &str, args: &[&str]) -> Value {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={POD}")).arg(python()).args(["-B", CLIENT]);
        command.arg(format!("{GATE}:{PORT}")).args(["--ca", &self.ca.shown("ca.pem")]);
        command.args(["--cert", &self.ca.shown(&format!("{who}.pem"))]);
        command.args(["--cert-key", &self.ca.shown(&format!("{who}.key"))]);
        let told = command.args(args).output().unwrap();
        let err = String::from_utf8_lossy(&told.stderr);
        serde_json::from_slice(&told.stdout).unwrap_or_else(|e| panic!("{e}: {err}"))
    }

    /// Opens a run and calls a tool that every rule allows.
    fn call(&self, who: &str) -> Value {
        let instructions = "ab".repeat(32);
        let opening = ["open", "--model", "test-model", "--instructions", &instructions];
        let opened = self.ask(who, &opening);
        let token = opened["ok"]["run_token"].as_str().unwrap_or_else(|| panic!("{opened}"));
        let answer = self.ask(who, &["--token", token, "call", "work.do", "{}"]);
        self.ask(who, &["--token", token, "seal"]);
        answer
    }
}

/// A workload's certificate, and its key, which is the agent's.
fn certify(ca: &Ca, name: &str) {
    ca.svid(name, &format!("URI:{AGENTS}{name}"));
    std::fs::set_permissions(ca.path("."), Permissions::from_mode(0o755)).unwrap();
    std::os::unix::fs::chown(ca.path(&format!("{name}.key")), Some(AGENT), None).unwrap();
}

/// Everything a hostile agent tries with plain sockets, all at once: nothing is answered.
fn escape(operators: SocketAddr) {
    let operators = format!("{GATE}:{}", operators.port());
    let tcp = [
        "93.184.216.34:443",
        "10.0.0.1:443",
        "169.254.169.254:80",
        "[2606:4700:4700::1111]:443",
        "[fd00:ec2::254]:80",
        "[fd77::1]:7302",
        "10.77.0.1:443",
        "10.77.0.1:5432",
        &operators,
    ];
    let tries = tcp.map(|at| {
        let at: SocketAddr = at.parse().unwrap();
        std::thread::spawn(move || (at, TcpStream::connect_timeout(&at, Duration::from_secs(2))))
    });
    for (at, tried) in tries.map(|one| one.join().unwrap()) {
        assert!(tried.is_err(), "{at} was reached");
    }
    for (from, to) in [("0.0.0.0:0", "8.8.8.8:53"), ("[::]:0", "[2001:4860:4860::8888]:53")] {
        // It leaves the pod and is dropped on the node: only the canaries can tell.
        UdpSocket::bind(from).unwrap().send_to(b"a secret", to).unwrap();
    }
    let icmp = Some(rustix::net::ipproto::ICMP);
    let (inet, raw) = (rustix::net::AddressFamily::INET, rustix::net::SocketType::RAW);
    assert!(rustix::net::socket(inet, raw, icmp).is_err(), "a raw socket was made");
}

/// Does this as the agent in its pod, on a thread that never leaves it.
fn in_pod(work: impl FnOnce() + Send + 'static) {
    let enter = move || {
        let pod = std::fs::File::open(POD).unwrap();
        move_into_link_name_space(std::os::fd::AsFd::as_fd(&pod), Some(LinkNameSpaceType::Network))
            .unwrap();
        as_uid(AGENT, async move || work());
    };
    std::thread::spawn(enter).join().unwrap();
}

fn refusal(answer: &Value) -> &str {
    answer["error"]["metadata"]["detail"].as_str().unwrap_or_else(|| panic!("{answer}"))
}

#[test]
fn an_agent_in_a_pod_of_its_own_reaches_the_gate_by_its_certificate_and_nothing_else() {
    world::run(
        "pods::an_agent_in_a_pod_of_its_own_reaches_the_gate_by_its_certificate_and_nothing_else",
        || {
            let mut pods = Pods::begin();
            pods.rules();
            assert_eq!(refusal(&pods.call("reviewer")), "isolation.missing");
            let door = pods.world.sidecar.operator_url();
            let operators: SocketAddr = door.strip_prefix("http://").unwrap().parse().unwrap();
            in_pod(move || escape(operators));
            let [v4, v6] = pods.refused();
            assert!(v4 >= 7 && v6 >= 4, "{v4} and {v6} packets were refused");
            pods.examine().passed();
            assert!(pods.refused()[0] > v4 && pods.refused()[1] > v6, "the doctor tried both");
            assert_eq!(pods.world.canaries.seen(), (0, 0), "something got out");
            pods.world.ready();
            let called = pods.call("reviewer");
            assert_eq!(called["ok"]["result"]["inline"]["body"]["done"], true, "{called}");
            // What one workload found says nothing of where another one runs.
            assert_eq!(refusal(&pods.call("twin")), "isolation.missing");

            let stranger = Ca::new();
            certify(&stranger, "reviewer");
            let nobody = pods.doctor(&stranger, "reviewer").output().unwrap();
            assert_eq!((nobody.status.code(), &*nobody.stdout), (Some(2), &b""[..]), "{nobody:?}");

            done(Command::new("nft").args(["delete", "table", "inet", "wicketgate_pod"]));
            let found = pods.examine();
            found.open(&["tcp.public", "tcp.metadata", "tcp6.public", "tcp6.metadata"]);
            pods.world
                .not_ready(&format!("isolation.failed: agent `test-agent` as {AGENTS}reviewer"));
            assert_eq!(refusal(&pods.call("reviewer")), "isolation.failed");
            pods.rules();
            pods.examine().passed();
            pods.world.ready();
            let summary = pods.world.close();
            assert_eq!(kinds(&summary, "posture.observed"), 3);
            assert_eq!(kinds(&summary, "call.denied"), 3);
        },
    );
}
