//! `wicketgate approval sign-approvers`: the list of those who may approve, checked and signed.

use std::path::{Path, PathBuf};

use crate::approval::Approvers;
use crate::approval::approvers::Purpose;
use crate::cli::{Exit, complain, say};
use crate::crypto::keys::SecretKey;

/// A list and who signs it.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Each line of the list is one key, as OpenSSH's allowed_signers has it, with the roles where OpenSSH has a comment:\n  \
    anna@example.com namespaces=\"wicketgate-approval\" ssh-ed25519 AAAA... roles=approver,treasury\n\n\
    A line before the first key says which list it is. One that follows has a higher version: an older list, or other\n\
    people under the same version, are refused by every gate that knew this one. `expires` may be left out:\n  \
    # wicketgate: version=2 expires=20270101Z\n\n\
    Example:\n  wicketgate approval sign-approvers allowed_signers --key keys/approvers.pem"
)]
pub(super) struct Sign {
    /// The list; its envelope is written as FILE.sig.json
    file: PathBuf,
    /// A private key file (PKCS#8 PEM); repeat for several signatures
    #[arg(long = "key", value_name = "KEY", required = true)]
    keys: Vec<PathBuf>,
}

/// Signs it.
pub(super) fn run(args: &Sign) -> Exit {
    match sign(Purpose::Approval, &args.file, &args.keys) {
        Ok(()) => Exit::Ok,
        Err(why) => {
            complain(format!("error: {why}"));
            Exit::Invalid
        }
    }
}

/// Signs a list for this purpose; the envelope stands beside it.
pub(in crate::cli) fn sign(purpose: Purpose, file: &Path, keys: &[PathBuf]) -> Result<(), String> {
    let at = |path: &Path, why: &dyn std::fmt::Display| format!("`{}`: {why}", path.display());
    let text = std::fs::read(file).map_err(|e| at(file, &e))?;
    let keys: Result<Vec<_>, _> = keys.iter().map(|path| SecretKey::load(path)).collect();
    let keys = keys.map_err(|e| e.to_string())?;
    let envelope = Approvers::sign_for(purpose, &text, &keys.iter().collect::<Vec<_>>());
    let envelope = envelope.map_err(|e| at(file, &e))?;
    let mut beside = file.as_os_str().to_owned();
    beside.push(".sig.json");
    let beside = PathBuf::from(beside);
    // Written aside and renamed, so that no gate ever reads half an envelope.
    let aside = beside.with_extension("json.new");
    std::fs::write(&aside, envelope).map_err(|e| at(&aside, &e))?;
    std::fs::rename(&aside, &beside).map_err(|e| at(&beside, &e))?;
    say(format!("wrote {}", beside.display()));
    for key in keys {
        say(format!("signed by {}", key.public().id()));
    }
    Ok(())
}
