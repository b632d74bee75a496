//! Requests that another's program makes of the document, each answer held against it.

use std::process::Command;

use crate::checker::kinds;
use crate::gate::Gate;
use wicketgate_support::program::top;

/// Where `tests/run` installed it.
fn program() -> Option<std::path::PathBuf> {
    let folder = std::env::var_os("WICKETGATE_TEST_HTTP")?;
    let program = std::path::Path::new(&folder).join("bin/schemathesis");
    program.exists().then_some(program)
}

/// Half a minute, because it makes thousands of requests.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_request_made_of_the_document_gets_a_status_or_a_body_that_it_does_not_name() {
    let Some(program) = program() else {
        eprintln!("not tested here: schemathesis is not installed; tests/run installs it");
        return;
    };
    let gate = Gate::start().await;
    let run = gate.open().await;
    let home = tempfile::tempdir().unwrap();
    let mut command = Command::new(program);
    command
        .current_dir(home.path())
        .env("HOME", home.path())
        .env("WICKETGATE_RUN", run.bearer.trim_start_matches("Bearer "))
        .env("WICKETGATE_AGENT", crate::gate::TOKEN)
        .args(["--config-file"])
        .arg(top().join("tests/http/schemathesis.toml"))
        .args(["run", &format!("http://{}/openapi.json", gate.host), "--no-color"])
        .args(["--url", &format!("http://{}", gate.host)]);
    let done = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let said = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(done.status.success(), "{said}{}", String::from_utf8_lossy(&done.stderr));
    let summary = gate.checked().await;
    assert!(kinds(&summary, "request.rejected") >= 1, "{summary}");
}
