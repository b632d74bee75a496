//! The loop that the gate runs itself: the model asks for tools, the gate runs them, and the agent gets
//! one answer.

use serde_json::{Value, json};

use crate::binding::called;
use crate::gate::{Gate, INSTRUCTIONS};
use crate::provider::Answer;
use crate::said::{ALL, CHAT, chat_call, chunks, completion};
use crate::wire::Reply;

const PATH: &str = "/managed/v1/chat/completions";

/// The tools that the loops of these tests offer.
const TOOLS: [&str; 4] = ["work.do", "work.fail", "work.held", "work.large"];

/// Lets the gate run the loop of the agent.
fn manages(config: &mut Value) {
    config["agents"][0]["model"] = json!({"managed": {"tools": TOOLS}});
}

async fn start() -> Gate {
    Gate::start_with(manages, |_| {}).await
}

/// A request of an agent that leaves its loop to the gate.
fn request(stream: bool) -> Value {
    json!({"model": "small", "stream": stream, "messages": [
        {"role": "system", "content": INSTRUCTIONS}, {"role": "user", "content": "go"}]})
}

/// An answer that asks for these tools.
fn asks_for(calls: &[(&str, &str, &str)]) -> Answer {
    let calls = calls.iter().map(|(id, name, arguments)| {
        json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}})
    });
    let message =
        json!({"role": "assistant", "content": null, "tool_calls": calls.collect::<Value>()});
    Answer::json(200, &completion(message, "tool_calls"))
}

fn says(text: &str) -> Answer {
    Answer::json(200, &completion(json!({"role": "assistant", "content": text}), "stop"))
}

async fn ask(gate: &Gate, key: &str, body: &Value) -> Reply {
    gate.ask("POST", PATH, &[("Idempotency-Key", key)], &body.to_string()).await
}

fn read(reply: &Reply) -> Value {
    assert_eq!(reply.status, 200, "{reply:?}");
    serde_json::from_str(&reply.body).unwrap()
}

/// The messages of the last request to the provider that carry results.
fn results(gate: &Gate) -> Vec<String> {
    let asked = gate.provider.last().json();
    let messages = asked["messages"].as_array().unwrap().iter();
    let results = messages.filter(|message| message["role"] == "tool");
    results.map(|message| message["content"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_gate_runs_what_the_model_asks_for_and_answers_with_the_trace() {
    let gate = start().await;
    gate.provider.answers(asks_for(&[("c1", "work__do", r#"{"n":  1}"#)]));
    gate.provider.answers(says("done"));
    let reply = ask(&gate, "req", &request(false)).await;
    let answer = read(&reply);
    assert_eq!(answer["object"], "chat.completion");
    assert_eq!(answer["choices"][0]["message"]["content"], "done");
    assert_eq!(answer["choices"][0]["finish_reason"], "stop");
    assert_eq!(
        answer["usage"],
        json!({"prompt_tokens": 24, "completion_tokens": 6, "total_tokens": 30})
    );
    assert_eq!(reply.header("wicketgate-call"), Some("req"));
    let trace = &answer["trace"];
    assert_eq!(trace["request_id"], "req");
    assert_eq!(trace["run_id"], reply.header("wicketgate-run").unwrap());
    assert_eq!((&trace["iterations"], &trace["stopped"]), (&json!(2), &json!("end")));
    assert_eq!((&trace["policy_mode"], &trace["model"]), (&json!("enforce"), &json!("small-2026")));
    let used = &trace["tools_used"][0];
    assert_eq!(used["name"], "work.do");
    assert_eq!(used["call_id"], "req-m1-t1");
    assert_eq!((&used["verdict"], &used["code"]), (&json!("allow"), &json!("")));
    assert_eq!(trace["receipts"].as_array().unwrap().len(), 3);

    let first = gate.provider.asked()[0].json();
    let offered: Vec<&str> = first["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["function"]["name"].as_str().unwrap())
        .collect();
    assert_eq!(offered, ["work__do", "work__fail", "work__held", "work__large"]);
    let result: Value = serde_json::from_str(&results(&gate)[0]).unwrap();
    assert_eq!(result["body"], json!({"done": true}));
    assert_eq!(gate.tool.count(), 1);

    // Each step is an entry of its own, with the request that it is a step of.
    let steps = gate.entries("call.authorized");
    let of = |entry: &Value| {
        (entry["call"].as_str().unwrap().to_owned(), entry["data"]["parent"].clone())
    };
    let steps: Vec<_> = steps.iter().map(of).collect();
    let parent = json!("req");
    let expected = ["req-m1", "req-m1-t1", "req-m2"].map(|id| (id.to_owned(), parent.clone()));
    assert_eq!(steps, expected);
    // The gate saw the model ask for exactly this.
    let call = &gate.entries("call.authorized")[1]["data"];
    assert_eq!((&call["binding"], &call["proposed_by"]), (&json!("observed"), &json!("req-m1")));
    gate.checked().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_receipts_of_the_trace_are_those_of_the_ledger() {
    let gate = start().await;
    gate.provider.answers(asks_for(&[("c1", "work__do", "{}")]));
    gate.provider.answers(says("done"));
    let answer = read(&ask(&gate, "req", &request(false)).await);
    let receipts = answer["trace"]["receipts"].as_array().unwrap();
    let ended = gate.entries("call.completed");
    assert_eq!(ended.len(), 3);
    for (entry, receipt) in ended.iter().zip(receipts) {
        assert_eq!(entry["seq"], receipt["seq"], "{entry} {receipt}");
        gate.estate.receipts.note(receipt);
    }
    gate.checked().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_run_goes_back_to_the_model_and_the_loop_goes_on() {
    let gate = start().await;
    let calls = [
        ("c1", "work__do", r#"{"command": "rm -rf /"}"#),
        ("c2", "work__fail", "{}"),
        ("c3", "shell", "{}"),
        ("c4", "work__do", r#"{"n": "#),
        ("c5", "work.do", "{}"),
        ("c6", "policy__error", "{}"),
    ];
    gate.provider.answers(asks_for(&calls));
    gate.provider.answers(says("I see"));
    let answer = read(&ask(&gate, "req", &request(false)).await);
    assert_eq!(answer["choices"][0]["message"]["content"], "I see");
    let results = results(&gate);
    for (result, text) in results.iter().zip([
        "no removal",
        "code tool.failed",
        "code tool.not_granted",
        "code arguments.invalid",
        "code tool.not_granted",
        "code tool.not_granted",
    ]) {
        assert!(result.contains(text), "{text}: {result}");
    }
    assert_eq!(results.len(), 6);
    let used = answer["trace"]["tools_used"].as_array().unwrap();
    let verdicts: Vec<_> = used.iter().map(|one| one["verdict"].as_str().unwrap()).collect();
    assert_eq!(verdicts, ["deny", "allow", "deny", "deny", "deny", "deny"]);
    let codes: Vec<_> = used.iter().map(|one| one["code"].as_str().unwrap()).collect();
    assert_eq!(
        codes,
        [
            "policy.denied",
            "tool.failed",
            "tool.not_granted",
            "arguments.invalid",
            "tool.not_granted",
            "tool.not_granted"
        ]
    );
    // What was not offered, or was denied, did not run.
    assert_eq!(gate.tool.count(), 1);
    assert_eq!(gate.entries("call.denied").len(), 5);
    gate.checked().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_is_sent_again_runs_nothing_twice() {
    let gate = start().await;
    gate.provider.answers(asks_for(&[
        ("c1", "work__do", "{}"),
        ("c2", "work__do", r#"{"command": "rm "}"#),
    ]));
    gate.provider.answers(asks_for(&[("c3", "work__do", r#"{"n": 2}"#)]));
    gate.provider.answers(says("done"));
    let first = ask(&gate, "req", &request(false)).await;
    let entries = gate.entries("call.completed").len();
    let again = ask(&gate, "req", &request(false)).await;
    assert_eq!(read(&first), read(&again));
    assert_eq!(gate.tool.count(), 2);
    assert_eq!(gate.provider.asked().len(), 3);
    assert_eq!(gate.entries("call.completed").len(), entries);
    // Other bytes under the same key are another request.
    let mut other = request(false);
    other["temperature"] = json!(0.5);
    let other = ask(&gate, "req", &other).await;
    assert_eq!(other.status, 409, "{other:?}");
    gate.checked().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gate_that_is_killed_inside_a_tool_goes_on_when_the_request_comes_again() {
    let mut gate = start().await;
    gate.provider.answers(asks_for(&[("c1", "work__do", "{}")]));
    gate.tool.hold();
    let wire =
        gate.begin("POST", PATH, &[("Idempotency-Key", "req")], &request(false).to_string()).await;
    gate.tool.entered(1).await;
    gate.killed().await;
    drop(wire);
    gate.tool.release();
    gate.provider.answers(says("it may have run"));
    let answer = read(&ask(&gate, "req", &request(false)).await);
    assert_eq!(answer["choices"][0]["message"]["content"], "it may have run");
    assert_eq!(answer["trace"]["tools_used"][0]["code"], "call.unknown");
    assert!(results(&gate)[0].contains("call.unknown"), "{:?}", results(&gate));
    assert_eq!(gate.tool.count(), 1);
    assert_eq!(gate.provider.asked().len(), 2);
    gate.checked().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_loop_ends_when_the_model_was_asked_often_enough() {
    let gate = Gate::start_with(
        |config| {
            config["agents"][0]["model"] =
                json!({"managed": {"iterations_max": 2, "tools": TOOLS}});
        },
        |_| {},
    )
    .await;
    for n in 1..=2 {
        let call = json!({"id": "c", "type": "function", "function": {"name": "work__do", "arguments": json!({"n": n}).to_string()}});
        let message =
            json!({"role": "assistant", "content": format!("look {n}"), "tool_calls": [call]});
        gate.provider.answers(Answer::json(200, &completion(message, "tool_calls")));
    }
    let answer = read(&ask(&gate, "req", &request(false)).await);
    assert_eq!(answer["choices"][0]["finish_reason"], "length");
    assert_eq!(answer["choices"][0]["message"], json!({"role": "assistant", "content": "look 2"}));
    assert_eq!(
        (&answer["trace"]["iterations"], &answer["trace"]["stopped"]),
        (&json!(2), &json!("iterations"))
    );
    // The tools of the last answer are not run: the model would not read what they give.
    assert_eq!(gate.tool.count(), 1);
    gate.checked().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tool_calls_of_one_answer_run_side_by_side() {
    let gate = start().await;
    gate.provider.answers(asks_for(&[
        ("c1", "work__do", r#"{"n": 1}"#),
        ("c2", "work__do", r#"{"n": 2}"#),
        ("c3", "work__do", r#"{"n": 3}"#),
    ]));
    gate.provider.answers(says("done"));
    gate.tool.hold();
    let body = request(false);
    let both = tokio::join!(ask(&gate, "req", &body), async {
        gate.tool.entered(3).await;
        gate.tool.release();
    });
    let answer = read(&both.0);
    let used = answer["trace"]["tools_used"].as_array().unwrap();
    let ids: Vec<_> = used.iter().map(|one| one["call_id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["req-m1-t1", "req-m1-t2", "req-m1-t3"]);
    let asked = gate.provider.last().json();
    let messages = asked["messages"].as_array().unwrap().iter();
    let of: Vec<_> = messages.filter_map(|message| message["tool_call_id"].as_str()).collect();
    assert_eq!(of, ["c1", "c2", "c3"]);
    gate.checked().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_held_tool_call_waits_and_its_approval_counts_when_the_model_asks_again() {
    let gate = start().await;
    let wait = r#"{"command": "wait"}"#;
    gate.provider.answers(asks_for(&[("c1", "work__do", wait)]));
    gate.provider.answers(says("it waits"));
    let answer = read(&ask(&gate, "first", &request(false)).await);
    let used = &answer["trace"]["tools_used"][0];
    assert_eq!(
        (&used["verdict"], &used["code"]),
        (&json!("require_approval"), &json!("call.held"))
    );
    assert!(results(&gate)[0].contains("call.held"), "{:?}", results(&gate));
    assert_eq!(gate.tool.count(), 0);
    let run = answer["trace"]["run_id"].as_str().unwrap().to_owned();
    let call = (run.as_str(), "first-m1-t1");
    let (code, told) = gate.people.says("ada", "approve", &gate.sidecar.operator_url(), call);
    assert_eq!(code, Some(0), "{told}");
    gate.provider.answers(asks_for(&[("c1", "work__do", wait)]));
    gate.provider.answers(says("it ran"));
    let answer = read(&ask(&gate, "second", &request(false)).await);
    assert_eq!(answer["trace"]["tools_used"][0]["call_id"], "first-m1-t1");
    assert_eq!(answer["trace"]["tools_used"][0]["code"], "");
    assert_eq!(gate.tool.count(), 1);
    gate.checked().await;
}

/// A gate whose `work.do` is of tier T3: it runs for an observed model and two people.
async fn start_grave() -> Gate {
    let grave = |tools: &mut Value| {
        let tools = tools.as_array_mut().unwrap();
        tools.iter_mut().find(|tool| tool["name"] == "work.do").unwrap()["tier"] = json!("T3");
    };
    Gate::start_with(
        |config| {
            manages(config);
            grave(&mut config["tools"]);
        },
        |spec| {
            spec["binding"] = json!({"minimum": "unclaimed", "tier3": "observed"});
            grave(&mut spec["tools"]);
        },
    )
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grave_tool_runs_in_the_loop_once_two_people_approved_what_the_model_asked_for() {
    let gate = start_grave().await;
    // Nobody's model asked for this.
    let alone = called(&gate, json!({"n": 7})).await;
    assert!(alone.to_string().contains("tier3_binding"), "{alone}");

    let looped = async |key: &str, arguments: &[&str]| {
        let calls: Vec<_> =
            arguments.iter().map(|arguments| ("c1", "work__do", *arguments)).collect();
        gate.provider.answers(asks_for(&calls));
        gate.provider.answers(says("I see"));
        let answer = read(&ask(&gate, key, &request(false)).await);
        let used = answer["trace"]["tools_used"].as_array().unwrap().clone();
        let of = |one: &Value| {
            [&one["call_id"], &one["code"]].map(|text| text.as_str().unwrap().to_owned())
        };
        (
            answer["trace"]["run_id"].as_str().unwrap().to_owned(),
            used.iter().map(of).collect::<Vec<_>>(),
        )
    };
    let approves = |who: &str, run: &str| {
        let call = (run, "first-m1-t1");
        let (code, told) = gate.people.says(who, "approve", &gate.sidecar.operator_url(), call);
        assert_eq!(code, Some(0), "{told}");
    };
    let is = |call: &str, code: &str| [call.to_owned(), code.to_owned()];
    let seven = r#"{"n": 7}"#;
    let (run, used) = looped("first", &[seven]).await;
    assert_eq!(used, [is("first-m1-t1", "call.held")]);
    let held = &gate.entries("call.held")[0]["data"];
    assert_eq!(
        (&held["binding"], &held["proposed_by"], &held["parent"]),
        (&json!("observed"), &json!("first-m1"), &json!("first"))
    );
    // One person is not enough, and no other call is approved with it.
    approves("ada", &run);
    let (_, used) = looped("second", &[seven, r#"{"n": 8}"#]).await;
    assert_eq!(used, [is("first-m1-t1", "call.held"), is("second-m1-t2", "call.held")]);
    assert_eq!(gate.tool.count(), 0);

    approves("grace", &run);
    let (_, used) = looped("third", &[seven]).await;
    assert_eq!(used, [is("first-m1-t1", "")]);
    assert!(results(&gate)[0].contains("\"done\":true"), "{:?}", results(&gate));
    assert_eq!(gate.tool.count(), 1);
    // The approval is used up.
    let (_, used) = looped("fourth", &[seven]).await;
    assert_eq!(used, [is("fourth-m1-t1", "call.held")]);
    assert_eq!(gate.tool.count(), 1);
    gate.checked().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_has_the_text_as_it_comes_and_the_trace_before_its_end() {
    let gate = start().await;
    gate.provider
        .answers(Answer::events(&chunks(&chat_call(0, "c1", "work__do", "{}"), "tool_calls")));
    gate.provider.answers(Answer::events(&chunks(
        &[json!({"content": "do"}), json!({"content": "ne"})],
        "stop",
    )));
    let mut body = request(true);
    body["stream_options"] = json!({"include_usage": true});
    let reply = ask(&gate, "req", &body).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    let data = reply.body.lines().filter_map(|line| line.strip_prefix("data: "));
    let data: Vec<&str> = data.collect();
    assert_eq!(data.last(), Some(&"[DONE]"), "{reply:?}");
    let events: Vec<Value> =
        data.iter().filter_map(|data| serde_json::from_str(data).ok()).collect();
    let texts: Vec<&str> = events
        .iter()
        .filter_map(|event| event["choices"][0]["delta"]["content"].as_str())
        .collect();
    assert_eq!(texts, ["do", "ne"], "{reply:?}");
    let n = events.len();
    assert_eq!(events[n - 3]["trace"]["tools_used"][0]["call_id"], "req-m1-t1", "{reply:?}");
    assert_eq!(events[n - 2]["choices"][0]["finish_reason"], "stop");
    assert_eq!(events[n - 1]["usage"]["total_tokens"], 30);
    assert!(reply.body.contains(": wicketgate-tool req-m1-t1\n"), "{reply:?}");
    assert!(!reply.body.contains("tool_calls"), "{reply:?}");
    // Sent again, it is answered from the record.
    let again = ask(&gate, "req", &body).await;
    assert!(again.body.contains("\"content\":\"done\""), "{again:?}");
    assert_eq!((gate.tool.count(), gate.provider.asked().len()), (1, 2));
    gate.checked().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_that_fails_in_the_middle_has_no_end() {
    let gate = start().await;
    gate.provider
        .answers(Answer::events(&chunks(&chat_call(0, "c1", "work__do", "{}"), "tool_calls")));
    gate.provider.answers(Answer::json(400, &json!({"error": {"message": "no"}})));
    let reply = ask(&gate, "req", &request(true)).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    assert!(reply.body.contains("\"error\":{") && !reply.body.contains("[DONE]"), "{reply:?}");
    let denied = gate
        .ask(
            "POST",
            PATH,
            &[],
            &json!({"model": "small", "stream": true, "messages": [
        {"role": "system", "content": "other"}]})
            .to_string(),
        )
        .await;
    assert_eq!(denied.status, 403, "{denied:?}");
    gate.checked().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_header_switches_the_loop_on_and_requests_with_tools_of_their_own_are_refused() {
    let gate = start().await;
    gate.provider.answers(asks_for(&[("c1", "work__do", "{}")]));
    gate.provider.answers(says("done"));
    let header = ("X-Wicketgate-Managed", "true");
    let plain = "/v1/chat/completions";
    let body = request(false).to_string();
    let answer = read(&gate.ask("POST", plain, &[header], &body).await);
    assert_eq!(answer["trace"]["iterations"], 2);
    let mut own = request(false);
    own["tools"] = json!([]);
    let own = own.to_string();
    for (path, lines, body, status, detail) in [
        (PATH, vec![], own.as_str(), 400, "managed.tools"),
        (plain, vec![header], own.as_str(), 400, "managed.tools"),
        (plain, vec![("X-Wicketgate-Managed", "yes")], body.as_str(), 400, "managed.header"),
        ("/managed/v1/messages", vec![], body.as_str(), 404, ""),
        (
            PATH,
            vec![("Idempotency-Key", "k1234567890123456789012345678901234567890123456789012")],
            body.as_str(),
            400,
            "call.id",
        ),
    ] {
        let reply = gate.ask("POST", path, &lines, body).await;
        assert_eq!(reply.status, status, "{path} {reply:?}");
        assert!(reply.body.contains(detail), "{path} {reply:?}");
    }
    for dialect in ALL.into_iter().filter(|dialect| *dialect != CHAT) {
        let (path, body) = dialect.placed(&dialect.request("go", false));
        let reply = gate.ask("POST", &path, &[header], &body).await;
        assert_eq!(reply.status, 400, "{path} {reply:?}");
        assert!(reply.body.contains("managed.header"), "{path} {reply:?}");
        assert!(reply.body.contains("of `chat/completions` only"), "{path} {reply:?}");
    }
    let models = gate.ask("GET", "/managed/v1/models", &[], "").await;
    assert!(models.body.contains("\"small\""), "{models:?}");
    assert_eq!(gate.provider.asked().len(), 2);
    gate.checked().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_without_the_section_finds_no_loop() {
    let gate = Gate::start().await;
    let reply = ask(&gate, "req", &request(false)).await;
    assert_eq!(reply.status, 404, "{reply:?}");
    assert!(reply.body.contains("agents[].model.managed"), "{reply:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_trace_of_a_request_can_be_asked_for_later() {
    let gate = start().await;
    let opened = gate.ask("POST", "/gate/v1/runs", &[], "{}").await;
    let opened: Value = serde_json::from_str(&opened.body).unwrap();
    let bearer = format!("Bearer {}", opened["run_token"].as_str().unwrap());
    let token = ("Authorization", bearer.as_str());
    gate.provider.answers(asks_for(&[
        ("c1", "work__do", "{}"),
        ("c2", "work__do", r#"{"command": "rm "}"#),
    ]));
    gate.provider.answers(says("done"));
    let lines = [token, ("Idempotency-Key", "req")];
    let answer = read(&gate.ask("POST", PATH, &lines, &request(false).to_string()).await);
    let later = read(&gate.ask("GET", "/gate/v1/calls/req", &[token], "").await);
    assert_eq!(later["trace"], answer["trace"]);
    assert_eq!(later["status"], "end");
    let none = gate.ask("GET", "/gate/v1/calls/other", &[token], "").await;
    assert_eq!(none.status, 404, "{none:?}");
    gate.checked().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_whose_payloads_are_not_stored_has_the_same_loop() {
    let gate = Gate::start_with(manages, |spec| spec["incognito"] = json!("required")).await;
    for stream in [false, true] {
        let asks = chunks(&chat_call(0, "c1", "work__do", "{}"), "tool_calls");
        let done = chunks(&[json!({"content": "done"})], "stop");
        if stream {
            gate.provider.answers(Answer::events(&asks));
            gate.provider.answers(Answer::events(&done));
        } else {
            gate.provider.answers(asks_for(&[("c1", "work__do", "{}")]));
            gate.provider.answers(says("done"));
        }
        let reply = gate.ask("POST", PATH, &[], &request(stream).to_string()).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        assert!(reply.body.contains("\"content\":\"done\""), "{reply:?}");
        assert!(reply.body.contains("\"stopped\":\"end\""), "{reply:?}");
        assert!(reply.body.contains("-m1-t1\""), "{reply:?}");
    }
    assert_eq!(gate.tool.count(), 2);
    gate.checked().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_leaves_ends_the_call_of_the_model_and_no_tool_that_changes_something() {
    let gate = start().await;
    let mut waits = says("never read");
    waits.parts.insert(0, crate::provider::Part::Wait);
    gate.provider.answers(waits);
    let body = request(false).to_string();
    let wire = gate.begin("POST", PATH, &[("Idempotency-Key", "one")], &body).await;
    crate::within("the provider to be asked", async {
        while gate.provider.asked().is_empty() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    drop(wire);
    gate.provider.left().await;
    gate.provider.answers(asks_for(&[("c1", "work__do", "{}")]));
    gate.tool.hold();
    let wire = gate.begin("POST", PATH, &[("Idempotency-Key", "two")], &body).await;
    gate.tool.entered(1).await;
    drop(wire);
    gate.tool.release();
    gate.tool.inside(0).await;
    let kinds = |kind: &str| gate.entries(kind).len();
    crate::within("the end of the call", async {
        while kinds("call.completed") < 2 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(gate.tools_of("call.cancelled"), ["llm.main"]);
    gate.checked().await;
}

/// Has the tools offered as instructions: the model has no tool calls.
pub fn as_text(config: &mut Value) {
    for tool in config["tools"].as_array_mut().unwrap() {
        if tool["name"] == "llm.main" {
            tool["model"]["upstreams"][0]["native_tools"] = json!(false);
        }
    }
}

/// A gate whose model has no tool calls.
async fn start_as_text() -> Gate {
    let config = |config: &mut Value| {
        manages(config);
        as_text(config);
    };
    Gate::start_with(config, |_| {}).await
}

/// A gate whose model has no tool calls, at a server that holds it to a schema.
async fn start_by_schema() -> Gate {
    let config = |config: &mut Value| {
        manages(config);
        as_text(config);
        config["agents"][0]["model"]["managed"]["text_tools"] = json!("schema");
    };
    Gate::start_with(config, |_| {}).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_model_without_tool_calls_gets_the_tools_as_instructions_and_asks_with_one_block() {
    let gate = start_as_text().await;
    let block = |n: u64| {
        format!("```tool_call\n{{\"tool\": \"work__do\", \"arguments\": {{\"n\": {n}}}}}\n```\n")
    };
    gate.provider.answers(says(&format!("I look.\n{}{}", block(1), block(2))));
    gate.provider.answers(says("```tool_call\nnot JSON\n```"));
    let answer = read(&ask(&gate, "req", &request(false)).await);
    // The first block alone was a call; a block that is none is text.
    assert_eq!(answer["choices"][0]["message"]["content"], "```tool_call\nnot JSON\n```");
    assert_eq!(
        (&answer["trace"]["iterations"], &answer["trace"]["stopped"]),
        (&json!(2), &json!("end"))
    );
    assert_eq!(answer["trace"]["tools_used"].as_array().unwrap().len(), 1);
    assert_eq!(gate.tool.count(), 1);
    let first = gate.provider.asked()[0].json();
    assert!(first.get("tools").is_none(), "{first}");
    let text = first["messages"][0]["content"].as_str().unwrap();
    assert!(text.contains("- work__do: does work") && !text.contains("policy__error"), "{text}");
    let last = gate.provider.last().json();
    let result = last["messages"].as_array().unwrap().last().unwrap()["content"].as_str().unwrap();
    assert!(result.starts_with("```tool_result\n") && result.contains("\"done\":true"), "{result}");
    // The instructions are the gate's own: the entry has their digest, and the manifest is not asked for them.
    let entries = gate.entries("call.authorized");
    let digest = hex::encode(<sha2::Sha256 as sha2::Digest>::digest(text));
    assert_eq!(entries[0]["data"]["tools_text"], format!("sha256:{digest}"));
    assert_eq!(entries[0]["data"]["binding"], "observed");
    // What stands in a text was not seen as a tool call.
    assert_eq!(entries[1]["data"]["binding"], "claimed");
    assert_eq!(entries[1]["data"]["parent"], "req");
    gate.checked().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_of_a_model_without_tool_calls_shows_no_block() {
    let gate = start_as_text().await;
    gate.provider.answers(says("```tool_call\n{\"tool\": \"work__do\", \"arguments\": {}}\n```"));
    gate.provider.answers(says("done"));
    let reply = ask(&gate, "req", &request(true)).await;
    assert!(
        reply.body.contains("\"content\":\"done\"") && reply.body.ends_with("data: [DONE]\n\n"),
        "{reply:?}"
    );
    assert!(!reply.body.contains("tool_call"), "{reply:?}");
    gate.checked().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_model_that_is_held_to_a_schema_calls_an_offered_tool_or_answers_with_text() {
    let gate = start_by_schema().await;
    let call = |tool: &str| json!({"tool_call": {"tool": tool, "arguments": {"n": 1}}});
    gate.provider.answers(says(&call("work__do").to_string()));
    gate.provider.answers(says(r#"{"answer": "{\"n\": 1} it is"}"#));
    let first = ask(&gate, "req", &request(false)).await;
    let answer = read(&first);
    assert_eq!(answer["choices"][0]["message"]["content"], "{\"n\": 1} it is");
    assert_eq!(answer["choices"][0]["finish_reason"], "stop");
    assert_eq!(
        (&answer["trace"]["iterations"], &answer["trace"]["stopped"]),
        (&json!(2), &json!("end"))
    );
    assert_eq!(gate.tool.count(), 1);
    let asked: Vec<Value> = gate.provider.asked().iter().map(|asked| asked.json()).collect();
    for one in &asked {
        assert!(one.get("tools").is_none(), "{one}");
        let form = &one["response_format"];
        assert_eq!(form["type"], "json_schema", "{form}");
        let schema = jsonschema::validator_for(&form["json_schema"]["schema"]).unwrap();
        for fits in [call("work__do"), call("work__fail"), json!({"answer": "x"})] {
            assert!(schema.is_valid(&fits), "{fits}");
        }
        let both = json!({"answer": "x", "tool_call": call("work__do")["tool_call"]});
        let list = json!({"tool_call": {"tool": "work__do", "arguments": []}});
        for other in [call("policy__error"), both, list, json!({"answer": 1}), json!("x")] {
            assert!(!schema.is_valid(&other), "{other}");
        }
    }
    // The model reads its own words again, and the result.
    let messages = asked[1]["messages"].as_array().unwrap();
    assert_eq!(messages[messages.len() - 2]["content"], call("work__do").to_string());
    // What was recorded is given again, with the same text.
    let again = ask(&gate, "req", &request(false)).await;
    assert_eq!((again.status, read(&again)["choices"].clone()), (200, answer["choices"].clone()));
    assert_eq!(gate.provider.asked().len(), 2);
    // A stream shows the text, and no object.
    gate.provider.answers(says(r#"{"answer": "done"}"#));
    let streamed = ask(&gate, "stream", &request(true)).await;
    assert!(streamed.body.contains("\"content\":\"done\""), "{streamed:?}");
    assert!(!streamed.body.contains("answer"), "{streamed:?}");
    // What an answer is that a server lets through without the schema: text.
    gate.provider.answers(says("no object"));
    let plain = read(&ask(&gate, "plain", &request(false)).await);
    assert_eq!(plain["choices"][0]["message"]["content"], "no object");
    let mut own = request(false);
    own["response_format"] = json!({"type": "json_object"});
    let refused = ask(&gate, "own", &own).await;
    assert!(
        refused.status == 400 && refused.body.contains("managed.response_format"),
        "{refused:?}"
    );
    gate.checked().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_that_collide_are_an_error_of_the_configuration() {
    let gate = start().await;
    let wrong = |managed: Value, sign: &dyn Fn(&mut Value), text: &str| {
        gate.estate.configure(|config| config["agents"][0]["model"] = json!({"managed": managed}));
        gate.estate.manifest("1.0.2", "manifest", |text| {
            let mut manifest: Value = serde_json::from_str(&text).unwrap();
            sign(&mut manifest["spec"]["tools"]);
            manifest.to_string()
        });
        let checked = gate.estate.try_run(&["config", "check", "--config", "wicketgate.yaml"]);
        assert_ne!(checked.code, 0, "{checked:?}");
        assert!(format!("{checked:?}").contains(text), "{text}: {checked:?}");
    };
    let grant = |tools: &mut Value| {
        tools.as_array_mut().unwrap().push(json!({"name": "work__do", "tier": "T1"}));
    };
    wrong(json!({}), &grant, "tools `work.do` and `work__do` would both be offered as `work__do`");
    wrong(json!({"tools": ["no.such"]}), &|_| {}, "tool `no.such` is not granted by the manifest");
    wrong(json!({"iterations_max": 0}), &|_| {}, "iterations_max");
    wrong(json!({"tolls": []}), &|_| {}, "tolls");
}
