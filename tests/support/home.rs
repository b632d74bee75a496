//! Where the packages of others are.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::program::top;

/// The folder that `tests/run` installs into.
#[track_caller]
pub fn home() -> PathBuf {
    let usual = || top().join("target/tests/mcp");
    let found = std::env::var_os("WICKETGATE_TEST_MCP").map_or_else(usual, PathBuf::from);
    assert!(found.join("npm/stamp").exists(), "`tests/run` installs what is not in {found:?}");
    found
}

/// The folder that `tests/run` installs model SDKs and coding agents into.
#[track_caller]
pub fn llm() -> PathBuf {
    let usual = || top().join("target/tests/llm");
    let found = std::env::var_os("WICKETGATE_TEST_LLM").map_or_else(usual, PathBuf::from);
    assert!(found.join("npm/stamp").exists(), "`tests/run` installs what is not in {found:?}");
    found
}

/// The folder of our own scripts and fixtures.
pub fn scripts() -> PathBuf {
    top().join("tests/interop/mcp")
}

/// Node, of the version that is pinned.
pub fn node() -> PathBuf {
    home().join("python-1/bin/node")
}

/// Python with one of the two SDKs: 1 or 2.
pub fn python(sdk: u8) -> PathBuf {
    home().join(format!("python-{sdk}/bin/python"))
}

/// A program of an npm package.
pub fn npm(program: &str) -> PathBuf {
    home().join("npm/node_modules/.bin").join(program)
}

/// A server's command as `.mcp.json` has it.
fn command(program: &Path, args: &[&str]) -> Value {
    json!({"command": program, "args": args})
}

/// A server from npm, started by the pinned Node.
fn of_npm(program: &str, args: &[&str]) -> Value {
    let program = npm(program).display().to_string();
    let args: Vec<&str> = std::iter::once(program.as_str()).chain(args.iter().copied()).collect();
    command(&node(), &args)
}

/// `@modelcontextprotocol/server-filesystem` over one folder.
pub fn filesystem(folder: &Path) -> Value {
    of_npm("mcp-server-filesystem", &[&folder.display().to_string()])
}

/// `@modelcontextprotocol/server-everything`.
pub fn everything() -> Value {
    of_npm("mcp-server-everything", &["stdio"])
}

/// `@modelcontextprotocol/server-memory`, which keeps its graph in one file.
pub fn memory(file: &Path) -> Value {
    let mut server = of_npm("mcp-server-memory", &[]);
    server["env"] = json!({"MEMORY_FILE_PATH": file});
    server
}

/// PyPI `mcp-server-git` over one repository.
pub fn git(repository: &Path) -> Value {
    let repository = repository.display().to_string();
    command(&home().join("python-2/bin/mcp-server-git"), &["--repository", &repository])
}

/// PyPI `mcp-server-time`.
pub fn time() -> Value {
    command(&home().join("python-2/bin/mcp-server-time"), &["--local-timezone", "UTC"])
}
