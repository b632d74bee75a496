//! `wicketgate config keygen`.

use std::path::PathBuf;

use super::error::Occupied;
use super::{Exit, FileError, create, fail, say, write_new};
use crate::clock::SystemEntropy;
use crate::crypto::files::beside;
use crate::crypto::keys::SecretKey;
use crate::domain::token::Family;
use crate::identity::token::mint;

/// Make an ed25519 key pair for manifests or policy bundles, or a token.
///
/// Writes the secret key (PKCS#8 PEM, mode 0600) to PATH and the public key (SPKI PEM) to PATH.pub,
/// and prints the key id: the SHA-256 of the raw public key. With `--token`, writes a token for one agent or
/// one operator to PATH (mode 0600) instead. Existing files are never replaced.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  wicketgate config keygen --out keys/manifest.pem\n  wicketgate config keygen --out keys/policy.pem --json\n  wicketgate config keygen --token operator --out tokens/anna.token"
)]
pub struct Args {
    /// Make a token instead of a key pair: the `token_file` of a caller in `agents` or of an entry in `operators`.
    #[arg(long, value_enum, value_name = "FOR")]
    token: Option<Bearer>,
    /// Write the secret key, or the token, to this file; the public key goes to PATH.pub.
    #[arg(long, value_name = "PATH")]
    out: PathBuf,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Who shows a token.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Bearer {
    /// A token that identifies an agent.
    Agent,
    /// A token that identifies an operator.
    Operator,
}

impl Bearer {
    const fn family(self) -> Family {
        match self {
            Self::Agent => Family::Agent,
            Self::Operator => Family::Operator,
        }
    }
}

/// Makes the files.
pub fn run(args: &Args) -> Exit {
    if let Some(bearer) = args.token {
        return make_token(args, bearer.family());
    }
    let public = beside(&args.out, ".pub");
    if public.exists() {
        return fail(Exit::Invalid, Occupied::File(public));
    }
    let key = SecretKey::generate(&SystemEntropy);
    if let Err(error) = key.store(&args.out) {
        return fail(Exit::Invalid, error);
    }
    if let Err(error) = write_new(&public, key.public().to_pem().as_bytes()) {
        return fail(Exit::Invalid, error);
    }
    if args.json {
        let (secret, public) = (args.out.display().to_string(), public.display().to_string());
        let id = key.public().id();
        say(serde_json::json!({"key_id": id, "secret": secret, "public": public}).to_string());
    } else {
        say(format!("secret key  {}", args.out.display()));
        say(format!("public key  {}", public.display()));
        say(format!("key id      {}", key.public().id()));
    }
    Exit::Ok
}

fn make_token(args: &Args, family: Family) -> Exit {
    let ((token, _), path) = (mint(family, &SystemEntropy), args.out.display().to_string());
    if let Err(error) = create(&args.out, token.as_bytes(), 0o600) {
        return fail(Exit::Invalid, FileError::at(&args.out)(error));
    }
    match args.json {
        true => say(serde_json::json!({"token": path, "for": family.as_str()}).to_string()),
        false => say(format!("token       {path}")),
    }
    Exit::Ok
}
