//! One machine: the sidecar answers its operators itself.

use std::path::PathBuf;

use serde_json::Value;
use wicketgate::serve::pb::gate_client::GateClient;

use crate::agent::{Agent, Refused, claims};
use crate::checker::check;
use crate::people::{People, RULES, done};
use crate::sidecar::{Estate, Sidecar};
use crate::tool::Tool;

struct Setup {
    people: People,
    tool: Tool,
    estate: Estate,
    sidecar: Sidecar,
    agent: Agent,
}

impl Setup {
    async fn new() -> Setup {
        Self::with(|_, _| {}).await
    }

    async fn with(change: impl FnOnce(&Estate, &mut Value)) -> Setup {
        let (people, tool) = (People::new(), Tool::start().await);
        let estate = Estate::sqlite(&tool);
        estate.bundle("1.0.1", RULES, "policy");
        estate.configure(|config| {
            people.configure(config, true);
            change(&estate, config);
        });
        let sidecar = estate.serve().await;
        let agent = sidecar.open().await;
        Setup { people, tool, estate, sidecar, agent }
    }

    fn url(&self) -> String {
        self.sidecar.operator_url()
    }

    async fn hold(&self, id: &str, args: &str) {
        let held = self.agent.call("work.do", id, args).await;
        assert_eq!(held.unwrap_err().code, "call.held");
    }

    fn says(&self, who: &str, word: &str, call: &str) -> (Option<i32>, Value) {
        self.people.says(who, word, &self.url(), (&self.agent.run, call))
    }

    async fn close(mut self) {
        self.sidecar.stop().await;
        check(&self.estate.database, &self.tool, &self.estate.receipts);
    }
}

fn code(answer: &Result<String, Refused>) -> String {
    let refused = answer.as_ref().unwrap_err();
    format!("{} {}", refused.code, refused.detail)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_approved_call_runs_once_and_its_approval_covers_no_other_call() {
    let setup = Setup::new().await;
    setup.hold("c1", r#"{"hold":true,"n":1}"#).await;
    let waiting = setup.agent.wait("c1", 20_000);
    let approving = async {
        let (exit, told) = setup.says("ada", "approve", "c1");
        assert_eq!((exit, done(&told)), (Some(0), ("authorized".into(), String::new())), "{told}");
    };
    let (waited, ()) = tokio::join!(waiting, approving);
    waited.unwrap();
    setup.agent.call("work.do", "c1", r#"{"hold":true,"n":1}"#).await.unwrap();
    // The word was about these very bytes, this tool, this call.
    let other = setup.agent.call("work.do", "c1", r#"{"hold":true,"n":2}"#).await;
    assert_eq!(other.unwrap_err().code, "call.conflict");
    let other = setup.agent.call("work.do", "c2", r#"{"hold":true,"n":1}"#).await;
    assert_eq!(other.unwrap_err().code, "call.held");
    let (exit, _) = setup.says("grace", "approve", "c1");
    assert_eq!(exit, Some(1), "nothing waits under this id any more");
    assert_eq!(setup.tool.count(), 1);
    setup.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_people_are_needed_and_a_restart_between_them_forgets_neither() {
    let mut setup = Setup::new().await;
    let args = r#"{"hold":2}"#;
    setup.hold("c", args).await;
    assert_eq!(done(&setup.says("ada", "approve", "c").1).0, "held");
    let (exit, told) = setup.says("ada", "approve", "c");
    assert_eq!((exit, done(&told).1.as_str()), (Some(1), "approval.again"), "{told}");
    setup.sidecar.kill();
    setup.sidecar = setup.estate.serve().await;
    setup.hold("c", args).await;
    assert_eq!(done(&setup.says("grace", "approve", "c").1).0, "authorized");
    let waited = setup.agent.wait("c", 20_000).await;
    waited.unwrap();
    assert_eq!(setup.tool.count(), 1);
    setup.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_not_on_the_list_or_no_more_counts_for_nothing_whatever_token_they_have() {
    let setup = Setup::new().await;
    setup.hold("c", r#"{"hold":true}"#).await;
    let (exit, told) = setup.says("mallory", "approve", "c");
    assert_eq!((exit, done(&told).1.as_str()), (Some(1), "approval.signer"), "{told}");
    // Taken off the list while the call is held.
    setup.people.list(&["grace"]);
    assert_eq!(done(&setup.says("ada", "approve", "c").1).1, "approval.signer");
    // Revoked by an operator.
    let key = setup.people.fingerprint("grace");
    let (exit, said) = setup.people.types(
        "otto",
        &setup.url(),
        &["control", "revoke", "key", &key, "--reason", "lost"],
    );
    assert_eq!(exit, Some(0), "{said}");
    assert_eq!(done(&setup.says("grace", "approve", "c").1).1, "approval.revoked");
    // An unsigned list is none.
    std::fs::write(setup.people.path("signers"), "").unwrap();
    assert_eq!(done(&setup.says("ada", "approve", "c").1).1, "approval.signer");
    setup.hold("c", r#"{"hold":true}"#).await;
    assert_eq!(setup.tool.count(), 0);
    setup.close().await;
}

/// The list in force, and its signature.
fn list(setup: &Setup) -> [(PathBuf, Vec<u8>); 2] {
    ["signers", "signers.sig.json"].map(|name| {
        let path = setup.people.path(name);
        let bytes = std::fs::read(&path).unwrap();
        (path, bytes)
    })
}

fn put_back(list: &[(PathBuf, Vec<u8>)]) {
    list.iter().for_each(|(path, bytes)| std::fs::write(path, bytes).unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_older_list_of_approvers_does_not_restore_a_removed_person() {
    let mut setup = Setup::new().await;
    let older = list(&setup);
    setup.people.list(&["grace"]);
    let newer = list(&setup);
    setup.hold("c", r#"{"hold":2}"#).await;
    // The newer list was read for somebody's word, whatever became of that.
    assert_eq!(done(&setup.says("ada", "approve", "c").1).1, "approval.signer");
    put_back(&older);
    let refused = |told: &Value| {
        let told = told.to_string();
        assert!(told.contains("approvers.version") && told.contains("version=3"), "{told}");
    };
    refused(&setup.says("ada", "approve", "c").1);
    // Nor does it after a restart, with nothing left beside the ledger of what was read.
    setup.sidecar.stop().await;
    std::fs::remove_dir_all(setup.estate.path("state/artifacts")).unwrap();
    setup.sidecar = setup.estate.serve().await;
    refused(&setup.says("ada", "approve", "c").1);
    assert!(
        setup.sidecar.said().contains("approvals are not accepted"),
        "{}",
        setup.sidecar.said()
    );
    // The same version with other people, or no version, is no newer list.
    let text = String::from_utf8(older[0].1.clone()).unwrap();
    for first in ["# wicketgate: version=2", "# wicketgate: version=0", "# the first list"] {
        setup.people.sign(&text.replacen("# wicketgate: version=1", first, 1));
        refused(&setup.says("ada", "approve", "c").1);
    }
    // One that has ended counts for nobody, and the same one without an end for everybody on it.
    let with = |words: &str| text.replacen("version=1", words, 1);
    setup.people.sign(&with("version=3 expires=20200101Z"));
    let told = setup.says("ada", "approve", "c").1.to_string();
    assert!(told.contains("expired"), "{told}");
    put_back(&newer);
    assert_eq!(done(&setup.says("grace", "approve", "c").1).0, "held");
    setup.people.sign(&with("version=3"));
    assert_eq!(done(&setup.says("ada", "approve", "c").1).0, "authorized");
    setup.agent.wait("c", 20_000).await.unwrap();
    put_back(&newer);
    setup.hold("d", r#"{"hold":true}"#).await;
    let told = setup.says("grace", "approve", "d").1.to_string();
    assert!(told.contains("approvers.version"), "{told}");
    setup.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_call_is_answered_as_denied_and_an_expired_call_as_expired() {
    let setup = Setup::new().await;
    setup.hold("c", r#"{"hold":2}"#).await;
    assert_eq!(done(&setup.says("ada", "approve", "c").1).0, "held");
    assert_eq!(done(&setup.says("grace", "refuse", "c").1).0, "denied");
    let told = setup.agent.call("work.do", "c", r#"{"hold":2}"#).await;
    assert_eq!(code(&told), "policy.denied approval.refused");
    let mut setup = setup;
    setup.sidecar.stop().await;
    setup.estate.configure(|config| config["limits"]["hold_seconds"] = 1.into());
    setup.sidecar = setup.estate.serve().await;
    setup.hold("late", r#"{"hold":true}"#).await;
    let expired = setup.agent.wait("late", 20_000).await;
    assert_eq!(expired.unwrap_err().code, "call.expired");
    assert_eq!(setup.tool.count(), 0);
    setup.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_approver_may_not_stop_agents_and_an_operator_may_not_approve() {
    let setup = Setup::new().await;
    setup.hold("c", r#"{"hold":true}"#).await;
    let url = setup.url();
    let (exit, said) = setup.people.types(
        "ada",
        &url,
        &["control", "kill", "agent", "test-agent", "--reason", "x"],
    );
    assert!(exit == Some(1) && said.contains("operator.forbidden"), "{said}");
    let (exit, told) = setup.says("otto", "approve", "c");
    assert!(exit == Some(1) && told.to_string().contains("operator.forbidden"), "{told}");
    let kill = ["control", "kill", "agent", "test-agent", "--reason", "it runs away"];
    let (exit, said) = setup.people.types("otto", &url, &kill);
    assert_eq!(exit, Some(0), "{said}");
    let killed = setup.agent.call("work.do", "c", r#"{"hold":true}"#).await;
    assert_eq!(killed.unwrap_err().code, "call.cancelled");
    setup.close().await;
}

/// Opens a run over TCP with the agent's own token.
async fn open_with_token(setup: &Setup, token: &str) -> Result<Agent, tonic::Status> {
    let mut gate = GateClient::connect(format!("http://{}", setup.sidecar.agents())).await.unwrap();
    let mut request = tonic::Request::new(claims());
    let credential = format!("Bearer {token}").parse().unwrap();
    request.metadata_mut().insert("authorization", credential);
    let opened = gate.open_run(request).await?.into_inner();
    let receipts = setup.estate.receipts.clone();
    Ok(Agent { gate, token: opened.run_token, run: opened.run_id, receipts })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revocation_reaches_every_caller_of_the_agent_whatever_credential_it_shows() {
    let token = "t".repeat(48);
    let setup = Setup::with(|estate, config| {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::write(estate.path("agent.token"), &token).unwrap();
        let mode = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(estate.path("agent.token"), mode).unwrap();
        config["listen"]["tcp"] = "127.0.0.1:0".into();
        let callers = config["agents"][0]["callers"].as_array_mut().unwrap();
        callers.push(serde_json::json!({"token_file": "agent.token"}));
    })
    .await;
    let by_token = open_with_token(&setup, &token).await.unwrap();
    by_token.call("work.do", "a", "{}").await.unwrap();
    setup.agent.call("work.do", "b", "{}").await.unwrap();
    let revoke = ["control", "revoke", "agent", "test-agent", "--reason", "stolen"];
    let (exit, said) = setup.people.types("otto", &setup.url(), &revoke);
    assert_eq!(exit, Some(0), "{said}");
    for agent in [&by_token, &setup.agent] {
        assert_eq!(agent.call("work.do", "c", "{}").await.unwrap_err().code, "run.sealed");
    }
    open_with_token(&setup, &token).await.err().unwrap();
    Agent::try_open(&setup.estate.socket(), &setup.estate.receipts).await.err().unwrap();
    assert_eq!(setup.tool.count(), 2);
    setup.close().await;
}
