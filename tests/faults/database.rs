//! Postgres stops, freezes, or answers late, at each point of a call.

use std::os::unix::fs::PermissionsExt as _;
use std::time::Instant;

use crate::agent::{Agent, Refused};
use crate::checker::{calls, check};
use crate::proxy::{Proxy, Way};
use crate::sidecar::{Estate, Sidecar};
use crate::tool::Tool;
use wicketgate_support::pg::{Pg, PrivatePg, TestDb};

/// A gate on a cluster of its own, through a proxy.
struct Served {
    agent: Agent,
    sidecar: Sidecar,
    estate: Estate,
    proxy: Proxy,
    pg: PrivatePg,
    tool: Tool,
    admin: String,
}

/// The URL of a database through another port.
pub fn through(url: &str, from: u16, to: u16) -> String {
    url.replace(&format!(":{from}/"), &format!(":{to}/"))
}

async fn served() -> Served {
    let tool = Tool::start().await;
    let pg = tokio::task::spawn_blocking(Pg::own_cluster).await.unwrap();
    let TestDb { admin_url, writer_url, .. } = pg.database().await;
    let proxy = Proxy::to(pg.port()).await;
    let url = through(&writer_url, pg.port(), proxy.port);
    let estate = Estate::postgres(&tool, &url, &admin_url, "local");
    let sidecar = estate.serve().await;
    let agent = sidecar.open().await;
    agent.call("work.do", "before", r#"{"n":1}"#).await.unwrap();
    Served { tool, pg, proxy, estate, sidecar, agent, admin: admin_url }
}

/// An answer, whatever the database does; without a deadline of the gate's own there would be none.
async fn answered(work: impl Future<Output = Result<String, Refused>>) -> Result<String, Refused> {
    crate::within("an answer", work).await
}

#[track_caller]
fn nothing_ran(answer: &Result<String, Refused>) {
    let refused = answer.as_ref().unwrap_err();
    assert!(
        matches!(refused.code.as_str(), "ledger.unavailable" | "ledger.unknown"),
        "{refused:?}"
    );
}

impl Served {
    /// Service is back by itself; `id` is now run once or proven never to have started.
    async fn resumes(mut self, id: &str) {
        self.sidecar.ready().await;
        let mut again = self.agent.call("work.do", id, r#"{"n":2}"#).await;
        // The proof may still be on its way to the books.
        let began = Instant::now();
        while again.as_ref().is_err_and(|refused| refused.code == "ledger.unknown") {
            assert!(began.elapsed() < crate::waiting::PATIENCE, "still unknown");
            again = self.agent.call("work.do", id, r#"{"n":2}"#).await;
        }
        match again {
            Ok(_) => assert_eq!(self.tool.count_of(id), 1),
            Err(refused) => {
                assert_eq!(
                    (refused.code.as_str(), refused.message.as_str()),
                    ("tool.failed", "the call never started")
                );
                assert_eq!(self.tool.count_of(id), 0);
            }
        }
        self.agent.call("work.do", "after", r#"{"n":3}"#).await.unwrap();
        self.agent.seal().await.unwrap();
        self.sidecar.stop().await;
        let summary = check(&self.estate.database, &self.tool, &self.estate.receipts);
        assert_eq!(calls(&summary, "unknown"), 0, "{summary}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_stopped_before_the_commit_lets_nothing_run_and_service_resumes() {
    let served = served().await;
    served.pg.stop_immediate();
    let answer = answered(served.agent.call("work.do", "a", r#"{"n":2}"#)).await;
    nothing_ran(&answer);
    assert_eq!(served.tool.count(), 1);
    let refused = Agent::try_open(&served.estate.socket(), &served.estate.receipts).await;
    assert!(refused.is_err());
    served.sidecar.not_ready("ledger").await;
    served.pg.start();
    served.resumes("a").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_froze_before_the_commit_lets_nothing_run_and_service_resumes() {
    let served = served().await;
    served.pg.freeze();
    let answer = answered(served.agent.call("work.do", "a", r#"{"n":2}"#)).await;
    nothing_ran(&answer);
    assert_eq!(served.tool.count(), 1);
    served.pg.thaw();
    served.resumes("a").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_stopped_between_commit_and_execution_lets_nothing_run() {
    let served = served().await;
    served.proxy.answered(Way::Held);
    let call = answered(served.agent.call("work.do", "a", r#"{"n":2}"#));
    let stop = async {
        served.proxy.caught().await;
        served.pg.stop_immediate();
        served.proxy.answered(Way::Cut);
    };
    let (answer, ()) = tokio::join!(call, stop);
    nothing_ran(&answer);
    assert_eq!(served.tool.count(), 1);
    served.proxy.answered(Way::Open);
    served.pg.start();
    served.resumes("a").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_acknowledged_too_late_runs_nothing_and_the_ledger_records_that() {
    let served = served().await;
    served.proxy.answered(Way::Held);
    let answer = answered(served.agent.call("work.do", "a", r#"{"n":2}"#)).await;
    nothing_ran(&answer);
    served.proxy.answered(Way::Open);
    served.resumes("a").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_that_is_held_up_is_answered_in_time_and_never_run_later() {
    let served = served().await;
    served.proxy.asked(Way::Held);
    let answer = answered(served.agent.call("work.do", "a", r#"{"n":2}"#)).await;
    nothing_ran(&answer);
    served.proxy.asked(Way::Open);
    served.resumes("a").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_whose_commit_acknowledgement_was_lost_runs_once() {
    let served = served().await;
    served.proxy.answered(Way::Cut);
    let call = answered(served.agent.call("work.do", "a", r#"{"n":2}"#));
    let heal = async {
        served.proxy.caught().await;
        served.proxy.answered(Way::Open);
    };
    let (answer, ()) = tokio::join!(call, heal);
    answer.unwrap();
    assert_eq!(served.tool.count_of("a"), 1);
    served.resumes("a").await;
}

/// The tool ran while the database went away: nobody reads the result before it is on the books.
async fn outcome_owed(away: impl Fn(&PrivatePg), back: impl Fn(&PrivatePg)) {
    let mut served = served().await;
    served.tool.hold();
    let agent = served.agent.clone();
    let call = tokio::spawn(async move { agent.call("work.do", "a", r#"{"n":2}"#).await });
    served.tool.entered(1).await;
    away(&served.pg);
    served.tool.release();
    let refused = crate::within("an answer", call).await.unwrap().unwrap_err();
    assert_eq!(refused.code, "call.unknown", "{refused:?}");
    let asked = answered(served.agent.get("a")).await;
    assert!(asked.is_err(), "released before it is on the books: {asked:?}");
    back(&served.pg);
    served.sidecar.ready().await;
    // The commit that made the gate ready has the outcome; its call learns that a moment later.
    let known = || async { answered(served.agent.get("a")).await.is_ok() };
    crate::until("the outcome of the call", known).await;
    let got = answered(served.agent.get("a")).await.unwrap();
    assert!(got.contains("done"), "{got}");
    let again = answered(served.agent.call("work.do", "a", r#"{"n":2}"#)).await.unwrap();
    assert_eq!((again, served.tool.count_of("a")), (got, 1));
    served.sidecar.stop().await;
    let summary = check(&served.estate.database, &served.tool, &served.estate.receipts);
    assert_eq!(calls(&summary, "completed"), 2, "{summary}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_result_waits_for_a_database_that_stopped_during_the_call() {
    outcome_owed(PrivatePg::stop_immediate, PrivatePg::start).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_result_waits_for_a_database_that_froze_during_the_call() {
    outcome_owed(PrivatePg::freeze, PrivatePg::thaw).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gate_that_starts_before_its_database_waits_for_it() {
    let tool = Tool::start().await;
    let pg = tokio::task::spawn_blocking(Pg::own_cluster).await.unwrap();
    let TestDb { admin_url, writer_url, .. } = pg.database().await;
    pg.stop_immediate();
    let estate = Estate::postgres(&tool, &writer_url, &admin_url, "local");
    let mut sidecar = estate.start();
    // Its agent is let at it all the same: what it asks is refused in the words of its protocol, under its own id.
    crate::until("an agent to be let at it", || async {
        sidecar.startup().await.is_some_and(|(started, _)| started)
    })
    .await;
    sidecar.not_ready("ledger: starting").await;
    for id in ["7", "\"a\""] {
        let said =
            asked(&estate, &format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/list"}}"#))
                .await;
        assert!(said.starts_with("HTTP/1.1 503"), "{said}");
        assert!(said.to_lowercase().contains("content-type: application/json\r\n"), "{said}");
        let body = said.split("\r\n\r\n").nth(1).unwrap();
        let body: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!(body["jsonrpc"], "2.0", "{body}");
        assert_eq!(body["id"], serde_json::from_str::<serde_json::Value>(id).unwrap(), "{body}");
        assert_eq!(body["error"]["data"]["code"], "not_ready", "{body}");
        assert_eq!(body["error"]["data"]["retry"], "same_id", "{body}");
    }
    pg.start();
    sidecar.ready().await;
    sidecar.open().await.call("work.do", "a", "{}").await.unwrap();
    sidecar.stop().await;
    check(&estate.database, &tool, &estate.receipts);
}

/// One request of MCP on the agent's socket: the whole answer.
async fn asked(estate: &Estate, body: &str) -> String {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let mut stream = tokio::net::UnixStream::connect(estate.socket()).await.unwrap();
    let head = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n\
        Accept: application/json\r\n";
    let request = format!("{head}Content-Length: {}\r\n\r\n{body}", body.len());
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    text
}

/// The first call an agent makes is made when the probe of its pod says so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_are_served_once_startupz_succeeds_and_it_fails_without_a_bundle() {
    let tool = Tool::start().await;
    let estate = Estate::sqlite(&tool);
    for turn in 0..5 {
        let mut sidecar = estate.start();
        crate::until("a start to be told", || async {
            sidecar.startup().await.is_some_and(|(started, _)| started)
        })
        .await;
        let agent = sidecar.open().await;
        agent.call("work.do", &format!("c{turn}"), "{}").await.unwrap();
        agent.seal().await.unwrap();
        sidecar.stop().await;
    }
    estate.bundle(
        "1.0.1",
        "package wicketgate.agent\nimport rego.v1\n\nallow if false\n",
        "stranger",
    );
    let mut sidecar = estate.start();
    crate::until("the bundle to be refused", || async {
        sidecar.said().contains("no policy bundle is in force")
    })
    .await;
    let (started, why) = sidecar.startup().await.unwrap();
    assert!(!started && why.contains("no bundle is in force"), "{why}");
    sidecar.stop().await;
    check(&estate.database, &tool, &estate.receipts);
}

/// Nobody asks anything of the gate meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_gate_reports_a_frozen_database_and_records_both_health_changes() {
    let mut served = served().await;
    served.pg.freeze();
    served.sidecar.not_ready("control: operators' orders were not read").await;
    served.pg.thaw();
    served.sidecar.ready().await;
    served.agent.call("work.do", "a", r#"{"n":2}"#).await.unwrap();
    let url = served.estate.path("admin.url");
    std::fs::write(&url, &served.admin).unwrap();
    std::fs::set_permissions(&url, std::fs::Permissions::from_mode(0o600)).unwrap();
    let tail = ["ledger", "tail", "--postgres-url-file", "admin.url", "-n", "100"];
    let told = || crate::sidecar::run(&served.estate.path("."), &tail);
    crate::until("both turns on the books", || async {
        told().matches("health.changed").count() == 2
    })
    .await;
    let told = told();
    assert!(told.contains("NOT READY: control: operators' orders were not read"), "{told}");
    served.sidecar.stop().await;
    let summary = check(&served.estate.database, &served.tool, &served.estate.receipts);
    assert_eq!(crate::checker::kinds(&summary, "health.changed"), 2, "{summary}");
}
