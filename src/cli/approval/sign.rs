//! The approver's signature: this program makes it with a key, or reads it from a file.

use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::path::Path;

use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
use zeroize::Zeroizing;

use crate::approval::sign::{self, Key};
use crate::cli::{Exit, FileError};
use crate::config;

/// Why there is no signature.
#[derive(Debug, thiserror::Error)]
pub(in crate::cli) enum SignError {
    /// The file of a foreign signature cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// No key is named, and the usual place of one is not known.
    #[error("HOME is not set: name your key with --key")]
    NoHome,
    /// The key cannot be used.
    #[error(transparent)]
    Key(#[from] sign::Error),
}

/// The armored signature over a statement: made with this key, or read from this file.
pub(in crate::cli) fn signature(
    (key, signature): (Option<&Path>, Option<&Path>),
    namespace: &str,
    statement: &[u8],
) -> Result<String, SignError> {
    if let Some(path) = signature {
        return Ok(std::fs::read_to_string(path).map_err(FileError::at(path))?);
    }
    let key = match key {
        Some(key) => key.to_owned(),
        None => {
            let home = config::environment("HOME").filter(|home| !home.is_empty());
            let home = home.ok_or(SignError::NoHome)?;
            Path::new(&home).join(".ssh/id_ed25519")
        }
    };
    armored(&key, namespace, statement)
}

/// Prints the statement to sign: exactly these bytes, no line feed follows.
pub(in crate::cli) fn printed(statement: &[u8]) -> Exit {
    let mut out = std::io::stdout();
    let written = out.write_all(statement).and_then(|()| out.flush());
    if written.is_ok() { Exit::Ok } else { Exit::Unverifiable }
}

/// The armored signature over these bytes in this namespace, by the named key.
pub(in crate::cli) fn armored(
    key: &Path,
    namespace: &str,
    message: &[u8],
) -> Result<String, SignError> {
    let key = Key::open(key, &config::environment, &passphrase)?;
    Ok(sign::sign_bytes(&key, namespace, message)?)
}

/// Asks for a key's passphrase on the terminal, which does not show it.
fn passphrase(path: &Path) -> Option<Zeroizing<String>> {
    let input = std::io::stdin();
    if !input.is_terminal() {
        return None;
    }
    let before = tcgetattr(&input).ok()?;
    let mut silent = before.clone();
    silent.local_modes.remove(LocalModes::ECHO);
    tcsetattr(&input, OptionalActions::Flush, &silent).ok()?;
    let _ = write!(std::io::stderr(), "passphrase of {}: ", path.display());
    let mut line = Zeroizing::new(String::new());
    let read = input.lock().read_line(&mut line);
    let _ = tcsetattr(&input, OptionalActions::Flush, &before);
    let _ = writeln!(std::io::stderr());
    read.ok()?;
    Some(Zeroizing::new(line.trim_end_matches(['\r', '\n']).to_owned()))
}
