//! A key in an ssh-agent (draft-ietf-sshm-ssh-agent): the agent signs raw bytes over its Unix
//! socket, and the secret never enters this process.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use super::keys::PublicKey;
use super::signer::{self, Signer};
use super::ssh::{PLAIN, SshKey, Wire};

/// How long an agent may take, including the time to ask its user.
const PATIENCE: Duration = Duration::from_secs(5);
/// The most bytes of an answer: a signature is far smaller.
const ANSWER_MAX: u32 = 16 * 1024;
const SIGN_REQUEST: u8 = 13;
const SIGN_RESPONSE: u8 = 14;

/// Why an agent did not sign.
#[derive(Debug, thiserror::Error)]
#[error("ssh-agent at `{}`: {why}", socket.display())]
pub struct Error {
    /// Where the agent listens.
    pub socket: PathBuf,
    /// What went wrong.
    #[source]
    pub why: Failure,
}

/// What went wrong between an agent and this process.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The message is too long for a request.
    #[error("the message is too long")]
    Long,
    /// The socket failed, or an answer is cut or too long.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// No answer arrived within this time.
    #[error("no answer within {} ms", .0.as_millis())]
    Slow(Duration),
    /// The agent did not sign.
    #[error("it refused to sign: does it hold this key? (ssh-add -l)")]
    Refused,
    /// The agent signed with another key.
    #[error("its signature is not by this key")]
    Other,
}

/// One key of one agent.
#[derive(Clone, Debug)]
pub struct Agent {
    socket: PathBuf,
    key: PublicKey,
    timeout: Duration,
}

impl Agent {
    /// The agent at this socket, and the key to use. Does not connect yet.
    pub const fn new(socket: PathBuf, key: PublicKey) -> Self {
        Self { socket, key, timeout: PATIENCE }
    }
}

impl Signer for Agent {
    fn public(&self) -> PublicKey {
        self.key
    }

    fn sign(&self, message: &[u8]) -> Result<[u8; 64], signer::Error> {
        let failed = |why| Error { socket: self.socket.clone(), why };
        let blob = SshKey::Plain(self.key).blob();
        let answer = ask(&self.socket, &blob, message, self.timeout)?;
        let signature = signature(&answer).ok_or_else(|| failed(Failure::Refused))?;
        if self.key.verifies(message, &signature) {
            Ok(signature)
        } else {
            Err(failed(Failure::Other).into())
        }
    }
}

/// Asks the agent at this socket to sign with the key of this binary form; returns the signature in
/// the form for keys of its type. Always returns within `timeout`.
///
/// # Errors
/// No agent, no answer, or a refusal: see [`Failure`].
pub fn ask(socket: &Path, key: &[u8], message: &[u8], timeout: Duration) -> Result<Vec<u8>, Error> {
    let failed = |why| Error { socket: socket.to_owned(), why };
    let request = request(key, message).ok_or_else(|| failed(Failure::Long))?;
    let (path, (reply, answer)) = (socket.to_owned(), mpsc::sync_channel(1));
    // WHY: connecting to a full backlog cannot be bounded otherwise. The thread ends by the time
    // limits of its socket, or with the agent.
    let started = std::thread::Builder::new()
        .name("ssh-agent".into())
        .spawn(move || drop(reply.send(exchange(&path, &request, timeout))));
    drop(started.map_err(|e| failed(e.into()))?);
    let answered = answer.recv_timeout(timeout).map_err(|_| failed(Failure::Slow(timeout)))?;
    let body = answered.map_err(|e| failed(e.into()))?;
    answered_blob(&body).map(<[u8]>::to_vec).ok_or_else(|| failed(Failure::Refused))
}

fn string(out: &mut Vec<u8>, bytes: &[u8]) -> Option<()> {
    out.extend_from_slice(&u32::try_from(bytes.len()).ok()?.to_be_bytes());
    out.extend_from_slice(bytes);
    Some(())
}

/// `SSH_AGENTC_SIGN_REQUEST`, with its length before it.
fn request(key: &[u8], message: &[u8]) -> Option<Vec<u8>> {
    let mut body = vec![SIGN_REQUEST];
    string(&mut body, key)?;
    string(&mut body, message)?;
    body.extend_from_slice(&0_u32.to_be_bytes());
    let mut framed = Vec::new();
    string(&mut framed, &body)?;
    Some(framed)
}

fn exchange(socket: &PathBuf, request: &[u8], timeout: Duration) -> std::io::Result<Vec<u8>> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(timeout))?;
    stream.set_write_timeout(Some(timeout))?;
    stream.write_all(request)?;
    let mut length = [0_u8; 4];
    stream.read_exact(&mut length)?;
    let length = u32::from_be_bytes(length);
    if length > ANSWER_MAX {
        return Err(std::io::Error::other("its answer is too long"));
    }
    let mut body = vec![0_u8; usize::try_from(length).unwrap_or(0)];
    stream.read_exact(&mut body)?;
    Ok(body)
}

/// The signature's blob in an answer; `None` if the agent refused.
fn answered_blob(body: &[u8]) -> Option<&[u8]> {
    let (&kind, rest) = body.split_first()?;
    let mut wire = Wire(rest);
    let blob = wire.string().filter(|_| kind == SIGN_RESPONSE)?;
    wire.ends().then_some(blob)
}

/// The signature in such a blob, if an ed25519 key made it.
fn signature(blob: &[u8]) -> Option<[u8; 64]> {
    let mut wire = Wire(blob);
    let plain = wire.text()? == PLAIN;
    let signature = wire.string().filter(|_| plain && wire.ends())?;
    <[u8; 64]>::try_from(signature).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SystemEntropy;
    use crate::keys::SecretKey;
    use std::os::unix::net::UnixListener;

    fn agent(dir: &tempfile::TempDir, key: &SecretKey) -> (UnixListener, Agent) {
        let socket = dir.path().join("agent.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        let agent =
            Agent { timeout: Duration::from_millis(200), ..Agent::new(socket, key.public()) };
        (listener, agent)
    }

    fn answering(listener: UnixListener, answer: Vec<u8>) -> std::thread::JoinHandle<()> {
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut length = [0_u8; 4];
            stream.read_exact(&mut length).unwrap();
            let mut body = vec![0_u8; usize::try_from(u32::from_be_bytes(length)).unwrap()];
            stream.read_exact(&mut body).unwrap();
            stream.write_all(&answer).unwrap();
        })
    }

    fn framed(body: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        string(&mut out, body).unwrap();
        out
    }

    #[test]
    fn an_agent_that_hangs_is_an_error_within_its_bound() {
        let dir = tempfile::tempdir().unwrap();
        let key = SecretKey::generate(&SystemEntropy);
        let (_listener, agent) = agent(&dir, &key);
        let why = agent.sign(b"x").unwrap_err().to_string();
        // Its own read timeout or ours, whichever comes first.
        assert!(why.contains("ssh-agent at") && !why.contains("not by this key"), "{why}");
    }

    #[test]
    fn an_agent_that_dies_refuses_or_signs_with_another_key_is_an_error() {
        let key = SecretKey::generate(&SystemEntropy);
        let other = SecretKey::generate(&SystemEntropy);
        let mut blob = Vec::new();
        string(&mut blob, PLAIN.as_bytes()).unwrap();
        string(&mut blob, &other.sign(b"x")).unwrap();
        let mut foreign = vec![SIGN_RESPONSE];
        string(&mut foreign, &blob).unwrap();
        let table = [
            (framed(&[5]), "refused to sign"),
            (framed(&foreign), "not by this key"),
            (vec![0, 0], "ssh-agent at"),
            (vec![0xff; 8], "too long"),
        ];
        for (answer, expected) in table {
            let dir = tempfile::tempdir().unwrap();
            let (listener, agent) = agent(&dir, &key);
            let served = answering(listener, answer);
            let why = agent.sign(b"x").unwrap_err().to_string();
            assert!(why.contains(expected), "{why}");
            served.join().unwrap();
        }
        let dir = tempfile::tempdir().unwrap();
        let (listener, agent) = agent(&dir, &key);
        drop(listener);
        assert!(agent.sign(b"x").is_err());
    }
}
