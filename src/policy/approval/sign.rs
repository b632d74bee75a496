//! Signs a statement: with an OpenSSH key file, or through the ssh-agent, which also reaches
//! hardware keys.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::Statement;
use crate::crypto::agent;
use crate::crypto::keys::SecretKey;
use crate::crypto::openssh::{self, Ask};
use crate::crypto::signer;
use crate::crypto::ssh::{self, PLAIN, SshKey, put};
use crate::crypto::sshsig::{self, SshHash, SshSig, covered};

/// How long an SSH agent may take: its user may have to find and touch a security key.
const PATIENCE: Duration = Duration::from_secs(60);

/// Why the statement was not signed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The key file.
    #[error(transparent)]
    Key(#[from] openssh::Error),
    /// The public key file that names a key of the agent cannot be read.
    #[error("`{path}`: {source}")]
    Io {
        /// The file.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// It holds no key.
    #[error("`{path}`: {source}")]
    Public {
        /// The file.
        path: String,
        /// Why.
        source: ssh::Error,
    },
    /// The environment names no agent.
    #[error("SSH_AUTH_SOCK is not set: no agent to ask")]
    NoAgent,
    /// The agent.
    #[error(transparent)]
    Agent(#[from] agent::Error),
    /// The key's answer is not its signature.
    #[error("the key's answer: {0}")]
    Answer(#[from] sshsig::Error),
}

/// An approver's key.
#[derive(Debug)]
pub enum Key {
    /// From a file; in this process.
    File(SecretKey),
    /// Of an agent.
    Agent {
        /// Where the agent listens.
        socket: PathBuf,
        /// Which of its keys.
        key: SshKey,
    },
}

impl Key {
    /// Opens the key of this reference: an OpenSSH private key file, or
    /// `ssh-agent:<public key file>`. `env` looks up the agent's socket (`SSH_AUTH_SOCK`); `ask`
    /// asks for a passphrase if there is one.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn open(
        reference: &Path,
        env: &dyn Fn(&str) -> Option<String>,
        ask: Ask<'_>,
    ) -> Result<Self, Error> {
        let Some(public) = signer::agent_key(reference) else {
            return Ok(Self::File(openssh::load(reference, ask)?));
        };
        let path = || public.display().to_string();
        let text = std::fs::read_to_string(&public)
            .map_err(|source| Error::Io { path: path(), source })?;
        let key =
            SshKey::parse(text.trim()).map_err(|source| Error::Public { path: path(), source })?;
        let socket = env("SSH_AUTH_SOCK").filter(|path| !path.is_empty());
        let socket = socket.ok_or(Error::NoAgent)?;
        Ok(Self::Agent { socket: PathBuf::from(socket), key })
    }

    /// The public half.
    #[must_use]
    pub fn public(&self) -> SshKey {
        match self {
            Self::File(key) => SshKey::Plain(key.public()),
            Self::Agent { key, .. } => key.clone(),
        }
    }
}

/// Signs a statement in its namespace, and gives the verified, armored signature.
///
/// # Errors
/// [`Error::Agent`].
pub fn sign<S: Statement>(key: &Key, statement: &S) -> Result<String, Error> {
    sign_bytes(key, S::PURPOSE.namespace(), &statement.bytes())
}

/// Signs these bytes in this namespace, and gives the verified, armored signature.
///
/// # Errors
/// [`Error::Agent`].
pub fn sign_bytes(key: &Key, namespace: &str, message: &[u8]) -> Result<String, Error> {
    let covered = covered(namespace, SshHash::Sha512, message);
    let answer = match key {
        Key::File(secret) => {
            let mut blob = Vec::new();
            put(&mut blob, PLAIN.as_bytes());
            put(&mut blob, &secret.sign(&covered));
            blob
        }
        Key::Agent { socket, key } => agent::ask(socket, &key.blob(), &covered, PATIENCE)?,
    };
    let made = SshSig::answered(key.public(), namespace, SshHash::Sha512, &answer)?;
    made.verify(namespace, message)?;
    Ok(made.armored())
}
