//! Statements that people sign, on the command line: read from a file, printed, signed with a key or
//! with a signature made elsewhere.

use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
use zeroize::Zeroizing;

use super::{Exit, FileError, fail};
use crate::approval::order::OrderStatement;
use crate::approval::sign::{self, Key};
use crate::approval::{MalformedStatement, SignedApproval, Statement};
use crate::config;
use crate::operator::api::requests::SignedStatement;

/// Why there is no statement, or no signature over it.
#[derive(Debug, thiserror::Error)]
pub(super) enum SignError {
    /// The file of a statement or of a signature made elsewhere cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// The file does not hold a statement.
    #[error("`{}`: {error}", file.display())]
    Statement {
        file: PathBuf,
        #[source]
        error: MalformedStatement,
    },
    /// No key is named, and the usual place of one is not known.
    #[error("HOME is not set: name your key with --key")]
    NoHome,
    /// The key cannot be used.
    #[error(transparent)]
    Key(#[from] sign::Error),
}

/// How a statement is signed: with the first key, or by the signature in the second file.
pub(super) type KeyOrFile<'a> = (Option<&'a Path>, Option<&'a Path>);

/// A statement with the signature over it.
pub(super) fn signed<S: Statement>(
    with: KeyOrFile<'_>,
    statement: &S,
) -> Result<SignedApproval, SignError> {
    signed_text::<S>(with, statement.text())
}

/// As [`signed`], for the text of a statement, whatever it says: its receiver reads it.
pub(super) fn signed_text<S: Statement>(
    (key, signature): KeyOrFile<'_>,
    statement: String,
) -> Result<SignedApproval, SignError> {
    if let Some(path) = signature {
        return Ok(SignedApproval { statement, signature: file(path)? });
    }
    let key = match key {
        Some(key) => key.to_owned(),
        None => {
            let home = config::environment("HOME").filter(|home| !home.is_empty());
            let home = home.ok_or(SignError::NoHome)?;
            Path::new(&home).join(".ssh/id_ed25519")
        }
    };
    let key = Key::open(&key, &config::environment, &passphrase)?;
    let signature = sign::sign_bytes(&key, S::PURPOSE.namespace(), statement.as_bytes())?;
    Ok(SignedApproval { statement, signature })
}

/// How a person signs an order: its options on the command line.
pub(super) struct OrderSigning<'a> {
    /// `--key` and `--signature`.
    pub with: KeyOrFile<'a>,
    /// `--order`: the file with the bytes that were signed elsewhere.
    pub order: Option<&'a Path>,
    /// `--statement`: the bytes are printed and not signed.
    pub prints: bool,
}

/// The signed order; an error is how the command ends, which is well after it printed the bytes. `make` makes the
/// statement if no file has it.
pub(super) async fn order(
    signing: OrderSigning<'_>,
    make: impl Future<Output = Result<OrderStatement, Exit>>,
) -> Result<SignedStatement, Exit> {
    let OrderSigning { with, order, prints } = signing;
    let signed = match order {
        Some(file) => {
            let bytes = std::fs::read(file).map_err(FileError::at(file));
            let bytes = bytes.map_err(|error| fail(Exit::Invalid, error))?;
            signed_text::<OrderStatement>(with, String::from_utf8_lossy(&bytes).into_owned())
        }
        None => {
            let statement = make.await?;
            if prints {
                return Err(printed(&statement));
            }
            signed(with, &statement)
        }
    };
    signed.map(Into::into).map_err(|why| fail(Exit::Invalid, why))
}

/// The text of a file: a statement or a signature.
pub(super) fn file(path: &Path) -> Result<String, FileError> {
    std::fs::read_to_string(path).map_err(FileError::at(path))
}

/// The statement in a file.
pub(super) fn statement<S: Statement>(path: &Path) -> Result<S, SignError> {
    let bytes = std::fs::read(path).map_err(FileError::at(path))?;
    S::parse(&bytes).map_err(|error| SignError::Statement { file: path.to_owned(), error })
}

/// Prints the statement to sign: exactly these bytes, no line feed follows.
pub(super) fn printed(statement: &impl Statement) -> Exit {
    let mut out = std::io::stdout();
    let written = out.write_all(&statement.bytes()).and_then(|()| out.flush());
    if written.is_ok() { Exit::Ok } else { Exit::Unverifiable }
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
