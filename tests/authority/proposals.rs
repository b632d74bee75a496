//! Other arguments for a held call: signed, by somebody who never is the second person, through the built program.

use serde_json::Value;
use wicketgate::record::Kind;

use crate::agent::Agent;
use crate::checker::check;
use crate::people::{People, RULES, done};
use crate::sidecar::{Estate, Sidecar};
use crate::tool::Tool;

pub struct Place {
    pub people: People,
    tool: Tool,
    estate: Estate,
    pub sidecar: Sidecar,
    pub agent: Agent,
}

impl Place {
    pub async fn new() -> Place {
        Self::under(RULES).await
    }

    async fn under(rules: &str) -> Place {
        let (people, tool) = (People::new(), Tool::start().await);
        let estate = Estate::sqlite(&tool);
        estate.bundle("1.0.1", rules, "policy");
        estate.configure(|config| people.configure(config, true));
        let sidecar = estate.serve().await;
        let agent = sidecar.open().await;
        Place { people, tool, estate, sidecar, agent }
    }

    async fn hold(&self, id: &str) {
        let held = self.agent.call("work.do", id, r#"{"hold":true,"n":1}"#).await;
        assert_eq!(held.unwrap_err().code, "call.held");
    }

    fn proposes(&self, who: &str, key: &str, call: &str, arguments: &str) -> (Option<i32>, String) {
        let file = self.people.path("new.json");
        std::fs::write(&file, arguments).unwrap();
        let (file, key) = (file.display().to_string(), self.people.path(key).display().to_string());
        let run = &self.agent.run;
        let args = ["approval", "modify", run, call, "--arguments", &file, "--key", &key, "--yes"];
        self.people.types(who, &self.sidecar.operator_url(), &args)
    }

    fn says(&self, who: &str, word: &str, call: &str) -> (Option<i32>, Value) {
        self.people.says(who, word, &self.sidecar.operator_url(), (&self.agent.run, call))
    }
}

/// What the policy says of the new arguments, whether it holds them or lets them run by themselves.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_proposes_arguments_never_approves_them_whatever_the_policy_says_of_them() {
    let mut place = Place::new().await;
    for (n, arguments) in [r#"{"hold":true,"n":2}"#, r#"{"n":2}"#].into_iter().enumerate() {
        let (call, new) = (format!("c{n}"), format!("c{n}.m1"));
        place.hold(&call).await;
        let (exit, said) = place.proposes("ada", "ada", &call, arguments);
        assert_eq!(exit, Some(0), "{said}");
        assert!(said.contains(&format!("proposed as call `{new}`, held")), "{said}");
        assert_eq!(place.tool.count(), u32::try_from(n).unwrap(), "nothing ran yet");
        let (exit, told) = place.says("ada", "approve", &new);
        assert_eq!((exit, done(&told).1.as_str()), (Some(1), "approval.self"), "{told}");
        // Another life, and it is still known.
        place.sidecar.kill();
        place.sidecar = place.estate.serve().await;
        let (exit, told) = place.says("ada", "approve", &new);
        assert_eq!((exit, done(&told).1.as_str()), (Some(1), "approval.self"), "{told}");
        let url = place.sidecar.operator_url();
        let shown =
            place.people.types("grace", &url, &["approval", "show", &place.agent.run, &new]);
        assert!(shown.1.contains("ARGUMENTS BY") && shown.1.contains("ada"), "{}", shown.1);
        let (exit, told) = place.says("grace", "approve", &new);
        assert_eq!((exit, done(&told).0.as_str()), (Some(0), "authorized"), "{told}");
        place.agent.wait(&new, 20_000).await.unwrap();
        let old = place.agent.call("work.do", &call, r#"{"hold":true,"n":1}"#).await;
        assert_eq!(old.unwrap_err().code, "call.cancelled");
    }
    assert_eq!(place.tool.count(), 2);
    place.sidecar.stop().await;
    let told = check(&place.estate.database, &place.tool, &place.estate.receipts);
    drop(told);
    let file = place.estate.path("state/ledger.sqlite").display().to_string();
    let said = crate::sidecar::run(
        &place.estate.path("."),
        &["ledger", "tail", "--sqlite", &file, "--number", "200"],
    );
    assert!(said.contains("(arguments by ada)") && said.contains("approve by grace"), "{said}");
    assert!(said.contains(Kind::CallHeld.as_str()));
}

/// The rate is one of the new arguments: the call that was held had none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_an_approver_changed_counts_for_the_rate_of_what_it_became() {
    let rate = "obligations contains {\"type\": \"rate_limit\", \"calls\": 1, \"seconds\": 3600} if not input.args.hold\n";
    let mut place = Place::under(&[RULES, rate].concat()).await;
    place.hold("c").await;
    let (exit, said) = place.proposes("ada", "ada", "c", r#"{"n":2}"#);
    assert_eq!(exit, Some(0), "{said}");
    assert_eq!(done(&place.says("grace", "approve", "c.m1").1).0, "authorized");
    place.agent.wait("c.m1", 20_000).await.unwrap();
    for (n, restarted) in [false, true].into_iter().enumerate() {
        if restarted {
            place.sidecar.kill();
            place.sidecar = place.estate.serve().await;
        }
        let over = place.agent.call("work.do", &format!("more-{n}"), r#"{"n":3}"#).await;
        let over = over.unwrap_err();
        assert_eq!((&*over.code, &*over.detail), ("limit.exceeded", "limit.rate"), "{over:?}");
    }
    assert_eq!(place.tool.count(), 1);
    place.sidecar.stop().await;
}

/// A token is no key, and a key that is not on the list, or somebody else's token, changes nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_an_approvers_own_signature_proposes() {
    let mut place = Place::new().await;
    place.hold("c").await;
    for (who, key) in [("ada", "mallory"), ("mallory", "mallory"), ("grace", "otto")] {
        let (exit, said) = place.proposes(who, key, "c", r#"{"n":2}"#);
        assert_eq!(exit, Some(1), "{said}");
        assert!(said.contains("NOT APPLIED"), "{said}");
    }
    // By the key, not by the token it was sent with: ada's word is ada's whoever carries it.
    let (exit, said) = place.proposes("grace", "ada", "c", r#"{"n":3}"#);
    assert_eq!(exit, Some(0), "{said}");
    assert_eq!(done(&place.says("ada", "approve", "c.m1").1).1, "approval.self");
    assert_eq!(done(&place.says("grace", "approve", "c.m1").1).0, "authorized");
    place.agent.wait("c.m1", 20_000).await.unwrap();
    assert_eq!(place.tool.count(), 1);
    place.sidecar.stop().await;
    check(&place.estate.database, &place.tool, &place.estate.receipts);
}
