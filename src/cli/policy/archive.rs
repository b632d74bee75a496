//! `wicketgate policy build` and `policy unpack`: the form that stock OPA reads.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::meta;
use crate::cli::error::Occupied;
use crate::cli::{BundleError, Exit, Failure, FileError, ended, note, say, write_new};
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
    ended(built(args))
}

fn built(args: &Build) -> Result<Exit, Failure> {
    let invalid = |errors| Failure::invalid(BundleError::at(&args.dir)(errors));
    let bundle = Bundle::load(&args.dir).map_err(invalid)?;
    let fixtures = testing::fixtures(&args.dir).map_err(invalid)?;
    let bytes = pack(&bundle, fixtures.as_ref(), !args.no_tests).map_err(Failure::invalid)?;
    write_new(&args.out, &bytes).map_err(Failure::invalid)?;
    say(format!("wrote {}", args.out.display()));
    Ok(Exit::Ok)
}

/// Writes the directory.
pub fn unpack_into(args: &Unpack) -> Exit {
    ended(unpacked(args))
}

fn unpacked(args: &Unpack) -> Result<Exit, Failure> {
    let meta = args
        .name
        .as_deref()
        .zip(args.version.as_deref())
        .map(|(name, version)| meta(name, version));
    let bytes = std::fs::read(&args.file).map_err(FileError::at(&args.file));
    let unpacked = unpack(&bytes.map_err(Failure::invalid)?, meta).map_err(Failure::invalid)?;
    write_all(&args.out, &unpacked.files)?;
    if !unpacked.own_library {
        note("note: the archive was made with another composition library; this build's is used");
    }
    say(format!("wrote {}", args.out.display()));
    Ok(Exit::Ok)
}

/// Whether the directory is empty or does not exist yet.
pub fn free(dir: &Path) -> Result<(), Occupied> {
    let taken = std::fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_some());
    if taken { Err(Occupied::Directory(dir.to_owned())) } else { Ok(()) }
}

/// Writes files into a directory that is empty or does not exist yet.
pub fn write_all(dir: &Path, files: &BTreeMap<String, Vec<u8>>) -> Result<(), Failure> {
    free(dir).map_err(Failure::invalid)?;
    for (name, bytes) in files {
        let path = dir.join(name);
        let folder = path.parent().unwrap_or(dir);
        std::fs::create_dir_all(folder).map_err(FileError::at(dir)).map_err(Failure::invalid)?;
        write_new(&path, bytes).map_err(Failure::invalid)?;
    }
    Ok(())
}
