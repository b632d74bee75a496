//! The port to a secret key: the key need not be in a file of ours.
//!
//! Enrolment, fleet and evidence keys are used through [`Signer`] only. A reference to one is the
//! path of a PEM file, or `ssh-agent:<public key file>` for a key in a stock ssh-agent; a KMS would
//! be one more implementation of the same two methods.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::agent::{self, Agent};
use super::keys;
use super::keys::{PublicKey, SecretKey};

/// The prefix of a reference to a key in an ssh-agent.
pub const AGENT: &str = "ssh-agent:";

/// A holder of a secret ed25519 key that signs with it.
pub trait Signer: Send + Sync + std::fmt::Debug + 'static {
    /// The public half, pinned by verifiers.
    fn public(&self) -> PublicKey;
    /// Signs these bytes (RFC 8032 Ed25519). Always returns within a few seconds.
    ///
    /// # Errors
    /// The key cannot be reached or the holder refuses; nothing was signed.
    fn sign(&self, message: &[u8]) -> Result<[u8; 64], Error>;
}

impl Signer for SecretKey {
    fn public(&self) -> PublicKey {
        Self::public(self)
    }

    fn sign(&self, message: &[u8]) -> Result<[u8; 64], Error> {
        Ok(Self::sign(self, message))
    }
}

/// Why a signer is unusable, or did not sign.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The key file.
    #[error(transparent)]
    Key(#[from] keys::Error),
    /// The environment names no agent.
    #[error("`{0}`: SSH_AUTH_SOCK is not set: no agent to ask")]
    NoAgent(String),
    /// The public key file that names a key of the agent.
    #[error("`{reference}`: {source}")]
    Public {
        /// The reference.
        reference: String,
        /// What is wrong with the file.
        source: keys::Error,
    },
    /// The agent did not sign.
    #[error(transparent)]
    Agent(#[from] agent::Error),
}

/// Opens the key of this reference. `env` looks up the agent's socket (`SSH_AUTH_SOCK`).
///
/// # Errors
/// A key file that is unusable or that other users may read, or no agent.
pub fn open(
    reference: &Path,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<Arc<dyn Signer>, Error> {
    let Some(public) = agent_key(reference) else {
        return Ok(Arc::new(SecretKey::load(reference)?));
    };
    let shown = || reference.display().to_string();
    let socket = env("SSH_AUTH_SOCK").filter(|path| !path.is_empty());
    let socket = socket.ok_or_else(|| Error::NoAgent(shown()))?;
    let key = PublicKey::load_ssh(&public)
        .map_err(|source| Error::Public { reference: shown(), source })?;
    Ok(Arc::new(Agent::new(PathBuf::from(socket), key)))
}

/// The public key file, if the reference is to a key in an ssh-agent.
pub fn agent_key(reference: &Path) -> Option<PathBuf> {
    reference.to_str()?.strip_prefix(AGENT).map(PathBuf::from)
}
