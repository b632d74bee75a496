//! What the gate makes of a report: whose it is, how long it holds, and whether anything hangs on it.

use serde_json::json;
use tonic::Status;
use wicketgate::serve::pb::gate_client::GateClient;
use wicketgate::serve::pb::{ChallengePostureRequest, PostureProbe, ReportPostureRequest};

use crate::agent::{Refused, channel};
use crate::checker::kinds;
use crate::world::{self, AGENT, STRANGER, TWIN, World, as_uid};
use wicketgate_support::program;
use wicketgate_support::ran::Ran;

/// Hands in a report under this uid: whether it passed.
fn report(
    world: &World,
    uid: u32,
    nonce: String,
    probes: Vec<PostureProbe>,
) -> Result<bool, Refused> {
    let socket = world.estate.socket();
    as_uid(uid, async move || {
        let mut gate = GateClient::new(channel(&socket));
        let report = ReportPostureRequest { nonce, doctor: "test".into(), probes };
        gate.report_posture(report).await.map(|told| told.into_inner().passed)
    })
    .map_err(|status: Status| Refused::of(&status))
}

fn nonce(world: &World, uid: u32) -> Result<String, Refused> {
    let socket = world.estate.socket();
    as_uid(uid, async move || {
        let mut gate = GateClient::new(channel(&socket));
        let given = gate.challenge_posture(ChallengePostureRequest {}).await;
        given.map(|given| given.into_inner().nonce)
    })
    .map_err(|status: Status| Refused::of(&status))
}

/// A report in which everything was tried and blocked.
fn clean(world: &World) -> Vec<PostureProbe> {
    let probe = |name: &str| PostureProbe {
        probe: name.to_owned(),
        target: "somewhere".to_owned(),
        outcome: "blocked".to_owned(),
        detail: "refused".to_owned(),
    };
    let mut all: Vec<_> = wicketgate::enforce::posture::PROBES.into_iter().map(probe).collect();
    let target = format!("127.0.0.1:{}", world.tool.port);
    all.push(PostureProbe { target, ..probe("gate.backend") });
    all
}

#[test]
fn a_report_counts_once_and_only_from_the_caller_that_was_challenged() {
    world::run("gate::a_report_counts_once_and_only_from_the_caller_that_was_challenged", || {
        let mut world = World::begin(|_| {});
        let missing = world.call().unwrap_err();
        assert!(missing.message.contains("no `wicketgate config doctor` yet"), "{missing:?}");
        assert_eq!(nonce(&world, STRANGER).unwrap_err().code, "identity.missing");
        let given = nonce(&world, AGENT).unwrap();
        let forged = report(&world, STRANGER, given.clone(), clean(&world)).unwrap_err();
        assert_eq!(forged.code, "identity.missing");
        let borrowed = report(&world, TWIN, given.clone(), clean(&world)).unwrap_err();
        assert_eq!((&*borrowed.code, &*borrowed.detail), ("identity.missing", "posture.nonce"));
        let missing = world.call().unwrap_err();
        assert_eq!(missing.detail, "isolation.missing");
        assert!(missing.message.contains("its report has not come"), "{missing:?}");
        assert_eq!(report(&world, AGENT, given.clone(), clean(&world)), Ok(true));
        world.ready();
        world.call().unwrap();
        let again = report(&world, AGENT, given, clean(&world)).unwrap_err();
        assert_eq!(again.detail, "posture.nonce");
        // The twin has said nothing, and what it says closes the gate for all.
        let mut open = clean(&world);
        open[0].outcome = "open".to_owned();
        let given = nonce(&world, TWIN).unwrap();
        assert_eq!(report(&world, TWIN, given, open), Ok(false));
        assert_eq!(world.call().unwrap_err().detail, "isolation.failed");
        assert_eq!(kinds(&world.close(), "posture.observed"), 2);
    });
}

#[test]
fn untried_or_unknown_targets_count_as_open_and_a_malformed_report_is_refused() {
    world::run(
        "gate::untried_or_unknown_targets_count_as_open_and_a_malformed_report_is_refused",
        || {
            let world = World::begin(|_| {});
            let mut part = clean(&world);
            part.pop();
            let given = nonce(&world, AGENT).unwrap();
            assert_eq!(report(&world, AGENT, given, part), Ok(false));
            world.not_ready("was not tried");
            let mut unsure = clean(&world);
            unsure[0].outcome = "unknown".to_owned();
            let given = nonce(&world, AGENT).unwrap();
            assert_eq!(report(&world, AGENT, given, unsure), Ok(false));
            world.not_ready("is unknown");
            let given = nonce(&world, AGENT).unwrap();
            let mut nonsense = clean(&world);
            nonsense[0].outcome = "fine".to_owned();
            let refused = report(&world, AGENT, given, nonsense).unwrap_err();
            assert_eq!((&*refused.code, &*refused.detail), ("request.malformed", "posture"));
            let summary = world.close();
            assert_eq!(kinds(&summary, "posture.observed"), 2);
        },
    );
}

#[test]
fn a_report_holds_for_a_bounded_time() {
    world::run("gate::a_report_holds_for_a_bounded_time", || {
        let world = World::begin(|config| config["posture"] = json!({"stale_after_seconds": 2}));
        let given = nonce(&world, AGENT).unwrap();
        assert_eq!(report(&world, AGENT, given, clean(&world)), Ok(true));
        world.not_ready("isolation.stale: agent `test-agent`");
        assert_eq!(world.call().unwrap_err().detail, "isolation.stale");
    });
}

#[test]
fn where_isolation_is_advisory_an_opening_is_recorded_and_nothing_hangs_on_it() {
    world::run(
        "gate::where_isolation_is_advisory_an_opening_is_recorded_and_nothing_hangs_on_it",
        || {
            let mut world = World::begin(|config| config["isolation"] = json!("advisory"));
            world.ready();
            world.doctor(AGENT).open(&["tcp.public"]);
            world.ready();
            world.call().unwrap();
            assert_eq!(kinds(&world.close(), "posture.observed"), 1);
        },
    );
}

#[test]
fn a_doctor_that_cannot_reach_its_gate_prints_no_isolation_result() {
    let folder = tempfile::tempdir().unwrap();
    let ran = Ran::gate(&folder, ["doctor", "--socket", "none.sock"]).ends(2);
    let ran = ran.complains("none.sock`: No such file");
    assert!(ran.out.is_empty(), "{}", ran.out);
}

#[tokio::test]
async fn a_doctor_that_looks_again_and_again_ends_by_a_signal_as_the_first_process_of_a_container()
{
    let folder = tempfile::tempdir().unwrap();
    let mut child = tokio::process::Command::new("unshare")
        .args(["--user", "--map-root-user", "--pid", "--fork", "--kill-child"])
        .arg(program::gate())
        .args(["doctor", "--every", "3600", "--socket"])
        .arg(folder.path().join("none.sock"))
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let (outer, terminate) = (child.id().unwrap(), 1_u64 << 14);
    let doctor = || {
        let children = std::fs::read_to_string(format!("/proc/{outer}/task/{outer}/children"));
        let pid: i32 = children.ok()?.trim().parse().ok()?;
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"))?;
        let caught = u64::from_str_radix(caught.trim(), 16).ok()?;
        (caught & terminate != 0).then_some(pid)
    };
    crate::until("a doctor that hears SIGTERM", || async { doctor().is_some() }).await;
    let pid = rustix::process::Pid::from_raw(doctor().unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let ended = crate::within("its end", child.wait()).await.unwrap();
    assert_eq!(ended.code(), Some(0));
}
