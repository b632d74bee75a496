//! Keys, envelopes, notes and trees: pure functions over bytes, each after a public specification.
//!
//! Ed25519 (RFC 8032, verified strictly), and P-256 for passkeys; DSSE v1; C2SP signed-note, tlog-checkpoint,
//! tlog-cosignature and tlog-proof; RFC 6962 Merkle trees; RFC 3161 time stamps; OpenSSH keys and
//! SSHSIG; signed tokens (JWS). Nothing here reads a clock or the network; only `agent` uses a Unix socket.

use wicketgate_record::{clock, domain};

pub mod agent;
pub mod consistency;
pub mod cosign;
pub mod dsse;
pub mod files;
pub mod issue;
pub mod jose;
pub mod keys;
pub mod merkle;
pub mod note;
pub mod openssh;
pub mod passkey;
pub mod private;
pub mod range;
pub mod renewal;
pub mod signer;
pub mod ssh;
pub mod sshsig;
pub mod tiles;
pub mod tlog_proof;
pub mod tsp;
