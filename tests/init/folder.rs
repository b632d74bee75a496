//! A directory, the program in it, and a client on the other end of its standard streams.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

use serde_json::{Value, json};

use crate::waiting::PATIENCE;
use wicketgate_support::program;
use wicketgate_support::ran::Ran;

pub struct Folder {
    dir: tempfile::TempDir,
}

impl Folder {
    /// Whoever runs in a sandbox may look in: of a gate that is root that is another user.
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let everybody = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(dir.path(), everybody).unwrap();
        Self { dir }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join(name)
    }

    pub fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(program::gate());
        command
            .args(args)
            .current_dir(self.dir.path())
            .env_clear()
            .env("HOME", self.path("home"))
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .stdin(Stdio::null());
        command
    }

    pub fn run(&self, args: &[&str]) -> Ran {
        self.run_with(args, &[])
    }

    pub fn run_with(&self, args: &[&str], env: &[(&str, &str)]) -> Ran {
        Ran::of(self.command(args).envs(env.iter().copied()))
    }

    pub fn talk(&self, args: &[&str]) -> Talk {
        Talk::start(self.command(args))
    }

    /// Starts what an entry of a client's file says.
    pub fn talk_as(&self, entry: &Value) -> Talk {
        assert_eq!(entry["command"], program::gate());
        let args = entry["args"].as_array().unwrap().iter().map(|arg| arg.as_str().unwrap());
        self.talk(&args.collect::<Vec<_>>())
    }

    pub fn read(&self, name: &str) -> String {
        let path = self.path(name);
        std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
    }

    pub fn json(&self, name: &str) -> Value {
        serde_json::from_str(&self.read(name)).unwrap()
    }

    /// Every file below a directory, by its path in it.
    pub fn files(&self, name: &str) -> Vec<PathBuf> {
        let (mut open, mut found) = (vec![self.path(name)], Vec::new());
        while let Some(dir) = open.pop() {
            for entry in std::fs::read_dir(dir).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() { open.push(path) } else { found.push(path) }
            }
        }
        found
    }

    /// The names in a directory.
    pub fn names(&self, name: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.path(name)).unwrap();
        let mut names: Vec<_> =
            entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// A copy of the server of these tests, with these words changed.
    pub fn server(&self, changes: &[(&str, &str)]) -> String {
        let mut text = include_str!("server.py").to_owned();
        for (old, new) in changes {
            assert!(text.contains(old), "the server does not say `{old}`");
            text = text.replace(old, new);
        }
        self.write("server.py", &text);
        self.path("server.py").display().to_string()
    }
}

/// A client that started the program as its server.
pub struct Talk {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    errors: Receiver<String>,
}

impl Talk {
    pub fn start(mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let input = child.stdin.take();
        let lines = reader(child.stdout.take().unwrap());
        let errors = reader(child.stderr.take().unwrap());
        Self { child, input, lines, errors }
    }

    pub fn say_raw(&mut self, line: &str) {
        let input = self.input.as_mut().unwrap();
        input.write_all(format!("{line}\n").as_bytes()).unwrap();
        input.flush().unwrap();
    }

    pub fn say(&mut self, message: &Value) {
        self.say_raw(&message.to_string());
    }

    pub fn request(&mut self, id: i64, method: &str, params: &Value) {
        self.say(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
    }

    pub fn notify(&mut self, method: &str, params: &Value) {
        self.say(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    pub fn line(&self) -> String {
        match self.lines.recv_timeout(PATIENCE) {
            Ok(line) => line,
            Err(error) => panic!("no line: {error}; stderr: {}", self.errors()),
        }
    }

    pub fn hear(&self) -> Value {
        let line = self.line();
        serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line}"))
    }

    /// The response to this request; whatever else comes before it is passed over.
    pub fn answer(&self, id: i64) -> Value {
        loop {
            let message = self.hear();
            if message["id"] == id && message.get("method").is_none() {
                return message;
            }
        }
    }

    pub fn handshake(&mut self) -> Value {
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"}});
        self.request(0, "initialize", &params);
        let answer = self.answer(0);
        self.notify("notifications/initialized", &json!({}));
        answer
    }

    pub fn call(&mut self, id: i64, tool: &str, arguments: &Value) -> Value {
        self.request(id, "tools/call", &json!({"name": tool, "arguments": arguments}));
        self.answer(id)
    }

    pub fn hang_up(&mut self) {
        self.input = None;
    }

    pub fn process(&self) -> u32 {
        self.child.id()
    }

    /// Ends the input and waits for the end; what it said on both streams meanwhile.
    pub fn end(mut self) -> Ran {
        self.input = None;
        let out = drain(&self.lines);
        let err = drain(&self.errors);
        let code = self.child.wait().unwrap().code().unwrap_or(-1);
        Ran { out, err, code }
    }

    fn errors(&self) -> String {
        self.errors.try_iter().collect::<Vec<_>>().join("\n")
    }
}

impl Drop for Talk {
    fn drop(&mut self) {
        // One that hears its input end goes by itself; this is for tests that fail.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Everything until the stream ends.
fn drain(lines: &Receiver<String>) -> String {
    let mut all = Vec::new();
    while let Ok(line) = lines.recv_timeout(PATIENCE) {
        all.push(line);
    }
    all.join("\n")
}

fn reader(stream: impl std::io::Read + Send + 'static) -> Receiver<String> {
    let (out, lines) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stream).lines() {
            let Ok(line) = line else { return };
            if out.send(line).is_err() {
                return;
            }
        }
    });
    lines
}
