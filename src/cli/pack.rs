//! `wicketgate config pack`: a directory as one signed archive.

use std::path::{Path, PathBuf};

use serde_json::json;

use super::config::ConfigFile;
use super::{Exit, Failure, ended, note, report, say, write_new};
use crate::config::archive::{self, Gathered, SignedArchiveError};
use crate::config::environment;
use crate::crypto::signer;
use crate::domain::digest::Digest;
use crate::domain::plural::many;

/// Pack the configuration and the files that it names into one signed archive.
///
/// The archive is one text file, so it fits into a ConfigMap, a Secret, an image or a volume. It holds every file of the
/// directory except hidden files, private keys, tokens, and files that not all users may read, as a gate wants its secrets:
/// those stay files of their own, at absolute paths. `--config` is a path below the directory. A gate reads the archive with
/// `wicketgate serve --config-archive` and trusts the public half of the key, which must reach the gate another way.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
    wicketgate config keygen --out archive.pem\n  \
    wicketgate config pack gate --key archive.pem --out gate.archive\n  \
    wicketgate check --config-archive gate.archive --archive-key archive.pem.pub\n  \
    wicketgate serve --config-archive gate.archive --archive-key archive.pem.pub")]
pub struct Args {
    /// The directory
    dir: PathBuf,
    /// Sign with this secret key (PKCS#8 PEM), or with the agent's key of this public half (`ssh-agent:FILE`)
    #[arg(long, value_name = "KEY")]
    key: PathBuf,
    /// Write to this new file
    #[arg(long, short, value_name = "PATH", default_value = "gate.archive")]
    out: PathBuf,
    #[command(flatten)]
    at: ConfigFile,
    /// Leave out this file or directory, by its path below DIR; repeat it for more
    #[arg(long, value_name = "PATH")]
    without: Vec<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Writes the archive.
pub fn run(args: &Args) -> Exit {
    ended(packed(args))
}

fn packed(args: &Args) -> Result<Exit, Failure> {
    let name = shown(&args.at.config);
    let gathered = archive::gather(&args.dir, &name, &args.without).map_err(Failure::invalid)?;
    let Gathered { files, omitted } = gathered;
    if !files.contains_key(&name) {
        let path = args.dir.clone();
        return Err(Failure::invalid(SignedArchiveError::Missing { name, path }));
    }
    let signer = signer::open(&args.key, &environment).map_err(Failure::usage)?;
    let bytes = archive::pack(&files, &*signer).map_err(Failure::invalid)?;
    write_new(&args.out, &bytes).map_err(Failure::invalid)?;
    let digest = Digest::of(&[&bytes]).prefixed();
    if !args.json {
        omitted.iter().for_each(|one| note(format!("left out: {} ({})", one.name, one.why)));
    }
    let out = shown(&args.out);
    let facts = json!({"archive": out, "digest": digest, "files": files.keys().collect::<Vec<_>>(),
        "left_out": omitted.iter().map(|one| &one.name).collect::<Vec<_>>(), "bytes": bytes.len(),
        "key_id": signer.public().id()});
    let count = many(u64::try_from(files.len()).unwrap_or(u64::MAX), "file");
    report(facts, || say(format!("wrote {out}: {count}, {} bytes, {digest}", bytes.len())));
    Ok(Exit::Ok)
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}
