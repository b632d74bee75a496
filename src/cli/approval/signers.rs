//! `wicketgate approval sign-approvers`: the list of approvers, checked and signed.

use std::path::{Path, PathBuf};

use serde_json::json;

use crate::approval::Approvers;
use crate::approval::approvers::{self, Purpose};
use crate::cli::{Exit, Failure, FileError, JsonArg, print_facts};
use crate::crypto::keys::SecretKey;

/// A list and who signs it.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
        wicketgate approval sign-approvers allowed_signers --key keys/approvers.pem\n\n\
        Each line of the list is one key in the form of OpenSSH's allowed_signers, with roles in place of the comment:\n  \
        anna@example.com namespaces=\"wicketgate-approval\" ssh-ed25519 AAAA... roles=approver,treasury\n\n\
        A line before the first key gives the version of the list; `expires` is optional. A gate that has loaded a version\n\
        refuses an older one, and refuses other content under the same version:\n  \
        # wicketgate: version=2 expires=20270101Z")]
pub(super) struct SignerOptions {
    /// The list; the signature is written to FILE.sig.json
    file: PathBuf,
    /// Sign with this secret key (PKCS#8 PEM); repeat it for more signatures
    #[arg(long = "key", value_name = "KEY", required = true)]
    keys: Vec<PathBuf>,
    #[command(flatten)]
    json: JsonArg,
}

/// Signs it.
pub(super) fn run(args: &SignerOptions) -> Exit {
    match sign(Purpose::Approval, &args.file, &args.keys) {
        Ok(()) => Exit::Ok,
        Err(failure) => failure.print(),
    }
}

/// A list that is not signed, because it is wrong.
#[derive(Debug, thiserror::Error)]
#[error("`{}`: {error}", file.display())]
struct ListError {
    file: PathBuf,
    #[source]
    error: approvers::Error,
}

/// Signs a list for this purpose; the envelope goes into a file beside it.
pub(in crate::cli) fn sign(purpose: Purpose, file: &Path, keys: &[PathBuf]) -> Result<(), Failure> {
    let write = |result: std::io::Result<()>, path: &Path| {
        result.map_err(FileError::at(path)).map_err(Failure::invalid)
    };
    let text = std::fs::read(file).map_err(FileError::at(file)).map_err(Failure::invalid)?;
    let keys: Result<Vec<_>, _> = keys.iter().map(|path| SecretKey::load(path)).collect();
    let keys = keys.map_err(Failure::invalid)?;
    let envelope = Approvers::sign(purpose, &text, &keys.iter().collect::<Vec<_>>());
    let list = |error| Failure::invalid(ListError { file: file.to_owned(), error });
    let envelope = envelope.map_err(list)?;
    let mut envelope_file = file.as_os_str().to_owned();
    envelope_file.push(".sig.json");
    let envelope_file = PathBuf::from(envelope_file);
    // Written aside and renamed, so that no gate ever reads half an envelope.
    let aside = envelope_file.with_extension("json.new");
    write(std::fs::write(&aside, envelope), &aside)?;
    write(std::fs::rename(&aside, &envelope_file), &envelope_file)?;
    print_facts(json!({"wrote": envelope_file}), format!("wrote {}", envelope_file.display()));
    for key in keys {
        let id = key.public().id();
        print_facts(json!({"signers": [id]}), format!("signed by {id}"));
    }
    Ok(())
}
