//! What a manifest pins is proposed from what the gate recorded, and compared with it.

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::gate::{Gate, INSTRUCTIONS};
use crate::provider::Answer;
use crate::ran::Ran;
use crate::said::{ALL, CHAT, Dialect, MESSAGES};
use crate::sidecar::key;
use crate::wire::Reply;

const GUIDE: &str =
    "You are a careful assistant. Answer in one sentence, and say when you do not know.";

fn environment(path: &str, date: &str) -> String {
    format!(
        "Here is the environment:\nWorking directory: {path}\nPlatform: linux\nToday's date: {date}\n\
         Do not touch files outside of the directory.\n"
    )
}

fn sha256(text: &str) -> String {
    hex::encode(Sha256::digest(text))
}

/// A request with these two instructions, which offers the tool `Bash`.
fn request(dialect: &Dialect, guide: &str, environment: &str) -> Value {
    let request = dialect.prompted(&[guide, environment], &[dialect.question("hi")], false);
    dialect.with_tools(request, &[("Bash", "the agent's own Bash")])
}

/// Asks the model in the run of this name.
async fn asks(gate: &Gate, dialect: &Dialect, run: &str, body: &Value) -> Reply {
    let (path, body) = dialect.placed(body);
    gate.ask("POST", &path, &[("X-Wicketgate-Run", run)], &body).await
}

/// Asks the model, which answers.
async fn answered(gate: &Gate, dialect: &Dialect, run: &str, body: &Value) -> Reply {
    gate.provider.answers(Answer::json(200, &dialect.whole("hello", &[])));
    let reply = asks(gate, dialect, run, body).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    reply
}

fn run_of(reply: &Reply) -> String {
    reply.header("wicketgate-run").expect("a run").to_owned()
}

/// Runs `manifest pin` with the gate's configuration.
fn pin(gate: &Gate, runs: &[&str], more: &[&str]) -> Ran {
    let begin = ["manifest", "pin", "--config", "wicketgate.yaml", "--from-run"];
    gate.estate.try_run(&[&begin[..], runs, more].concat())
}

/// A gate whose manifest lists no instructions.
async fn unpinned() -> Gate {
    Gate::start_with(|_| {}, |spec| spec["instructions"] = json!([])).await
}

/// The manifest with this fragment in place of what it proposes.
fn with_fragment(gate: &Gate, fragment: &str) -> String {
    let old = gate.estate.read_json("agent.yaml");
    let proposed = ["model", "instructions", "client_tools", "binding"];
    let spec = old["spec"].as_object().unwrap().iter();
    let kept = spec.filter(|(name, _)| !proposed.contains(&name.as_str()));
    let kept: String = kept.map(|(name, value)| format!("  {name}: {value}\n")).collect();
    format!(
        "apiVersion: wicketgate.dev/v1\nkind: AgentManifest\n\
         metadata: {{name: test-agent, version: 1.0.2, owner: tests@example.com}}\nspec:\n{kept}{fragment}"
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_fragment_pins_what_the_runs_showed_and_nothing_else() {
    let mut gate = unpinned().await;
    let mut runs = Vec::new();
    for (number, dialect) in ALL.into_iter().enumerate() {
        // Each has a directory and a day of its own.
        let path = ["/a/b", "/c", "/d/e/f"].get(number).copied().unwrap_or("/g");
        let date = format!("2026-11-{:02}", number + 1);
        let body = request(dialect, GUIDE, &environment(path, &date));
        runs.push(run_of(&answered(&gate, dialect, dialect.name, &body).await));
    }
    let runs: Vec<&str> = runs.iter().map(String::as_str).collect();

    let facts = pin(&gate, &runs, &["--json"]).ok().json();
    let template = environment("{{path}}", "{{date}}");
    let spec = &facts["spec"];
    assert_eq!(spec["model"], json!({"provider": "example", "names": ["small"]}), "{facts}");
    let expected = json!([
        {"sha256": sha256(GUIDE), "scope": "block", "required": true},
        {"sha256": sha256(&template), "scope": "template", "required": true},
    ]);
    assert_eq!(spec["instructions"], expected, "{facts}");
    let [tool] = spec["client_tools"].as_array().unwrap().as_slice() else { panic!("{facts}") };
    assert_eq!((&tool["name"], &tool["tier"]), (&json!("Bash"), &json!("T2")), "{facts}");
    assert!(tool["definition"].is_string(), "one definition in all dialects: {facts}");
    // The path of the first request; a date is fixed by its form.
    assert_eq!(
        (&facts["requests"], &facts["loose_bytes"]),
        (&json!(ALL.len()), &json!(4)),
        "{facts}"
    );
    let file = format!("templates/{}.txt", sha256(&template));
    assert_eq!(std::fs::read_to_string(gate.estate.path(&file)).unwrap(), template);

    let printed = pin(&gate, &runs, &[]).ok();
    let again = pin(&gate, &runs, &["--out", "pinned.yaml"]).ok();
    assert_eq!(again.out, "");
    assert_eq!(std::fs::read_to_string(gate.estate.path("pinned.yaml")).unwrap(), printed.out);
    pin(&gate, &runs, &["--out", "pinned.yaml"]).ends(64).complains("exists and is not replaced");
    pin(&gate, &runs, &["--artifacts", "nowhere"]).ends(64).complains("`nowhere`: ");
    assert!(printed.out.contains("loose_bytes: 4 bytes"), "{}", printed.out);

    gate.estate.write("agent.yaml", with_fragment(&gate, &printed.out));
    gate.estate.run(&["manifest", "sign", "agent.yaml", "--key", &key("manifest")]);
    gate.again().await;
    for dialect in ALL {
        let later = environment("/somewhere/else", "2027-01-01");
        answered(&gate, dialect, "later", &request(dialect, GUIDE, &later)).await;
        let other = GUIDE.replace("one sentence", "two sentences");
        let asked = gate.provider.asked().len();
        let reply = asks(&gate, dialect, "other", &request(dialect, &other, &later)).await;
        assert_eq!(reply.status, 403, "{reply:?}");
        assert!(reply.body.contains("manifest.instructions"), "{reply:?}");
        assert_eq!(gate.provider.asked().len(), asked);
        if dialect == MESSAGES {
            shows_the_difference(&gate, &run_of(&reply));
        }
    }
    gate.checked().await;
}

/// The run had a request whose instructions differ in two words from the pinned ones.
fn shows_the_difference(gate: &Gate, run: &str) {
    let public = key("manifest.pub");
    let verify = ["manifest", "verify", "agent.yaml", "--public-key", &public];
    let seen = ["--config", "wicketgate.yaml", "--seen", run];
    gate.estate.try_run(&verify).ok();
    let shown = gate.estate.try_run(&[&verify[..], &seen].concat()).ends(1);
    for part in [
        "leading instructions 1",
        "closest to `spec.instructions[0]` (block)",
        "at line 1, column 40",
        "Answer in one sentence, and",
        "Answer in two sentences, and",
        "wicketgate manifest pin --from-run",
        "--include-denied --config wicketgate.yaml\n",
    ] {
        assert!(shown.out.contains(part), "`{part}` is not in {}", shown.out);
    }
    let facts = gate.estate.try_run(&[&verify[..], &seen, &["--json"]].concat()).ends(1).json();
    assert_eq!(facts["ok"], false, "{facts}");
    let closest = &facts["seen"]["different"][0]["blocks"][0]["closest"];
    assert_eq!((&closest["entry"], &closest["column"]), (&json!(0), &json!(40)), "{facts}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn denied_requests_are_used_only_if_they_are_wanted() {
    let gate = Gate::start().await;
    let chat = CHAT;
    let other = "You are the assistant of nobody.";
    let body = chat.offering("hi", false, &["Bash", "Unlisted"]);
    let body: Value = serde_json::from_str(&body.to_string().replace(INSTRUCTIONS, other)).unwrap();
    let reply = asks(&gate, chat, "denied", &body).await;
    assert_eq!(reply.status, 403, "{reply:?}");
    let run = run_of(&reply);
    pin(&gate, &[&run], &[]).ends(1).complains("--include-denied");
    let facts = pin(&gate, &[&run], &["--include-denied", "--json"]).ok().json();
    let expected = json!([{"sha256": sha256(other), "scope": "block", "required": true}]);
    assert_eq!(facts["spec"]["instructions"], expected, "{facts}");
    let tools = facts["spec"]["client_tools"].as_array().unwrap();
    let names: Vec<&Value> = tools.iter().map(|tool| &tool["name"]).collect();
    assert_eq!(names, ["Bash", "Unlisted"], "{facts}");
    gate.checked().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_without_readable_requests_is_named_with_what_to_do() {
    let gate = Gate::start_with(|_| {}, |spec| spec["incognito"] = json!("required")).await;
    let unknown = "01234567-0123-4123-8123-0123456789ab";
    pin(&gate, &[unknown], &[]).ends(64).complains("no run `01234567").complains("wicketgate-run");
    let listed = gate.ask("GET", "/v1/models", &[("X-Wicketgate-Run", "idle")], "").await;
    pin(&gate, &[&run_of(&listed)], &[]).ends(1).complains("has no request to a model");
    let chat = CHAT;
    let reply = answered(&gate, chat, "dark", &chat.request("hi", false)).await;
    pin(&gate, &[&run_of(&reply)], &[])
        .ends(1)
        .complains("incognito")
        .complains("name another run");
    gate.checked().await;
}
