//! `wicketgate policy build` and `policy unpack`: the form that stock OPA reads.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::cli::{Exit, fail, note, say};
use crate::domain::json::Json;
use crate::policy::bundle::Bundle;
use crate::policy::opa::{pack, unpack};
use crate::policy::testing;

/// `policy build`.
#[derive(clap::Args, Debug)]
pub struct Build {
    /// The bundle's directory
    dir: PathBuf,
    /// Write to this new file
    #[arg(long, short, alias = "output", value_name = "PATH", default_value = "bundle.tar.gz")]
    out: PathBuf,
    /// Leave out `*_test.rego` and the fixtures
    #[arg(long)]
    no_tests: bool,
}

/// `policy unpack`.
#[derive(clap::Args, Debug)]
pub struct Unpack {
    /// Archive made by `policy build` or `opa build`
    file: PathBuf,
    /// Write to this directory, which must be empty or not exist
    #[arg(long, short, alias = "output", value_name = "PATH")]
    out: PathBuf,
    /// The bundle's name, if the archive does not name it
    #[arg(long, requires = "version")]
    name: Option<String>,
    /// The bundle's version, if the archive does not name it
    #[arg(long, requires = "name")]
    version: Option<String>,
}

/// Writes the archive.
pub fn build(args: &Build) -> Exit {
    let made = Bundle::load(&args.dir).map_err(|errors| super::lines(&errors)).and_then(|bundle| {
        let fixtures = testing::fixtures(&args.dir).map_err(|errors| super::lines(&errors))?;
        let bytes = pack(&bundle, fixtures.as_ref(), !args.no_tests).map_err(|e| e.to_string())?;
        crate::cli::write_new(&args.out, &bytes)
    });
    match made {
        Ok(()) => {
            say(format!("wrote {}", args.out.display()));
            Exit::Ok
        }
        Err(why) => failed(&why),
    }
}

/// Writes the directory.
pub fn unpack_into(args: &Unpack) -> Exit {
    let meta = args.name.as_deref().zip(args.version.as_deref()).map(|(name, version)| {
        Json::object([("name", Json::from(name)), ("version", Json::from(version))])
    });
    let read = std::fs::read(&args.file).map_err(|e| format!("`{}`: {e}", args.file.display()));
    let done = read.and_then(|bytes| unpack(&bytes, meta).map_err(|e| e.to_string()));
    let done = done.and_then(|unpacked| {
        write_all(&args.out, &unpacked.files)?;
        Ok(unpacked.own_library)
    });
    match done {
        Ok(own) => {
            if !own {
                note(
                    "note: the archive was made with another composition library; this build's is used",
                );
            }
            say(format!("wrote {}", args.out.display()));
            Exit::Ok
        }
        Err(why) => failed(&why),
    }
}

fn failed(why: &str) -> Exit {
    fail(Exit::Invalid, why)
}

/// Writes files into a directory that is empty or not there yet.
pub fn write_all(dir: &Path, files: &BTreeMap<String, Vec<u8>>) -> Result<(), String> {
    let failed = |e: std::io::Error| format!("`{}`: {e}", dir.display());
    if std::fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_some()) {
        return Err(format!("`{}` is not empty", dir.display()));
    }
    for (name, bytes) in files {
        let path = dir.join(name);
        std::fs::create_dir_all(path.parent().unwrap_or(dir)).map_err(failed)?;
        crate::cli::write_new(&path, bytes)?;
    }
    Ok(())
}
