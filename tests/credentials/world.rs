//! One gate with a tool of each kind, and what stands behind them, which knows the credential in every encoding.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::agent::{Agent, Refused};
use crate::estate::{Estate, program, python, script, tool};
use crate::private::private;
use wicketgate_support::grpc_service::GrpcService as Service;
use wicketgate_support::sidecar::Sidecar;

/// What the http tool is authenticated with. No tool may be told it and none may tell it.
pub const SECRET: &str = "sk-live/Abc+123=xyz~tools";
/// In the arguments and results of one call: that what is searched can be found.
pub const MARK: &str = "a-text-that-anybody-may-see";

/// Prints the text of this number.
const PRINTS: &str = "import json, sys\nprint(json.load(open('forms.json'))[int(sys.argv[1])])";

/// A server of HTTP and of a model; what was said to it.
#[derive(Default)]
struct Said {
    forms: Vec<String>,
    asked: Mutex<Vec<String>>,
}

/// As JSON; or, if a content type is asked for, the text in Latin-1 as that.
async fn act(State(said): State<Arc<Said>>, body: String) -> Response {
    said.asked.lock().push(body.clone());
    let args: Value = serde_json::from_str(&body).unwrap();
    if args["as"] == "failure" {
        return StatusCode::UNPROCESSABLE_ENTITY.into_response();
    }
    if let Some(kind) = args["as"].as_str() {
        let text = args["text"].as_str().unwrap();
        let bytes: Vec<u8> = text.chars().map(|c| u8::try_from(u32::from(c)).unwrap()).collect();
        let status = if kind == "part" { StatusCode::PARTIAL_CONTENT } else { StatusCode::OK };
        return (status, [("content-type", kind.to_owned())], bytes).into_response();
    }
    let at = args["n"].as_u64().and_then(|n| usize::try_from(n).ok());
    let sent = || args["text"].as_str().or(args["said"].as_str()).unwrap().to_owned();
    let text = at.map_or_else(sent, |n| said.forms[n].clone());
    json!({"text": text}).to_string().into_response()
}

async fn complete(State(said): State<Arc<Said>>, body: String) -> String {
    said.asked.lock().push(body.clone());
    let body: Value = serde_json::from_str(&body).unwrap();
    let asked = body["messages"][0]["content"].as_str().unwrap();
    let text = asked.strip_prefix("number ").and_then(|n| n.parse::<usize>().ok());
    let text = text.map_or_else(|| asked.to_owned(), |n| said.forms[n].clone());
    json!({"id": "x", "object": "chat.completion", "model": "small-2026", "choices": [{"index": 0,
        "finish_reason": "stop", "message": {"role": "assistant", "content": text}}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}})
    .to_string()
}

/// Everything of one test.
pub struct World {
    pub estate: Estate,
    pub gate: Sidecar,
    pub agent: Agent,
    pub forms: Vec<(String, String)>,
    said: Arc<Said>,
    service: Service,
}

/// What reached anything: requests, orders, files that were made.
#[derive(PartialEq, Eq, Debug)]
pub struct Reached {
    pub http: usize,
    pub grpc: usize,
    pub files: Vec<String>,
}

impl World {
    /// Behind these tools stand these texts, by their number.
    pub async fn knowing(forms: Vec<(String, String)>) -> Self {
        Self::under(forms, "").await
    }

    /// The same, with these rules beside those that allow the calls.
    pub async fn under(forms: Vec<(String, String)>, rules: &str) -> Self {
        Self::configured(forms, rules, json!({})).await
    }

    /// The same, with this section `firewall`.
    pub async fn configured(forms: Vec<(String, String)>, rules: &str, firewall: Value) -> Self {
        Self::patched(forms, rules, |_, config| config["firewall"] = firewall).await
    }

    /// The same, with these files beside the configuration, which only the gate may read.
    pub async fn furnished(
        forms: Vec<(String, String)>,
        rules: &str,
        firewall: Value,
        files: &[(&str, &str)],
    ) -> Self {
        let patch = |estate: &Estate, config: &mut Value| {
            config["firewall"] = firewall;
            files.iter().for_each(|(name, text)| private(estate.path(name), text));
        };
        Self::patched(forms, rules, patch).await
    }

    /// The same, with this change of the configuration.
    pub async fn patched(
        forms: Vec<(String, String)>,
        rules: &str,
        patch: impl FnOnce(&Estate, &mut Value),
    ) -> Self {
        let texts: Vec<String> = forms.iter().map(|(_, text)| text.clone()).collect();
        let said = Arc::new(Said { forms: texts.clone(), asked: Mutex::default() });
        let routes = Router::new()
            .route("/act", post(act))
            .route("/v1/chat/completions", post(complete))
            .with_state(Arc::clone(&said));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
        let service = Service::start();
        std::fs::write(service.path("forms.json"), json!(texts).to_string()).unwrap();
        let tools = tools(port, service.port);
        let estate = Estate::with(&tools, |dir| {
            private(dir.join("secret"), SECRET);
            std::fs::copy(service.descriptors(), dir.join("shop.pb")).unwrap();
            std::fs::create_dir(dir.join("work")).unwrap();
            std::fs::write(dir.join("data/forms.json"), json!(texts).to_string()).unwrap();
            let database = rusqlite::Connection::open(dir.join("books.db")).unwrap();
            database.execute_batch("CREATE TABLE forms(n INTEGER, text TEXT)").unwrap();
            for (n, text) in texts.iter().enumerate() {
                let row = rusqlite::params![i64::try_from(n).unwrap(), text];
                database.execute("INSERT INTO forms VALUES (?, ?)", row).unwrap();
                std::fs::write(dir.join(format!("work/{n}")), text).unwrap();
            }
            std::fs::write(dir.join("server.py"), include_str!("../command/server.py")).unwrap();
            vec![json!({"name": "server", "tier": "T1", "timeout_ms": 60_000, "stdio": {
                "command": python(), "args": ["-I", "-S", "-B", dir.join("server.py"), "credentials"],
                "cwd": dir, "sandbox": {"level": "none"}}})]
        });
        let file = estate.path("bundle/agent/main.rego");
        let all = std::fs::read_to_string(&file).unwrap() + rules;
        std::fs::write(&file, all).unwrap();
        let sign = ["policy", "sign", "bundle", "--key", "policy", "--name", "command"];
        estate.run(&[&sign[..], &["--version", "1.0.0"]].concat());
        for key in ["evidence", "fleet"] {
            estate.run(&["keygen", "--out", key]);
        }
        let config = std::fs::read_to_string(estate.path("wicketgate.yaml")).unwrap();
        let mut config: Value = serde_json::from_str(&config).unwrap();
        config["fleet"] = json!({"key": "fleet"});
        // They are denied more often than an agent would be.
        config["limits"] =
            json!({"denials_max": null, "tool_denials_max": null, "alarm_rest_seconds": null});
        // What is read here is sent, and that is not the question.
        config["taint"] = json!({"trifecta": "off", "label_only": "off"});
        // Nothing here is about time, and the machine does other work beside.
        config["policy"]["deadline_ms"] = json!(5_000);
        patch(&estate, &mut config);
        std::fs::write(estate.path("wicketgate.yaml"), config.to_string()).unwrap();
        let gate = estate.serve();
        let agent = gate.open().await;
        Self { estate, gate, agent, forms, said, service }
    }

    pub async fn call(&self, tool: &str, args: &Value) -> Result<String, Refused> {
        self.agent.call(tool, "", &args.to_string()).await
    }

    /// What the HTTP server and the model were told, newest last.
    pub fn told(&self) -> Vec<String> {
        self.said.asked.lock().clone()
    }

    /// What reached anything until now.
    pub fn reached(&self) -> Reached {
        let mut files = Vec::new();
        for dir in ["work", "ws"] {
            for one in std::fs::read_dir(self.estate.path(dir)).unwrap() {
                files.push(format!("{dir}/{}", one.unwrap().file_name().to_string_lossy()));
            }
        }
        files.sort();
        Reached { http: self.said.asked.lock().len(), grpc: self.service.seen().len(), files }
    }
}

fn text(more: &Value) -> Value {
    let mut members = json!({"text": {"type": "string"}, "n": {"type": "integer"}});
    for (name, schema) in more.as_object().into_iter().flatten() {
        members[name] = schema.clone();
    }
    json!({"type": "object", "properties": members})
}

/// A tool of each kind but `mcp`, whose server has its own, and `fetch`.
fn tools(http: u16, grpc: u16) -> Vec<Value> {
    let private = json!(["127.0.0.0/8"]);
    let base = |name: &str, kind: &str, tier: &str| {
        json!({"name": name, "description": "is told and tells", "kind": kind, "tier": tier,
            "timeout_ms": 60_000})
    };
    let mut orders = base("http", "http", "T1");
    orders["input_schema"] = text(&json!({"as": {"type": "string"}}));
    orders["credentials"] =
        json!([{"header": "authorization", "prefix": "Bearer ", "file": "secret"}]);
    orders["http"] = json!({"method": "POST", "url": format!("http://127.0.0.1:{http}/act"),
        "body": "args", "private_addresses": private});
    let mut filled = base("filled", "http", "T1");
    filled["input_schema"] =
        text(&json!({"a": {"type": "string"}, "m": {"type": "string"}, "z": {"type": "string"}}));
    filled["http"] = json!({"method": "POST", "url": format!("http://127.0.0.1:{http}/act"),
        "body": {"key": "pk_of_the_operator", "said": "{a}{z}", "more": ["{m}"]}, "private_addresses": private});
    let mut model = base("model", "model", "T1");
    model["model"] = json!({"output_tokens_max": 200, "upstreams": [{"name": "main", "api": "openai",
        "url": format!("http://127.0.0.1:{http}/v1"), "models": {"small": "small-2026"},
        "private_addresses": private}]});
    let mut asks = base("grpc", "grpc", "T1");
    asks["grpc"] = json!({"url": format!("http://127.0.0.1:{grpc}"), "descriptor_set": "shop.pb",
        "service": "shop.v1.Orders", "method": "Act", "private_addresses": private});
    let mut database = base("sql", "sql", "T0");
    database["read_only"] = json!(true);
    database["sql"] = json!({"engine": "sqlite", "path": "books.db", "statement_timeout_ms": 30_000,
        "rows_max": 50, "tables": ["forms"]});
    let [mut reads, mut writes] = [("read", "T0"), ("write", "T1")].map(|(what, tier)| {
        let mut file = base(&format!("file.{what}"), &format!("file.{what}"), tier);
        file["file"] = json!({"root": "work", "name": "work"});
        file
    });
    reads["read_only"] = json!(true);
    writes["read_only"] = json!(false);
    let argv = json!({"sandbox": "S1", "program": program("echo"), "argv": ["--", {"arg": "a"}]});
    let stdin = json!({"sandbox": "S1", "program": program("cat"), "argv": [], "stdin": "in"});
    let mut prints =
        script("prints", PRINTS, json!({"sandbox": "S1", "read": ["data"]}), json!({}));
    prints["command"]["argv"].as_array_mut().unwrap().push(json!({"arg": "a"}));
    vec![
        orders,
        filled,
        model,
        asks,
        database,
        reads,
        writes,
        tool("argv", argv, json!({})),
        tool("stdin", stdin, json!({})),
        prints,
    ]
}
