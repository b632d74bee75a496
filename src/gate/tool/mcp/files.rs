//! The files that a server is made of: its program, the interpreters that starts, and the scripts it is given.
//!
//! They are hashed when a lock is made and again before each start, so a server whose files changed is not started
//! until somebody signs a new lock. What a script loads by itself (modules, packages) is not among them.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::Error;
use super::confined::{interpreter, locate};
use crate::catalog::server::{Server, Stdio, Transport};
use crate::domain::digest::Digest;

/// Scripts whose interpreters are scripts.
const SCRIPTS_MAX: usize = 4;
/// Bytes of the first line of a script.
const HEAD_BYTES: u64 = 4096;
/// What a file of code is called, whether it may be executed or not.
const CODE: [&str; 18] = [
    "js", "mjs", "cjs", "ts", "mts", "py", "pyz", "pyc", "rb", "php", "pl", "sh", "lua", "jar",
    "wasm", "so", "dll", "exe",
];

/// Every file of this server's command line, by its path without links, with its SHA-256. Blocks.
///
/// # Errors
/// One that cannot be read.
pub fn files(stdio: &Stdio) -> Result<BTreeMap<String, Digest>, Error> {
    let mut found = BTreeMap::new();
    let mut program = stdio.program.clone();
    for _ in 0..=SCRIPTS_MAX {
        let path = stdio.cwd.join(locate(&program, stdio)?);
        let head = add(&path, &mut found)?;
        let Some((next, _)) = head.strip_prefix(b"#!").and_then(interpreter) else { break };
        program = next;
    }
    let writable = |path: &Path| {
        let given = stdio.isolation.sandbox().map(|sandbox| &sandbox.write);
        given.is_some_and(|given| given.iter().any(|dir| path.starts_with(dir)))
    };
    for arg in &stdio.args {
        let text = arg.split_once('=').filter(|_| arg.starts_with('-')).map_or(&**arg, |it| it.1);
        let Ok(path) = stdio.cwd.join(text).canonicalize() else { continue };
        if path.is_file() && !writable(&path) && is_code(&path) {
            add(&path, &mut found)?;
        }
    }
    Ok(found)
}

/// The same of any server; one behind a URL has none.
///
/// # Errors
/// As `files`.
pub fn of_server(server: &Server) -> Result<BTreeMap<String, Digest>, Error> {
    match &server.transport {
        Transport::Stdio(stdio) => files(stdio),
        Transport::Http(_) => Ok(BTreeMap::new()),
    }
}

/// Whether its files are those that the lock pins, where it pins any. Blocks.
///
/// # Errors
/// The first that is another one, and what to do.
pub(super) fn unchanged(server: &Server) -> Result<(), Error> {
    let Some(pinned) = server.files.get().filter(|pinned| !pinned.is_empty()) else {
        return Ok(());
    };
    let now = of_server(server)?;
    let other = pinned.iter().find(|(path, digest)| now.get(*path) != Some(*digest));
    let new = now.keys().find(|path| !pinned.contains_key(*path));
    let Some(path) = other.map(|(path, _)| path).or(new) else { return Ok(()) };
    Err(Error::Changed(path.clone()))
}

/// Adds this file; its first bytes come back.
fn add(path: &Path, found: &mut BTreeMap<String, Digest>) -> Result<Vec<u8>, Error> {
    let failed = |source| Error::Read { path: path.to_owned(), source };
    let real: PathBuf = path.canonicalize().map_err(failed)?;
    let digest = Digest::of_reader(File::open(&real).map_err(failed)?).map_err(failed)?;
    let mut head = Vec::new();
    File::open(&real).map_err(failed)?.take(HEAD_BYTES).read_to_end(&mut head).map_err(failed)?;
    found.insert(real.to_string_lossy().into_owned(), digest);
    Ok(head)
}

fn is_code(path: &Path) -> bool {
    let named = path.extension().is_some_and(|is| CODE.iter().any(|known| is == *known));
    named || path.metadata().is_ok_and(|is| is.permissions().mode() & 0o111 != 0)
}
