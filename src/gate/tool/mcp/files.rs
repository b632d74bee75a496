//! The files of a server: its program, the program's interpreters, and the scripts among its
//! arguments.
//!
//! They are hashed when a lock is made and again before each start. A server whose files changed is
//! not started until an operator signs a new lock. Files that a script loads by itself (modules,
//! packages) are not covered.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::Error;
use super::confined::{interpreter, locate};
use crate::catalog::server::{Server, Stdio, Transport};
use crate::domain::digest::Digest;

/// Longest chain of scripts that are interpreters of scripts.
const SCRIPTS_MAX: usize = 4;
/// Bytes of a script's first line.
const HEAD_BYTES: u64 = 4096;
/// File extensions of code, whether the file is executable or not.
const CODE: [&str; 18] = [
    "js", "mjs", "cjs", "ts", "mts", "py", "pyz", "pyc", "rb", "php", "pl", "sh", "lua", "jar",
    "wasm", "so", "dll", "exe",
];

/// Every file of this server's command line, by its path without links, with its SHA-256. Blocks.
///
/// # Errors
/// A file cannot be read.
pub(super) fn files(stdio: &Stdio) -> Result<BTreeMap<String, Digest>, Error> {
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

/// The files of any server; a server behind a URL has none.
///
/// # Errors
/// As `files`.
pub(super) fn of_server(server: &Server) -> Result<BTreeMap<String, Digest>, Error> {
    match &server.transport {
        Transport::Stdio(stdio) => files(stdio),
        Transport::Http(_) => Ok(BTreeMap::new()),
    }
}

/// Checks that the server's files are the ones that the lock pins, if it pins any. Blocks.
///
/// # Errors
/// The first file that differs, and what to do.
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

/// Adds this file and returns its first bytes.
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
