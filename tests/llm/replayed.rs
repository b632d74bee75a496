//! Runs that asked models, recorded and replayed with no provider: byte for byte, decided again.

use serde_json::{Value, json};

use crate::checker::check_ledger;
use crate::gate::{Gate, KEY};
use crate::program::{self, python};
use crate::provider::{Answer, Part};
use crate::ran::Ran;
use crate::said::{ALL, CHAT, Dialect, MESSAGES, chunks};
use crate::sidecar::key;
use crate::wire::Reply;

const REMOVAL: &str = r#"{"command": "rm -rf /"}"#;
const LISTING: &str = r#"{"command":  "ls"}"#;
const WORK: &str = r#"{"n": 1}"#;

/// Makes the requests of a file, one after the other; prints what each was answered.
const AGENT: &str = "
import http.client, json, os, sys, urllib.parse
url = urllib.parse.urlsplit(os.environ['WICKETGATE_URL'])
for path, body in json.load(open(sys.argv[1])):
    connection = http.client.HTTPConnection(url.hostname, url.port, timeout=60)
    headers = {'Authorization': 'Bearer ' + os.environ['WICKETGATE_TOKEN'], 'Content-Type': 'application/json'}
    connection.request('POST', path, body.encode(), headers)
    answer = connection.getresponse()
    print(json.dumps([answer.status, answer.getheader('content-type'), answer.read().decode()]))
";

/// The answer without comments: they name places in the ledger, and time.
fn frames(body: &str) -> String {
    let frames = body.split("\n\n").filter(|frame| !frame.starts_with(':'));
    frames.collect::<Vec<_>>().join("\n\n")
}

/// What one request was answered: its status, its media type, and its bytes.
pub type Answered = (u16, String, String);

fn answered(reply: &Reply) -> Answered {
    let kind = reply.header("content-type").unwrap_or_default().to_owned();
    (reply.status, kind, frames(&reply.body))
}

/// A gate that records, and the requests so far.
pub struct Recorder {
    pub gate: Gate,
    pub asked: Vec<(String, String)>,
    answers: Vec<Answered>,
    run: String,
}

impl Recorder {
    pub async fn start_with(configure: impl FnOnce(&mut Value)) -> Self {
        let record = |spec: &mut Value| spec["replay"] = json!({"mode": "record"});
        let gate = Gate::start_with(configure, record).await;
        Self { gate, asked: Vec::new(), answers: Vec::new(), run: String::new() }
    }

    async fn start() -> Self {
        Self::start_with(|_| {}).await
    }

    /// Asks, and is answered this by the provider; what came.
    async fn asks(&mut self, path: &str, body: &Value, answer: Answer) -> Reply {
        self.asks_so(path, body.to_string(), answer).await
    }

    async fn asks_so(&mut self, path: &str, body: String, answer: Answer) -> Reply {
        self.gate.provider.answers(answer);
        self.sent(path, body).await
    }

    /// Asks, and is answered by a model that no test tells what to say.
    pub async fn asks_model(&mut self, path: &str, body: &Value) -> Reply {
        self.sent(path, body.to_string()).await
    }

    async fn sent(&mut self, path: &str, body: String) -> Reply {
        let reply = self.gate.ask("POST", path, &[], &body).await;
        self.asked.push((path.to_owned(), body));
        self.answers.push(answered(&reply));
        if let Some(run) = reply.header("wicketgate-run") {
            run.clone_into(&mut self.run);
        }
        reply
    }

    /// The same in a dialect.
    async fn talks(&mut self, dialect: &Dialect, body: &Value, answer: Answer) -> Reply {
        let (path, body) = dialect.placed(body);
        let reply = self.asks_so(&path, body, answer).await;
        assert_eq!(reply.status, 200, "{} {reply:?}", dialect.name);
        reply
    }

    /// Ends the gate, which seals the run, and tries to export it.
    async fn exported(&mut self) -> Ran {
        self.gate.sidecar.stop().await;
        let export = ["run", "replay", "export", &self.run, "--config", "wicketgate.yaml"];
        self.gate.estate.try_run(&[&export[..], &["--out", "run.recording"]].concat())
    }

    /// Exports the run; the recording.
    pub async fn recorded(&mut self) -> String {
        self.exported().await.ok();
        std::fs::read_to_string(self.gate.estate.path("run.recording")).unwrap()
    }

    /// Replays the recording to an agent that makes these requests.
    pub fn replays(&self, options: &[&str], asked: &[(String, String)]) -> Ran {
        self.gate.estate.write("asked.json", json!(asked).to_string());
        self.gate.estate.write("agent.py", AGENT);
        let begin = ["run", "replay", "run.recording"];
        let mut command =
            program::command(self.gate.estate.path("."), [&begin[..], options, &["--"]].concat());
        command.arg(python()).args(["-I", "agent.py", "asked.json"]);
        Ran::of(&mut command)
    }

    /// Replays the same requests: no drift, and the same bytes.
    fn plays_the_same(&self) {
        let before = self.gate.provider.asked().len();
        let again = self.replays(&[], &self.asked).ok();
        for (asked, (was, is)) in
            self.asked.iter().zip(self.answers.iter().zip(printed(&again.out)))
        {
            assert_eq!(*was, is, "{asked:?}\n{again:?}");
        }
        assert_eq!(printed(&again.out).len(), self.answers.len(), "{again:?}");
        assert!(again.err.contains("no drift"), "{again:?}");
        assert_eq!(self.gate.provider.asked().len(), before, "a provider was asked");
    }
}

/// What the agent printed.
pub fn printed(out: &str) -> Vec<Answered> {
    let lines = out.lines().map(|line| serde_json::from_str(line).unwrap());
    lines.map(|(status, kind, body): (u16, String, String)| (status, kind, frames(&body))).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_models_said_is_played_byte_for_byte_with_no_provider() {
    let mut recorder = Recorder::start().await;
    for dialect in ALL {
        let whole = Answer::json(200, &dialect.whole("hello", &[]));
        recorder.talks(dialect, &dialect.request("whole", false), whole).await;
        let stream = Answer::of_dialect(dialect, &dialect.streamed("hello \u{e9}", &[]));
        let reply = recorder.talks(dialect, &dialect.request("stream", true), stream).await;
        assert_eq!(reply.header("content-type"), Some(dialect.media_type()));
    }
    let messages = MESSAGES;
    let mut count = messages.request("count", false);
    count.as_object_mut().unwrap().remove("max_tokens");
    count.as_object_mut().unwrap().remove("stream");
    let counted = Answer::json(200, &json!({"input_tokens": 7}));
    let reply = recorder.asks("/v1/messages/count_tokens", &count, counted).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    let recording = recorder.recorded().await;
    assert!(!recording.contains(KEY), "a credential is in the recording");
    // The stored events are those that left, and the ledger says so to code that is not ours.
    let kept = recorder.gate.payloads("stream");
    assert_eq!(kept.len(), 5, "{kept:?}");
    for (kept, (_, kind, body)) in
        kept.iter().zip(recorder.answers.iter().filter(|(_, kind, _)| kind != "application/json"))
    {
        assert_eq!(frames(kept), *body, "{kind}");
    }
    recorder.plays_the_same();
    let Gate { estate, .. } = &recorder.gate;
    check_ledger(&estate.database, &estate.receipts);
}

/// A follow-up of an answer whose call was denied, as a client makes it that has no such tool.
fn follow_up(dialect: &Dialect, asked: &Value, body: &str) -> Value {
    let (_, calls, _) = dialect.read(body);
    let denied = calls.iter().find(|(name, _)| name == "wicketgate_denied").expect("a denial");
    dialect.followed(asked, ("c2", "wicketgate_denied", &denied.1.to_string()), "no such tool")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tool_calls_of_recorded_answers_are_judged_again_and_denials_play_as_they_were() {
    let mut recorder = Recorder::start().await;
    let calls = [("c1", "Bash", LISTING), ("c2", "Bash", REMOVAL), ("c3", "work_do", WORK)];
    for dialect in ALL {
        for stream in [true, false] {
            let text = if stream { "in pieces" } else { "in one piece" };
            let asked = dialect.offering(text, stream, &["Bash", "Read", "work_do"]);
            let answer = match stream {
                true => Answer::of_dialect(dialect, &dialect.streamed("look", &calls)),
                false => Answer::json(200, &dialect.whole("look", &calls)),
            };
            let reply = recorder.talks(dialect, &asked, answer).await;
            assert!(reply.body.contains("wicketgate_denied"), "{reply:?}");
            assert!(!reply.body.contains("rm -rf"), "{reply:?}");
            if stream {
                // The denial is made whole again on its way up, and so it is when it is matched.
                let next = follow_up(dialect, &asked, &reply.body);
                let answer = Answer::of_dialect(dialect, &dialect.streamed("I see", &[]));
                recorder.talks(dialect, &next, answer).await;
                assert!(recorder.gate.provider.last().body.contains("rm -rf"));
            }
        }
    }
    let denied = recorder.gate.entries("call.denied").len();
    assert_eq!(denied, 10, "one for each answer with tool calls");
    recorder.recorded().await;
    recorder.plays_the_same();
    // Each tool call is a step of its own, which another policy may decide otherwise.
    let rules = format!(
        "{}\ndeny contains {{\"code\": \"ls\", \"message\": \"no listing\"}} if input.args.command == \"ls\"\n",
        crate::gate::RULES
    );
    recorder.gate.estate.write("stricter/agent/main.rego", rules);
    let sign = ["policy", "sign", "stricter", "--key", &key("policy"), "--name", "test"];
    recorder.gate.estate.run(&[&sign[..], &["--version", "1.0.2"]].concat());
    let stricter = recorder.replays(&["--bundle", "stricter"], &recorder.asked).ends(1);
    assert!(stricter.err.contains("`client.Bash`) was `allow` and is `deny`"), "{stricter:?}");
    let first = printed(&stricter.out).remove(0);
    assert!(!first.2.contains("\"ls\"") && !first.2.contains("look"), "{first:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn denials_that_left_as_text_play_as_they_were() {
    let mut recorder = Recorder::start_with(|config| {
        for tool in config["tools"].as_array_mut().unwrap() {
            if tool["name"] == "llm.main" {
                tool["model"]["denied_as"] = json!("text");
            }
        }
    })
    .await;
    for dialect in ALL {
        let calls = [("c1", "Bash", REMOVAL), ("c2", "Bash", LISTING)];
        let asked = dialect.offering("go", true, &["Bash"]);
        let answer = Answer::of_dialect(dialect, &dialect.streamed("look", &calls));
        let reply = recorder.talks(dialect, &asked, answer).await;
        assert!(reply.body.contains("no removal"), "{reply:?}");
    }
    recorder.recorded().await;
    recorder.plays_the_same();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_request_is_a_drift_and_gets_no_answer() {
    let mut recorder = Recorder::start().await;
    let chat = CHAT;
    let (whole, stream) = (chat.request("whole", false), chat.request("stream", true));
    recorder.talks(chat, &whole, Answer::json(200, &chat.whole("hello", &[]))).await;
    recorder.talks(chat, &stream, Answer::events(&chat.streamed("hello", &[]))).await;
    recorder.recorded().await;
    let of = |asked: &[&Value]| -> Vec<_> {
        asked.iter().map(|body| (chat.path.to_owned(), body.to_string())).collect()
    };
    let with = |body: &Value, name: &str, value: Value| {
        let mut body = body.clone();
        body[name] = value;
        body
    };
    for (asked, what) in [
        (
            of(&[&with(&whole, "stream", json!(true))]),
            "asks for a stream, and the recorded answer came in one piece",
        ),
        (
            of(&[&whole, &with(&stream, "stream", json!(false))]),
            "asks for an answer in one piece, and the recorded one is a stream",
        ),
        (
            of(&[&with(&whole, "temperature", json!(1))]),
            "step 1 (`llm.main`) has other arguments at `/temperature`",
        ),
    ] {
        let drifted = recorder.replays(&[], &asked).ends(1);
        assert!(drifted.err.contains(what), "{drifted:?}");
        let last = printed(&drifted.out).pop().unwrap();
        assert!(last.0 >= 400 && !last.2.contains("hello"), "{last:?}");
        // Where the replay goes on, an answer of another form is none either.
        let report = recorder.replays(&["--report"], &asked).ends(1);
        let last = printed(&report.out).pop().unwrap();
        assert!(what.contains("/temperature") || !last.2.contains("hello"), "{last:?}");
    }
    // Who asks, and what may be reused, changes no answer.
    let session = json!({"session": "other"});
    let other = with(&with(&whole, "metadata", session), "user", json!("other"));
    recorder.replays(&[], &of(&[&other, &stream])).ok();
    // Some of the run is left: it goes on only from before its first request to a model.
    let fork = ["run", "replay", "run.recording", "--fork-at", "2", "--config", "wicketgate.yaml"];
    let fork = [&fork[..], &["--", "true"]].concat();
    let forked = recorder.gate.estate.try_run(&fork).ends(2);
    assert!(forked.err.contains("step 1 asked a model in a dialect"), "{forked:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_broke_off_breaks_off_again() {
    let mut recorder = Recorder::start().await;
    for dialect in ALL {
        let text = dialect.streamed("hello", &[]);
        let (first, _) = text.split_at(dialect.end_of(&text, "hello"));
        let cut = Answer::streams(dialect, vec![Part::Bytes(first.to_owned()), Part::Cut]);
        let reply = recorder.talks(dialect, &dialect.request("cut", true), cut).await;
        assert!(reply.body.contains("hello") && !dialect.read(&reply.body).2, "{reply:?}");
    }
    let busy = Answer::json(429, &json!({"error": {"type": "busy", "message": "later"}}));
    let reply = recorder.asks(MESSAGES.path, &MESSAGES.request("busy", true), busy).await;
    assert_eq!(reply.status, 429, "{reply:?}");
    recorder.recorded().await;
    let again = recorder.replays(&[], &recorder.asked).ok();
    assert!(again.err.contains("no drift: 6 of 6 steps"), "{again:?}");
    let answers = printed(&again.out);
    for (dialect, (status, kind, body)) in ALL.into_iter().zip(&answers) {
        assert_eq!((*status, kind.as_str()), (200, dialect.media_type()), "{body}");
        assert_eq!(dialect.read(body), ("hello".to_owned(), Vec::new(), false), "{body}");
    }
    assert_eq!(answers[5].0, 429, "{answers:?}");
}

/// A recorder of answers of up to so many bytes.
async fn recorder_of(bytes: u64) -> Recorder {
    Recorder::start_with(|config| {
        for tool in config["tools"].as_array_mut().unwrap() {
            if tool["name"] == "llm.main" {
                tool["result_bytes_max"] = json!(bytes);
            }
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_longer_than_a_payload_is_stored_in_several_and_plays_as_it_was() {
    let mut recorder = recorder_of(8 << 20).await;
    let chat = CHAT;
    // Ten thousand pieces of a short text: more than a payload as events, and little as a result.
    let long = Answer::events(&chunks(&vec![json!({"content": "x"}); 10_000], "stop"));
    recorder.talks(chat, &chat.request("hi", true), long).await;
    let mut parts: Vec<usize> = recorder.gate.payloads("stream").iter().map(String::len).collect();
    parts.sort_unstable();
    assert_eq!((parts.len(), parts[1]), (2, 1 << 20), "{parts:?}");
    recorder.recorded().await;
    recorder.plays_the_same();
    let Gate { estate, .. } = &recorder.gate;
    check_ledger(&estate.database, &estate.receipts);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_is_not_recorded_keeps_no_stream() {
    let gate = Gate::start().await;
    let chat = CHAT;
    gate.provider.answers(Answer::events(&chat.streamed("hello", &[])));
    let reply = gate.asks(chat, &chat.request("hi", true)).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    assert!(gate.payloads("stream").is_empty());
    gate.checked().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_loop_that_the_gate_ran_plays_the_same() {
    let loops = |config: &mut Value| {
        config["agents"][0]["model"] =
            json!({"managed": {"iterations_max": 3, "tools": ["work.do", "work.fail"]}});
    };
    let mut recorder = Recorder::start_with(loops).await;
    let body = CHAT.request("go", false);
    let calls = json!([
        {"id": "c1", "type": "function", "function": {"name": "work__do", "arguments": WORK}},
        {"id": "c2", "type": "function", "function": {"name": "work__do", "arguments": REMOVAL}},
    ]);
    let message = json!({"role": "assistant", "content": null, "tool_calls": calls});
    recorder
        .gate
        .provider
        .answers(Answer::json(200, &crate::said::completion(message, "tool_calls")));
    let done = json!({"role": "assistant", "content": "done"});
    let done = Answer::json(200, &crate::said::completion(done, "stop"));
    let reply = recorder.asks("/managed/v1/chat/completions", &body, done).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    recorder.recorded().await;
    let before = (recorder.gate.provider.asked().len(), recorder.gate.tool.count());
    let again = recorder.replays(&[], &recorder.asked).ok();
    assert!(again.err.contains("no drift"), "{again:?}");
    let (status, _, text) = &printed(&again.out)[0];
    let played: Value = serde_json::from_str(text).unwrap();
    assert_eq!((*status, &played["choices"][0]["message"]["content"]), (200, &json!("done")));
    let tools = |answer: &Value| {
        let used = answer["trace"]["tools_used"].as_array().unwrap().clone();
        used.into_iter()
            .map(|one| (one["verdict"].clone(), one["code"].clone()))
            .collect::<Vec<_>>()
    };
    let recorded: Value = serde_json::from_str(&reply.body).unwrap();
    assert_eq!(tools(&played), tools(&recorded));
    assert_eq!((recorder.gate.provider.asked().len(), recorder.gate.tool.count()), before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_loop_whose_tools_were_instructions_plays_the_same() {
    let block = format!("```tool_call\n{CALL}\n```");
    let whole = format!("{{\"tool_call\":{CALL}}}");
    let answer = r#"{"answer":"done"}"#;
    for (how, tools, call, end) in [
        ("auto", Value::Null, &block, "done"),
        ("auto", json!(["work.do", "work.large"]), &block, "done"),
        ("schema", Value::Null, &whole, answer),
        ("schema", json!(["work.do"]), &whole, answer),
    ] {
        let loops = |config: &mut Value| {
            let mut managed = json!({"text_tools": how});
            if !tools.is_null() {
                managed["tools"] = tools.clone();
            }
            config["agents"][0]["model"] = json!({"managed": managed});
            crate::managed::as_text(config);
            for tool in config["tools"].as_array_mut().unwrap() {
                if tool["name"] == "work.do" {
                    tool["description"] = json!("does work\n- work__fail: is no tool of its own");
                }
            }
        };
        let mut recorder = Recorder::start_with(loops).await;
        let says = |text: &str| {
            let message = json!({"role": "assistant", "content": text});
            Answer::json(200, &crate::said::completion(message, "stop"))
        };
        recorder.gate.provider.answers(says(call));
        let body = CHAT.request("go", false);
        let reply = recorder.asks("/managed/v1/chat/completions", &body, says(end)).await;
        assert_eq!(reply.status, 200, "{how}: {reply:?}");
        recorder.recorded().await;
        let before = (recorder.gate.provider.asked().len(), recorder.gate.tool.count());
        let again = recorder.replays(&[], &recorder.asked).ok();
        assert!(again.err.contains("no drift"), "{how}: {again:?}");
        let (status, _, text) = &printed(&again.out)[0];
        let played: Value = serde_json::from_str(text).unwrap();
        let said = &played["choices"][0]["message"]["content"];
        assert_eq!((*status, said), (200, &json!("done")), "{how}");
        assert_eq!(played["trace"]["tools_used"][0]["name"], "work.do", "{how}");
        assert_eq!((recorder.gate.provider.asked().len(), recorder.gate.tool.count()), before);
    }
}

const CALL: &str = r#"{"tool": "work__do", "arguments": {"n": 1}}"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_loop_without_tools_plays_the_same() {
    for managed in [json!({"text_tools": "never"}), json!({"tools": []})] {
        let loops = |config: &mut Value| {
            config["agents"][0]["model"] = json!({"managed": managed});
            crate::managed::as_text(config);
        };
        let mut recorder = Recorder::start_with(loops).await;
        let done = json!({"role": "assistant", "content": "done"});
        let done = Answer::json(200, &crate::said::completion(done, "stop"));
        let body = CHAT.request("go", false);
        let reply = recorder.asks("/managed/v1/chat/completions", &body, done).await;
        assert_eq!(reply.status, 200, "{managed}: {reply:?}");
        recorder.recorded().await;
        let again = recorder.replays(&[], &recorder.asked).ok();
        assert!(again.err.contains("no drift"), "{managed}: {again:?}");
    }
}
