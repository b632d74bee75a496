//! `wicketgate keygen`.

use std::path::PathBuf;

use super::{Exit, complain, say, write_new};
use crate::clock::SystemEntropy;
use crate::crypto::keys::SecretKey;

/// Make an ed25519 key pair.
///
/// Writes the secret key (PKCS#8 PEM, mode 0600) to PATH and the public key (SPKI PEM) to PATH.pub,
/// and prints the key id: the SHA-256 of the raw public key. Existing files are never replaced.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  wicketgate keygen --out keys/manifest.pem\n  wicketgate keygen --out keys/policy.pem --json"
)]
pub struct Args {
    /// Where the secret key goes; the public key goes to PATH.pub.
    #[arg(long, value_name = "PATH")]
    out: PathBuf,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Makes the two files.
pub fn run(args: &Args) -> Exit {
    let mut public = args.out.clone().into_os_string();
    public.push(".pub");
    let public = PathBuf::from(public);
    if public.exists() {
        complain(format!("{}: exists and is not replaced", public.display()));
        return Exit::Invalid;
    }
    let key = SecretKey::generate(&SystemEntropy);
    let written = key.store(&args.out).map_err(|e| e.to_string());
    if let Err(error) = written.and_then(|()| write_new(&public, key.public().to_pem().as_bytes()))
    {
        complain(error);
        return Exit::Invalid;
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
