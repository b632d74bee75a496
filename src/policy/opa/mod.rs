//! A bundle in the form stock OPA reads (`bundle.tar.gz`), out and in, so that `opa test`, `opa eval` and
//! editors work on the same rules.
//!
//! ```text
//! .manifest      revision, roots, rego_version 1; `bundle.json` is its `metadata.wicketgate`
//! data.json      every data file at its path; fixtures of tests as `data.fixtures`
//! lib/ org/ …    the rules as they are, the composition library among them
//! ```
//!
//! This form is for tools, not for enforcement: the gate loads the directory, whose digest and
//! signature are over other bytes.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;

use super::bundle::{Bundle, LIBRARY, is_identifier};
use super::fault::{Error, LoadError};
use super::{ast, layout, tar, testing};
use crate::domain::canonical;
use crate::domain::json::Json;

mod gzip;

const MANIFEST: &str = ".manifest";
const DATA: &str = "data.json";
/// Our own member of the manifest's metadata.
const OURS: &str = "wicketgate";
const FILES_MAX: usize = 1024;

/// Files of a bundle directory by name, and the files that were left out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unpacked {
    /// `bundle.json`, rules, data files and fixtures.
    pub files: BTreeMap<String, Vec<u8>>,
    /// False if the archive was made with another composition library than this build's: decisions may
    /// differ.
    pub own_library: bool,
}

/// The archive of this bundle. `tests`: with its `*_test.rego` and these fixtures.
///
/// # Errors
/// A file does not fit the archive.
pub fn pack(bundle: &Bundle, fixtures: Option<&Json>, tests: bool) -> Result<Vec<u8>, Error> {
    let mut files = BTreeMap::new();
    for (name, bytes) in bundle.files().iter().filter(|(name, _)| name.ends_with(".rego")) {
        if tests || !name.ends_with("_test.rego") {
            files.insert(name.clone(), bytes.clone());
        }
    }
    let Json::Object(mut data) = bundle.data_files() else {
        return Err(Error::Archive("the data files".to_owned()));
    };
    if let Some(fixtures) = fixtures.filter(|_| tests)
        && data.insert(testing::FIXTURES.to_owned(), fixtures.clone()).is_some()
    {
        return Err(Error::Archive("`data/fixtures` and `tests/fixtures` are one place".into()));
    }
    let mut roots: BTreeSet<String> = data.keys().cloned().collect();
    roots.extend(packages(&files));
    let meta = bundle.files().get(layout::META).map(Vec::as_slice).unwrap_or_default();
    let meta = layout::parse(layout::META, meta).map_err(|e| Error::Load(vec![e]))?;
    let manifest = Json::object([
        ("metadata", Json::object([(OURS, meta)])),
        ("rego_version", Json::from(1_u64)),
        ("revision", Json::from(format!("{}@{}", bundle.name(), bundle.version()))),
        ("roots", roots.into_iter().map(Json::from).collect::<Vec<_>>().into()),
    ]);
    files.insert(MANIFEST.to_owned(), canonical::bytes(&manifest));
    files.insert(DATA.to_owned(), canonical::bytes(&Json::Object(data)));
    Ok(gzip::write(&tar::write(&files)?))
}

/// The first names of the packages of these files.
fn packages(files: &BTreeMap<String, Vec<u8>>) -> BTreeSet<String> {
    let mut engine = regorus::Engine::new();
    for (name, bytes) in files {
        // It was parsed when the bundle was loaded.
        let _ = engine.add_policy(name.clone(), String::from_utf8_lossy(bytes).into_owned());
    }
    let first = |module: &regorus::unstable::Module| ast::package(module).into_iter().next();
    engine.get_modules().iter().filter_map(|module| first(module)).collect()
}

/// The files of an archive of [`pack`], or of one that `opa build` made of the same files. `meta`:
/// the contents of `bundle.json`, for an archive whose manifest lacks them.
///
/// # Errors
/// Not such an archive, files that belong in no bundle, or no name and version.
pub fn unpack(archive: &[u8], meta: Option<Json>) -> Result<Unpacked, Error> {
    let archived = |why: &str| Error::Archive(why.to_owned());
    let found = entries(&gzip::read(archive).map_err(archived)?)?;
    let (mut files, mut own_library) = (BTreeMap::new(), true);
    let mut metadata = None;
    for (name, bytes) in found {
        match name.as_str() {
            MANIFEST => {
                let manifest = layout::parse(MANIFEST, &bytes).map_err(|e| Error::Load(vec![e]))?;
                metadata = manifest.get("metadata").and_then(|all| all.get(OURS)).cloned();
            }
            DATA => split(&bytes, &mut files)?,
            _ if name == LIBRARY.0 => own_library = bytes == LIBRARY.1.as_bytes(),
            _ if name.ends_with(".rego") => {
                layout::check_name(&name).map_err(|e| Error::Load(vec![e]))?;
                files.insert(name, bytes);
            }
            _ => return Err(Error::Archive(format!("`{name}` belongs in no bundle"))),
        }
    }
    let meta = meta.or(metadata).ok_or_else(|| {
        archived("the manifest does not say which bundle this is: give `--name` and `--version`")
    })?;
    files.insert(layout::META.to_owned(), canonical::bytes(&meta));
    let bundle = files.iter().filter(|(name, _)| !name.starts_with("tests/"));
    let bundle = bundle.map(|(name, bytes)| (name.clone(), bytes.clone())).collect();
    Bundle::of_files(bundle).map_err(Error::Load)?;
    Ok(Unpacked { files, own_library })
}

/// Every regular file of a tar, by name without a leading `/` or `./`.
fn entries(archive: &[u8]) -> Result<BTreeMap<String, Vec<u8>>, Error> {
    let error = |e: std::io::Error| Error::Archive(e.to_string());
    let mut files = BTreeMap::new();
    for entry in ::tar::Archive::new(archive).entries().map_err(error)? {
        let mut entry = entry.map_err(error)?;
        let kind = entry.header().entry_type();
        if kind.is_dir() {
            continue;
        }
        let name = String::from_utf8(entry.path_bytes().into_owned());
        let name = name.map_err(|_| Error::Archive("a name that is no text".into()))?;
        let name = name.trim_start_matches("./").trim_start_matches('/').to_owned();
        if !kind.is_file() {
            return Err(Error::Archive(format!("`{name}` is no regular file")));
        }
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).map_err(error)?;
        if files.insert(name.clone(), bytes).is_some() {
            return Err(Error::Archive(format!("`{name}` is there twice")));
        }
        if files.len() > FILES_MAX {
            return Err(Error::Archive(format!("more than {FILES_MAX} files")));
        }
    }
    Ok(files)
}

/// Each member of `data.json` becomes a file of its own.
fn split(bytes: &[u8], files: &mut BTreeMap<String, Vec<u8>>) -> Result<(), Error> {
    let malformed = |why: &str| Error::Load(vec![LoadError::file("policy.data", DATA, why)]);
    let data = layout::parse(DATA, bytes).map_err(|e| Error::Load(vec![e]))?;
    let Json::Object(members) = data else { return Err(malformed("not an object")) };
    for (name, value) in members {
        if !is_identifier(&name) {
            return Err(malformed("the name of a data file is [A-Za-z_][A-Za-z0-9_]*"));
        }
        if name == testing::FIXTURES {
            let Json::Object(fixtures) = value else {
                return Err(malformed("`fixtures` is no object"));
            };
            for (name, value) in fixtures.into_iter().filter(|(name, _)| is_identifier(name)) {
                let path = format!("tests/{}/{name}.json", testing::FIXTURES);
                files.insert(path, canonical::bytes(&value));
            }
        } else {
            files.insert(format!("data/{name}.json"), canonical::bytes(&value));
        }
    }
    Ok(())
}
