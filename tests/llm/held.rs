//! Requests to models that people must approve: they run once, for a client that takes the answer.

use serde_json::{Value, json};

use crate::gate::{Gate, RULES};
use crate::people::done;
use crate::provider::{Answer, Part};
use crate::said::{ALL, CHAT, Dialect, MESSAGES, code, problem};
use crate::sidecar::Estate;
use crate::tool::Tool;
use crate::wire::{Reply, Wire};

const ONE_PERSON: &str = "require_approval contains {\"code\": \"ask\", \"message\": \"a person decides\"} if input.tool.kind == \"model\"\n";

/// A gate whose model people must approve; clients wait for so many seconds.
async fn gate(wait: u64) -> Gate {
    gate_with(wait, |_| {}).await
}

async fn gate_with(wait: u64, configure: impl FnOnce(&mut Value)) -> Gate {
    let tool = Tool::start().await;
    let estate = Estate::sqlite(&tool);
    let waits = |config: &mut Value| {
        let tools = config["tools"].as_array_mut().unwrap();
        let model = tools.iter_mut().find(|tool| tool["name"] == "llm.main").unwrap();
        model["model"]["hold_wait"] = json!(wait);
        configure(config);
    };
    Gate::start_on((tool, estate), &format!("{RULES}{ONE_PERSON}"), waits, |_| {}).await
}

/// Run and call of the newest hold.
fn newest(gate: &Gate) -> (String, String) {
    let entry = gate.entries("call.held").pop().expect("a held call");
    let text = |name: &str| entry[name].as_str().unwrap().to_owned();
    (text("run"), text("call"))
}

/// The same, once the gate has said that it decided one more call so.
fn held(gate: &Gate) -> (String, String) {
    let is_held = |line: &str| line.contains("call decided") && line.contains("require_approval");
    gate.sidecar.hear("a held call", |line| is_held(line).then_some(()));
    newest(gate)
}

/// Ada says this about a held call: the state of the call then.
fn says(gate: &Gate, word: &str, (run, call): &(String, String)) -> String {
    let (code, told) = gate.people.says("ada", word, &gate.sidecar.operator_url(), (run, call));
    assert_eq!(code, Some(0), "{told}");
    done(&told).0
}

async fn begin(gate: &Gate, dialect: &Dialect, body: &Value) -> Wire {
    let (path, body) = dialect.placed(body);
    gate.begin("POST", &path, &[], &body).await
}

/// The provider answers the next request with this text.
fn answers(gate: &Gate, dialect: &Dialect, stream: bool) {
    gate.provider.answers(match stream {
        true => Answer::of_dialect(dialect, &dialect.streamed("hello", &[])),
        false => Answer::json(200, &dialect.whole("hello", &[])),
    });
}

/// The client has the whole answer of this call.
fn is_answer(reply: &Reply, dialect: &Dialect, stream: bool, call: &str) {
    assert_eq!(reply.status, 200, "{} {reply:?}", dialect.name);
    assert_eq!(reply.header("wicketgate-call"), Some(call), "{reply:?}");
    if stream {
        let read = dialect.read(&reply.body);
        assert_eq!(read, ("hello".to_owned(), Vec::new(), true), "{reply:?}");
    } else {
        assert_eq!(reply.body, dialect.whole("hello", &[]).to_string(), "{}", dialect.name);
    }
}

/// The client reads that its request waits, and is not to repeat it by itself.
fn is_held(reply: &Reply) {
    assert_eq!(reply.status, 403, "{reply:?}");
    assert_eq!(code(reply), "call.held", "{reply:?}");
    assert_eq!(reply.header("x-should-retry"), Some("false"), "{reply:?}");
    let (body, until) = (reply.json(), problem(reply)["expires"].clone());
    // That of Ollama is a text.
    let message = body["error"]["message"].as_str().or(body["error"].as_str()).unwrap();
    let until = until.as_str().unwrap();
    assert!(message.contains(until) && message.contains("again"), "{reply:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_is_approved_while_its_client_waits_is_answered() {
    let gate = gate(60).await;
    for dialect in ALL {
        for stream in [false, true] {
            answers(&gate, dialect, stream);
            let body = dialect.request(&format!("hi {stream}"), stream);
            let mut wire = begin(&gate, dialect, &body).await;
            let hold = held(&gate);
            says(&gate, "approve", &hold);
            let reply = wire.reply().await.expect("an answer");
            is_answer(&reply, dialect, stream, &hold.1);
        }
    }
    let both = 2 * ALL.len();
    assert_eq!(gate.provider.asked().len(), both);
    for kind in ["call.held", "approval.granted", "call.authorized", "call.completed"] {
        assert_eq!(gate.entries(kind).len(), both, "{kind}");
    }
    let forms: Vec<Value> = gate
        .entries("call.held")
        .iter()
        .map(|entry| entry["data"]["asked_in"]["dialect"].clone())
        .collect();
    let each = ALL.into_iter().flat_map(|dialect| [dialect.name; 2]);
    assert_eq!(forms, each.collect::<Vec<_>>());
    gate.checked().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_is_approved_later_runs_once_its_client_asks_again() {
    let gate = gate(1).await;
    for dialect in ALL {
        for stream in [false, true] {
            let body = dialect.request(&format!("hi {stream}"), stream);
            let asked = gate.provider.asked().len();
            let reply = gate.asks(dialect, &body).await;
            is_held(&reply);
            let hold = newest(&gate);
            assert_eq!(reply.header("wicketgate-call"), Some(hold.1.as_str()), "{reply:?}");
            // Asked for again, it is the same request.
            let again = gate.asks(dialect, &body).await;
            is_held(&again);
            assert_eq!(again.header("wicketgate-call"), Some(hold.1.as_str()), "{again:?}");
            assert_eq!(says(&gate, "approve", &hold), "awaited");
            assert_eq!(gate.provider.asked().len(), asked, "no client takes an answer");
            answers(&gate, dialect, stream);
            let reply = gate.asks(dialect, &body).await;
            is_answer(&reply, dialect, stream, &hold.1);
            assert_eq!(gate.provider.asked().len(), asked + 1);
            // The approval is used up.
            let next = gate.asks(dialect, &body).await;
            is_held(&next);
            assert_ne!(next.header("wicketgate-call"), Some(hold.1.as_str()), "{next:?}");
            // A run may have a few held calls only.
            assert_eq!(says(&gate, "refuse", &newest(&gate)), "denied");
        }
    }
    assert_eq!(gate.entries("call.held").len(), 4 * ALL.len());
    assert_eq!(gate.entries("call.completed").len(), 2 * ALL.len());
    gate.checked().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_request_is_denied_whether_its_client_waits_or_not() {
    let waiting = gate(60).await;
    for dialect in ALL {
        let mut wire = begin(&waiting, dialect, &dialect.request("hi", false)).await;
        let hold = held(&waiting);
        assert_eq!(says(&waiting, "refuse", &hold), "denied");
        let reply = wire.reply().await.expect("an answer");
        assert_eq!((reply.status, code(&reply).as_str()), (403, "policy.denied"), "{reply:?}");
        assert!(reply.body.contains("approval.refused"), "{reply:?}");
    }
    waiting.checked().await;

    let mut gate = gate(1).await;
    for (number, dialect) in ALL.into_iter().enumerate() {
        let body = dialect.request("hi", true);
        is_held(&gate.asks(dialect, &body).await);
        let hold = newest(&gate);
        if number == 0 {
            // Another life: the form of the request is on record.
            gate.killed().await;
        }
        assert_eq!(says(&gate, "refuse", &hold), "denied");
        let reply = gate.asks(dialect, &body).await;
        assert_eq!((reply.status, code(&reply).as_str()), (403, "policy.denied"), "{reply:?}");
        assert!(reply.body.contains("approval.refused"), "{reply:?}");
        assert_eq!(reply.header("wicketgate-call"), Some(hold.1.as_str()), "{reply:?}");
        // People are not asked the same again at once.
        let again = gate.asks(dialect, &body).await;
        assert_eq!(again.header("wicketgate-receipt"), reply.header("wicketgate-receipt"));
    }
    assert!(gate.provider.asked().is_empty());
    let denied = gate.entries("call.denied");
    assert_eq!(denied.len(), ALL.len(), "{denied:?}");
    for entry in &denied {
        let reasons = entry["data"]["reasons"].as_array().unwrap();
        assert_eq!(reasons.len(), 1, "only the refusal: {entry}");
        assert_eq!(reasons[0]["detail"], "approval.refused");
    }
    gate.checked().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_is_not_approved_in_time_expires_and_its_client_reads_it() {
    let gate = gate_with(60, |config| config["limits"]["hold_seconds"] = json!(2)).await;
    for dialect in ALL {
        let reply = gate.asks(dialect, &dialect.request("hi", false)).await;
        assert_eq!((reply.status, code(&reply).as_str()), (403, "call.expired"), "{reply:?}");
    }
    assert!(gate.provider.asked().is_empty());
    assert_eq!(gate.entries("call.expired").len(), ALL.len());
    gate.checked().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_approval_is_for_exactly_these_bytes_in_this_form() {
    let gate = gate(0).await;
    let (chat, messages) = (CHAT, MESSAGES);
    let body = chat.request("hi", false);
    is_held(&gate.asks(chat, &body).await);
    let hold = newest(&gate);
    assert_eq!(says(&gate, "approve", &hold), "awaited");
    let mut hotter = body.clone();
    hotter["temperature"] = json!(2);
    for other in [chat.request("hi!", false), chat.request("hi", true), hotter] {
        let reply = gate.asks(chat, &other).await;
        is_held(&reply);
        assert_ne!(reply.header("wicketgate-call"), Some(hold.1.as_str()), "{other}");
    }
    // The same value in another order of members is the same request.
    answers(&gate, chat, false);
    let members = body.as_object().unwrap().iter().rev();
    let reversed: Vec<String> = members.map(|(name, of)| format!("\"{name}\": {of}")).collect();
    let reversed = format!("{{{}}}", reversed.join(", "));
    let reply = gate.ask("POST", chat.path, &[], &reversed).await;
    // `hold_wait` is 0: nothing waits, and what is approved runs all the same.
    is_answer(&reply, chat, false, &hold.1);

    // To count the tokens of a text is not to ask for an answer.
    let mut body = messages.request("hi", false);
    for name in ["stream", "max_tokens"] {
        body.as_object_mut().unwrap().remove(name);
    }
    let body = body.to_string();
    is_held(&gate.ask("POST", "/v1/messages/count_tokens", &[], &body).await);
    let counting = newest(&gate);
    assert_eq!(says(&gate, "approve", &counting), "awaited");
    let reply = gate.ask("POST", "/v1/messages", &[], &body).await;
    is_held(&reply);
    assert_ne!(reply.header("wicketgate-call"), Some(counting.1.as_str()), "{reply:?}");
    gate.provider.answers(Answer::json(200, &json!({"input_tokens": 7})));
    let reply = gate.ask("POST", "/v1/messages/count_tokens", &[], &body).await;
    assert_eq!((reply.status, &reply.json()["input_tokens"]), (200, &json!(7)), "{reply:?}");
    gate.checked().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_clients_that_ask_for_the_same_at_once_one_waits_and_it_runs_once() {
    let gate = gate(60).await;
    for dialect in ALL {
        let body = dialect.request("hi", false);
        let asked = gate.provider.asked().len();
        let mut first = begin(&gate, dialect, &body).await;
        let hold = held(&gate);
        let mut second = begin(&gate, dialect, &body).await;
        let (other, first_waits) = tokio::select! {
            reply = first.reply() => (reply, false),
            reply = second.reply() => (reply, true),
        };
        is_held(&other.expect("an answer"));
        answers(&gate, dialect, false);
        says(&gate, "approve", &hold);
        let mut waits = if first_waits { first } else { second };
        let reply = waits.reply().await.expect("an answer");
        is_answer(&reply, dialect, false, &hold.1);
        assert_eq!(gate.provider.asked().len(), asked + 1);
    }
    assert_eq!(gate.entries("call.held").len(), ALL.len());
    gate.checked().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_other_client_does_not_wait_for_the_end_of_the_answer_of_the_first() {
    let gate = gate(60).await;
    let chat = CHAT;
    let body = chat.request("hi", true);
    let mut first = begin(&gate, chat, &body).await;
    let hold = held(&gate);
    let mut second = begin(&gate, chat, &body).await;
    let (other, first_waits) = tokio::select! {
        reply = first.reply() => (reply, false),
        reply = second.reply() => (reply, true),
    };
    is_held(&other.expect("an answer"));
    let mut waits = if first_waits { first } else { second };
    let text = chat.streamed("hello", &[]);
    let (begun, rest) = text.split_once("\n\n").unwrap();
    let parts = [Part::Bytes(format!("{begun}\n\n")), Part::Wait, Part::Bytes(rest.to_owned())];
    gate.provider.answers(Answer::stream(parts.to_vec()));
    says(&gate, "approve", &hold);
    assert_eq!(waits.head().await.unwrap().status, 200);

    // The answer goes on; what the other asks is another request.
    let mut asks = begin(&gate, chat, &body).await;
    let next = held(&gate);
    assert_ne!(next.1, hold.1);
    assert_eq!(says(&gate, "refuse", &next), "denied");
    let refused = asks.reply().await.expect("an answer");
    assert!(refused.body.contains("approval.refused"), "{refused:?}");

    gate.provider.go();
    let mut seen = String::new();
    while let Some(chunk) = waits.chunk().await {
        seen.push_str(&String::from_utf8(chunk).unwrap());
    }
    assert_eq!(chat.read(&seen), ("hello".to_owned(), Vec::new(), true), "{seen}");
    gate.checked().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_held_request_is_the_same_one_after_the_gate_was_killed() {
    let mut gate = gate(1).await;
    for dialect in ALL {
        let body = dialect.request("hi", true);
        is_held(&gate.asks(dialect, &body).await);
        let hold = newest(&gate);
        gate.killed().await;
        assert_eq!(says(&gate, "approve", &hold), "awaited");
        gate.killed().await;
        answers(&gate, dialect, true);
        let reply = gate.asks(dialect, &body).await;
        is_answer(&reply, dialect, true, &hold.1);
    }
    assert_eq!(gate.provider.asked().len(), ALL.len());
    gate.checked().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_approval_of_a_request_is_void_once_the_policy_is_another() {
    let mut gate = gate(1).await;
    let chat = CHAT;
    let body = chat.request("hi", false);
    is_held(&gate.asks(chat, &body).await);
    let hold = newest(&gate);
    gate.estate.bundle("1.0.2", &format!("{RULES}{ONE_PERSON}# another\n"), "policy");
    gate.killed().await;
    assert_eq!(says(&gate, "approve", &hold), "awaited");
    let reply = gate.asks(chat, &body).await;
    assert_eq!((reply.status, code(&reply).as_str()), (403, "policy.denied"), "{reply:?}");
    assert!(reply.body.contains("approval.void.layers"), "{reply:?}");
    assert!(gate.provider.asked().is_empty());
    gate.checked().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_with_an_id_of_its_own_is_asked_for_by_that_id() {
    let gate = gate(0).await;
    let chat = CHAT;
    let body = chat.request("hi", false).to_string();
    let ask = async |key: &str, body: &str| {
        gate.ask("POST", chat.path, &[("Idempotency-Key", key)], body).await
    };
    is_held(&ask("mine", &body).await);
    let hold = newest(&gate);
    assert_eq!(hold.1, "mine");
    let other = ask("mine", &chat.request("ho", false).to_string()).await;
    assert_eq!((other.status, code(&other).as_str()), (409, "call.conflict"), "{other:?}");
    // Under another id it is another request.
    is_held(&ask("other", &body).await);
    assert_eq!(says(&gate, "approve", &hold), "awaited");
    answers(&gate, chat, false);
    is_answer(&ask("mine", &body).await, chat, false, "mine");
    let again = ask("mine", &body).await;
    assert_eq!((again.status, again.header("wicketgate-call")), (200, Some("mine")), "{again:?}");
    assert_eq!(gate.provider.asked().len(), 1);
    gate.checked().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_retry_under_another_id_does_not_wait_for_the_held_call_that_it_repeats() {
    let gate = gate_with(60, |config| {
        let tools = config["tools"].as_array_mut().unwrap();
        let model = tools.iter_mut().find(|tool| tool["name"] == "llm.main").unwrap();
        model["dedupe_ms"] = json!(60_000);
    })
    .await;
    let chat = CHAT;
    let body = chat.request("hi", false).to_string();
    let mut first = gate.begin("POST", chat.path, &[("Idempotency-Key", "one")], &body).await;
    let hold = held(&gate);
    is_held(&gate.ask("POST", chat.path, &[("Idempotency-Key", "two")], &body).await);
    answers(&gate, chat, false);
    says(&gate, "approve", &hold);
    is_answer(&first.reply().await.expect("an answer"), chat, false, "one");
    assert_eq!(gate.entries("call.held").len(), 1);
    gate.checked().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_joins_an_approved_one_and_leaves_does_not_stop_it() {
    let gate = gate(60).await;
    let chat = CHAT;
    let text = chat.streamed("hello", &[]);
    let (before, behind) = text.split_once("hello").unwrap();
    let (of_event, rest) = behind.split_once("\n\n").unwrap();
    let first = Part::Bytes(format!("{before}hello{of_event}\n\n"));
    gate.provider.answers(Answer::stream(vec![first, Part::Wait, Part::Bytes(rest.to_owned())]));
    let lines = [("Idempotency-Key", "once")];
    let body = chat.request("hi", true).to_string();
    let mut waits = gate.begin("POST", chat.path, &lines, &body).await;
    let hold = held(&gate);
    says(&gate, "approve", &hold);
    assert_eq!(waits.head().await.unwrap().status, 200);
    let mut seen = String::new();
    while !seen.contains("hello") {
        seen.push_str(&String::from_utf8(waits.chunk().await.unwrap()).unwrap());
    }
    // It waits for the whole answer, and gets a sign of life when that takes long.
    let mut joins = gate.begin("POST", chat.path, &lines, &body).await;
    assert_eq!(joins.head().await.unwrap().status, 200);
    drop(joins);
    // The gate notices that while it answers others.
    for _ in 0..20 {
        assert_eq!(gate.ask("GET", "/v1/models", &[], "").await.status, 200);
    }
    gate.provider.go();
    while let Some(chunk) = waits.chunk().await {
        seen.push_str(&String::from_utf8(chunk).unwrap());
    }
    assert_eq!(chat.read(&seen), ("hello".to_owned(), Vec::new(), true), "{seen}");
    assert_eq!(gate.entries("call.cancelled"), Vec::<Value>::new());
    gate.checked().await;
}

/// Ada types this about a held call: the exit code, and what she reads.
fn types(
    gate: &Gate,
    order: &[&str],
    (run, call): &(String, String),
    more: &[&str],
) -> (Option<i32>, String) {
    let all = [&["approval"], order, &[run.as_str(), call.as_str()], more].concat();
    gate.people.types("ada", &gate.sidecar.operator_url(), &all)
}

/// Ada approves the call with her key, and names this file as what she read.
fn approves(gate: &Gate, hold: &(String, String), file: Option<&str>) -> (Option<i32>, String) {
    let key = gate.people.path("ada").display().to_string();
    let read = file.map_or(Vec::new(), |file| vec!["--arguments", file]);
    types(gate, &["approve"], hold, &[&["--key", key.as_str(), "--yes"], read.as_slice()].concat())
}

/// Ada approves the call for this file: where it is then.
fn approved(gate: &Gate, hold: &(String, String), file: &str) -> String {
    let key = gate.people.path("ada").display().to_string();
    let how = ["--key", key.as_str(), "--yes", "--json", "--arguments", file];
    let (code, told) = types(gate, &["approve"], hold, &how);
    assert_eq!(code, Some(0), "{told}");
    done(&serde_json::from_str(told.trim()).unwrap_or_else(|error| panic!("{error}: {told}"))).0
}

/// A gate whose model people must approve, and whose policy has time for a long request.
async fn patient_gate(wait: u64) -> Gate {
    gate_with(wait, |config| config["policy"]["deadline_ms"] = json!(1_000)).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_request_is_approved_by_a_person_who_has_all_of_it_as_a_file() {
    let gate = patient_gate(1).await;
    for (number, dialect) in ALL.into_iter().enumerate() {
        // As long as those of coding agents, and nearly as long as any that can wait.
        let long = if number == 0 { 190_000 } else { 40_000 };
        let body = dialect.request(&"long ".repeat(long), false);
        is_held(&gate.asks(dialect, &body).await);
        let hold = newest(&gate);
        let (code, shown) = types(&gate, &["show"], &hold, &[]);
        assert_eq!(code, Some(0), "{shown}");
        assert!(
            shown.contains("NOT ALL ARE SHOWN HERE") && !shown.contains("long long"),
            "{shown}"
        );
        let (code, told) = approves(&gate, &hold, None);
        assert!(code != Some(0) && told.contains("--arguments FILE"), "{told}");
        let file = gate.people.path(&format!("{number}.json")).display().to_string();
        let (code, told) = types(&gate, &["show"], &hold, &["--arguments", &file]);
        assert_eq!(code, Some(0), "{told}");
        let read: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
        assert_eq!(read, dialect.judged(&body), "{}", dialect.name);
        let other = gate.people.path("ada.pub").display().to_string();
        let (code, told) = approves(&gate, &hold, Some(&other));
        assert!(code != Some(0) && told.contains("does not hold the arguments"), "{told}");
        assert_eq!(approved(&gate, &hold, &file), "awaited");
        answers(&gate, dialect, false);
        is_answer(&gate.asks(dialect, &body).await, dialect, false, &hold.1);
    }
    assert_eq!(gate.provider.asked().len(), ALL.len());
    gate.checked().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_long_conversation_an_approver_is_shown_what_is_new_since_the_last_allowed_request() {
    let gate = patient_gate(1).await;
    for dialect in ALL {
        let first = dialect.request(&"old ".repeat(20_000), false);
        is_held(&gate.asks(dialect, &first).await);
        let before = newest(&gate);
        let file = gate.people.path(&format!("{}.json", dialect.name)).display().to_string();
        types(&gate, &["show"], &before, &["--arguments", &file]);
        assert_eq!(approved(&gate, &before, &file), "awaited");
        answers(&gate, dialect, false);
        is_answer(&gate.asks(dialect, &first).await, dialect, false, &before.1);

        let mut next = first.clone();
        let said = [dialect.echoed("hello"), dialect.question("what is new here")];
        next[dialect.list()].as_array_mut().unwrap().extend(said);
        is_held(&gate.asks(dialect, &next).await);
        let (code, shown) = types(&gate, &["show"], &newest(&gate), &[]);
        assert_eq!(code, Some(0), "{shown}");
        assert!(shown.contains("what is new here"), "{} {shown}", dialect.name);
        assert!(!shown.contains("old old"), "{} {shown}", dialect.name);
        assert!(shown.contains(&format!("as in call {}, which was allowed", before.1)), "{shown}");
    }
    gate.checked().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_no_approver_could_read_is_denied_at_once() {
    let gate = patient_gate(60).await;
    for dialect in ALL {
        let reply = gate.asks(dialect, &dialect.request(&"long ".repeat(220_000), false)).await;
        assert_eq!((reply.status, code(&reply).as_str()), (403, "policy.denied"), "{reply:?}");
        assert!(reply.body.contains("approval.unseen"), "{reply:?}");
    }
    assert!(gate.entries("call.held").is_empty());
    gate.checked().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_approval_is_for_the_headers_that_its_approver_saw() {
    let mut gate = gate(1).await;
    let messages = MESSAGES;
    let body = messages.request("hi", false).to_string();
    let beta = [("anthropic-version", "2023-06-01"), ("anthropic-beta", "one-2026-01-01")];
    let asks = async |gate: &Gate, lines: &[(&str, &str)]| {
        gate.ask("POST", messages.path, lines, &body).await
    };
    is_held(&asks(&gate, &beta).await);
    let hold = newest(&gate);
    let (_, shown) = types(&gate, &["show"], &hold, &[]);
    for line in ["anthropic-version: 2023-06-01", "anthropic-beta: one-2026-01-01"] {
        assert!(shown.contains(line), "{line}: {shown}");
    }
    // Another life: the headers are on record.
    gate.killed().await;
    assert_eq!(says(&gate, "approve", &hold), "awaited");
    for other in [&beta[..1], &[beta[0], ("anthropic-beta", "two-2026-01-01")][..]] {
        let reply = asks(&gate, other).await;
        is_held(&reply);
        assert_ne!(reply.header("wicketgate-call"), Some(hold.1.as_str()), "{reply:?}");
    }
    answers(&gate, messages, false);
    is_answer(&asks(&gate, &beta).await, messages, false, &hold.1);
    let asked = gate.provider.asked();
    assert_eq!(asked.len(), 1);
    assert!(format!("{:?}", asked[0]).contains("one-2026-01-01"), "{:?}", asked[0]);
    let long = "x".repeat(5_000);
    let reply = asks(&gate, &[("anthropic-beta", &long)]).await;
    assert_eq!(reply.status, 400, "{reply:?}");
    assert!(reply.body.contains("anthropic-beta"), "{reply:?}");
    gate.checked().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_approver_does_not_change_what_an_agent_asks_a_model() {
    let gate = gate(0).await;
    let chat = CHAT;
    let body = chat.request("hi", false);
    is_held(&gate.asks(chat, &body).await);
    let hold = newest(&gate);
    let file = gate.people.path("new.json");
    std::fs::write(&file, chat.request("something else", false).to_string()).unwrap();
    let (file, key) = (file.display().to_string(), gate.people.path("ada").display().to_string());
    let proposal =
        ["approval", "modify", &hold.0, &hold.1, "--arguments", &file, "--key", &key, "--yes"];
    let (_, told) = gate.people.types("ada", &gate.sidecar.operator_url(), &proposal);
    assert!(told.contains("refuse it, and let the agent ask otherwise"), "{told}");
    // It is held as before.
    assert_eq!(says(&gate, "approve", &hold), "awaited");
    answers(&gate, chat, false);
    is_answer(&gate.asks(chat, &body).await, chat, false, &hold.1);
    gate.checked().await;
}
