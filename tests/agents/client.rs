//! The clients nobody here wrote: each is given one task and prints the facts of it.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::home::{home, node, python, scripts};
use crate::process;

/// One client: a script of `tests/interop/mcp/clients`.
#[derive(Clone, Copy, Debug)]
pub struct Client {
    /// The script, without its ending.
    pub script: &'static str,
    /// The Python SDK it needs; none for Node.
    sdk: Option<u8>,
    /// It lets its user look at a result's `_meta`.
    pub shows_meta: bool,
    /// It can be told which era of the protocol to speak.
    pub eras: &'static [&'static str],
}

const fn client(
    script: &'static str,
    sdk: Option<u8>,
    shows_meta: bool,
    eras: &'static [&'static str],
) -> Client {
    Client { script, sdk, shows_meta, eras }
}

/// Every client.
pub const CLIENTS: [Client; 8] = [
    client("sdk_python_2", Some(2), true, &["legacy", "auto"]),
    client("sdk_python_1", Some(1), true, &["legacy"]),
    client("sdk_typescript_2", None, true, &["legacy", "auto"]),
    client("sdk_typescript_1", None, true, &["legacy"]),
    client("inspector", None, true, &["legacy"]),
    client("agent_openai", Some(2), false, &["auto"]),
    client("agent_pydantic", Some(2), false, &["auto"]),
    client("agent_langchain", Some(1), false, &["legacy"]),
];

/// How a client reaches its server.
#[derive(Clone, Debug)]
pub enum Way<'a> {
    /// Streamable HTTP, with a bearer token.
    Http(&'a str, &'a str),
    /// A command that speaks MCP on its standard streams.
    Stdio(Vec<String>),
}

/// The facts one client printed.
#[derive(Clone, Debug)]
pub struct Facts(pub Value);

impl Client {
    /// Lets it connect, list the tools and make these calls.
    #[track_caller]
    pub fn play(&self, way: &Way<'_>, era: &str, calls: &[(&str, Value)]) -> Facts {
        let call =
            |(name, arguments): &(&str, Value)| json!({"name": name, "arguments": arguments});
        let calls: Vec<Value> = calls.iter().map(call).collect();
        let mut task = json!({"era": era, "calls": calls});
        match way {
            Way::Http(url, token) => {
                task["url"] = json!(url);
                task["token"] = json!(token);
            }
            Way::Stdio(words) => task["command"] = json!(words),
        }
        let clients = scripts().join("clients");
        let (program, ending) = self.sdk.map_or_else(|| (node(), "mjs"), |sdk| (python(sdk), "py"));
        let mut command = Command::new(program);
        command.arg(clients.join(format!("{}.{ending}", self.script))).arg(task.to_string());
        surroundings(&mut command, &clients);
        let (_, out, err) = process::run(command);
        let facts = out.lines().last().and_then(|line| serde_json::from_str(line).ok());
        Facts(facts.unwrap_or_else(|| panic!("{}: {out}{err}", self.script)))
    }
}

/// What a client's process gets of the environment: no tokens or proxies of whoever runs the tests.
fn surroundings(command: &mut Command, clients: &Path) {
    let temporary = std::env::temp_dir();
    command
        .env_clear()
        .env("WICKETGATE_TEST_MCP", home())
        .env("PATH", format!("{}:/usr/bin:/bin", home().join("python-1/bin").display()))
        .env("HOME", &temporary)
        .env("TMPDIR", &temporary)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("PYTHONPATH", clients)
        .envs(std::env::var_os("WICKETGATE_TEST_RUN").map(|run| ("WICKETGATE_TEST_RUN", run)));
}

impl Facts {
    /// Names of the tools it saw, in the order it saw them.
    pub fn tools(&self) -> Vec<String> {
        let tools = self.0["tools"].as_array().unwrap();
        tools.iter().map(|name| name.as_str().unwrap().to_owned()).collect()
    }

    /// What came of the call with this number.
    pub fn call(&self, at: usize) -> &Value {
        &self.0["calls"][at]
    }

    /// The text a model would have read of that call, also if the library raised it.
    pub fn text(&self, at: usize) -> &str {
        let call = self.call(at);
        call["text"].as_str().or_else(|| call["raised"].as_str()).unwrap()
    }
}
