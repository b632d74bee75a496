//! One signed archive in place of a directory: the configuration and the files that it names.
//!
//! The archive is a DSSE envelope around the one archive form of its files. The command that starts the gate names the
//! trusted keys, so nothing of an archive is read before one of them has verified it. Its files are then laid out in a
//! directory of the gate's own, and a link names the newest: a new archive is in place as a whole, as with a ConfigMap.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use super::complete::complete;
use super::{Config, Document, Problem, overrides, schema};
use crate::crypto::dsse;
use crate::crypto::keys::{self, PublicKey};
use crate::crypto::signer::{self, Signer};
use crate::domain::digest::Digest;
use crate::domain::token;
use crate::policy::{fault, tar};

/// The DSSE payload type of an archive.
pub const PAYLOAD_TYPE: &str = "application/vnd.wicketgate.configuration.v1+tar";
/// Bytes of an archive at most: those of its files, what a tar adds to them, and base64.
const ARCHIVE_BYTES_MAX: u64 = 16 << 20;
/// Bytes of the files at most.
const FILES_BYTES_MAX: usize = 8 << 20;
/// Files of an archive at most.
const FILES_MAX: usize = 1_024;
/// The directory of the files, below the state directory.
const PLACE: &str = "configuration";
/// The link to the files in use.
const CURRENT: &str = "current";
/// What is not complete yet.
const PART: &str = "part";

/// Why there is no configuration from an archive, or no archive from a directory.
#[derive(Debug, thiserror::Error)]
pub enum SignedArchiveError {
    /// A file or directory cannot be read or written.
    #[error("`{}`: {source}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// The archive is too large to be read.
    #[error("`{}`: an archive has at most 16 MiB; pack fewer files", .0.display())]
    Large(PathBuf),
    /// Too many files, or too many bytes.
    #[error(
        "an archive holds at most 1024 files of 8 MiB together; leave some out with `--without`"
    )]
    Many,
    /// No key is named.
    #[error("no key is trusted for `{}`; name one with `--archive-key FILE`", .0.display())]
    NoKey(PathBuf),
    /// A key file.
    #[error(transparent)]
    Key(#[from] keys::Error),
    /// The signing key.
    #[error(transparent)]
    Signer(#[from] signer::Error),
    /// The key comes with the archive that it verifies.
    #[error(
        "`{}` comes from the archive that it would verify; name a key file of another origin with `--archive-key`",
        .0.display()
    )]
    OwnKey(PathBuf),
    /// No trusted key signed these bytes.
    #[error("`{}`: {source}; name the key of its signer with `--archive-key`, or pack it again", path.display())]
    Signature {
        /// The archive.
        path: PathBuf,
        /// What is wrong with the envelope.
        source: dsse::Error,
    },
    /// The signed bytes are not an archive.
    #[error("`{}`: {source}; pack it again with `wicketgate config pack`", path.display())]
    Form {
        /// The archive.
        path: PathBuf,
        /// What is wrong with it.
        source: fault::Error,
    },
    /// A name that no archive has.
    #[error(
        "`{0}`: a file of an archive has a name of at most 100 of [A-Za-z0-9_.-] and `/`, and no part of it begins with a dot; rename it"
    )]
    Name(String),
    /// Neither a file nor a directory.
    #[error(
        "`{0}` is neither a file nor a directory; replace it by a copy, or leave it out with `--without`"
    )]
    Special(String),
    /// The configuration is not in it.
    #[error("`{name}` is not in `{}`; `--config` names a file inside the archive", path.display())]
    Missing {
        /// The configuration.
        name: String,
        /// The archive or the directory.
        path: PathBuf,
    },
    /// What is to be left out is not there.
    #[error("`--without {0}` names nothing in the directory")]
    Without(String),
    /// The state directory depends on where the files of the archive lie.
    #[error(
        "state: `{0}` is relative, and the files of an archive lie below it; name an absolute directory"
    )]
    State(String),
    /// The archive names no state directory, nor does the environment.
    #[error("state: not set; set it in the configuration, or with WICKETGATE__STATE")]
    NoState,
    /// The configuration is not YAML.
    #[error(transparent)]
    Yaml(#[from] Problem),
}

impl SignedArchiveError {
    fn at(path: &Path) -> impl Fn(std::io::Error) -> Self + use<'_> {
        |source| Self::File { path: path.to_owned(), source }
    }
}

impl From<SignedArchiveError> for Problem {
    fn from(why: SignedArchiveError) -> Self {
        let SignedArchiveError::Yaml(problem) = why else {
            let (file, key, message) = (String::new(), String::new(), why.to_string());
            return Self { file, line: 0, column: 0, key, message };
        };
        problem
    }
}

/// Where an archive is, whose signature counts, and which of its files is the configuration.
#[derive(Clone, Debug)]
pub struct ArchiveSource {
    /// The archive.
    pub file: PathBuf,
    /// Public key files (PEM). The signature of one key is enough.
    pub keys: Vec<PathBuf>,
    /// The configuration, as a path inside the archive.
    pub config: PathBuf,
}

/// The archive that a configuration was read from.
#[derive(Clone, Debug)]
pub struct Archived {
    source: ArchiveSource,
    place: PathBuf,
    digest: Digest,
}

impl Archived {
    /// SHA-256 of the archive's file.
    #[must_use]
    pub const fn digest(&self) -> Digest {
        self.digest
    }

    /// The archive and its trusted keys.
    pub fn files(&self) -> impl Iterator<Item = PathBuf> + '_ {
        self.source.keys.iter().chain([&self.source.file]).cloned()
    }
}

/// An archive that a trusted key signed.
#[derive(Clone, Debug)]
pub struct SignedArchive {
    files: BTreeMap<String, Vec<u8>>,
    digest: Digest,
}

impl SignedArchive {
    /// Reads the archive; its files only after a trusted key has verified them.
    ///
    /// # Errors
    /// It is too large, no trusted key signed it, or it is not in the one form of an archive.
    pub fn open(source: &ArchiveSource) -> Result<Self, SignedArchiveError> {
        let path = &source.file;
        let file = std::fs::File::open(path).map_err(SignedArchiveError::at(path))?;
        let mut bytes = Vec::new();
        let within = ARCHIVE_BYTES_MAX.saturating_add(1);
        file.take(within).read_to_end(&mut bytes).map_err(SignedArchiveError::at(path))?;
        if u64::try_from(bytes.len()).is_ok_and(|len| len > ARCHIVE_BYTES_MAX) {
            return Err(SignedArchiveError::Large(path.clone()));
        }
        let mut trusted = Vec::new();
        for file in &source.keys {
            trusted.extend(PublicKey::load_all(file)?);
        }
        if trusted.is_empty() {
            return Err(SignedArchiveError::NoKey(path.clone()));
        }
        let opened = dsse::open(&bytes, PAYLOAD_TYPE, &trusted, 1);
        let opened = opened
            .map_err(|source| SignedArchiveError::Signature { path: path.clone(), source })?;
        let files = tar::read(&opened.payload)
            .map_err(|source| SignedArchiveError::Form { path: path.clone(), source })?;
        check(&files)?;
        Ok(Self { files, digest: Digest::of(&[&bytes]) })
    }

    /// Its files, by their paths.
    #[must_use]
    pub const fn files(&self) -> &BTreeMap<String, Vec<u8>> {
        &self.files
    }

    /// Lays the files out below this directory; the directory that has them now and after the next archive.
    fn put(&self, place: &Path) -> Result<PathBuf, SignedArchiveError> {
        let name = self.digest.hex();
        let (dir, link, part) = (place.join(&name), place.join(CURRENT), place.join(PART));
        make(place)?;
        // WHY each time: a crash may have left files without their bytes.
        if !self.lies_in(&dir) {
            for stale in [&part, &dir] {
                remove(stale)?;
            }
            make(&part)?;
            for (name, bytes) in &self.files {
                let path = part.join(name);
                path.parent().map_or(Ok(()), make)?;
                write(&path, bytes).map_err(SignedArchiveError::at(&path))?;
            }
            std::fs::rename(&part, &dir).map_err(SignedArchiveError::at(&dir))?;
        }
        let before = std::fs::read_link(&link).ok();
        if before.as_deref() != Some(Path::new(&name)) {
            remove(&part)?;
            std::os::unix::fs::symlink(&name, &part).map_err(SignedArchiveError::at(&part))?;
            std::fs::rename(&part, &link).map_err(SignedArchiveError::at(&link))?;
        }
        // The files before these stay: if the new configuration is refused, the old one is in force.
        let kept = [Some(PathBuf::from(name)), before, Some(CURRENT.into())];
        for entry in std::fs::read_dir(place).map_err(SignedArchiveError::at(place))?.flatten() {
            if !kept.contains(&Some(entry.file_name().into())) {
                remove(&entry.path())?;
            }
        }
        Ok(link)
    }

    /// Whether this directory has exactly these files.
    fn lies_in(&self, dir: &Path) -> bool {
        let found = walk(dir).unwrap_or_default();
        found.keys().eq(self.files.keys())
            && self.files.iter().all(|(name, bytes)| {
                std::fs::read(dir.join(name)).is_ok_and(|found| found == *bytes)
            })
    }
}

fn make(dir: &Path) -> Result<(), SignedArchiveError> {
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir);
    made.map_err(SignedArchiveError::at(dir))
}

fn write(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    use std::io::Write as _;
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true).mode(0o600).open(path)?.write_all(bytes)
}

/// Removes whatever is there.
fn remove(path: &Path) -> Result<(), SignedArchiveError> {
    let Ok(facts) = std::fs::symlink_metadata(path) else { return Ok(()) };
    let removed = match facts.is_dir() {
        true => std::fs::remove_dir_all(path),
        false => std::fs::remove_file(path),
    };
    removed.map_err(SignedArchiveError::at(path))
}

/// Whether these may be the files of an archive.
fn check(files: &BTreeMap<String, Vec<u8>>) -> Result<(), SignedArchiveError> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"_.-/".contains(&b);
    let wrong = files.keys().find(|name| {
        let hidden = name.split('/').any(|part| part.is_empty() || part.starts_with('.'));
        hidden || name.len() > tar::NAME_BYTES_MAX || !name.bytes().all(plain)
    });
    let bytes = files.values().fold(0_usize, |sum, bytes| sum.saturating_add(bytes.len()));
    match wrong {
        Some(name) => Err(SignedArchiveError::Name(name.clone())),
        None if files.len() > FILES_MAX || bytes > FILES_BYTES_MAX => Err(SignedArchiveError::Many),
        None => Ok(()),
    }
}

/// What a directory has below it that is no directory, and whether each is a file.
fn walk(dir: &Path) -> Result<BTreeMap<String, bool>, SignedArchiveError> {
    let (mut found, mut open) = (BTreeMap::new(), vec![String::new()]);
    while let Some(prefix) = open.pop() {
        let at = dir.join(&prefix);
        for entry in std::fs::read_dir(&at).map_err(SignedArchiveError::at(&at))? {
            let entry = entry.map_err(SignedArchiveError::at(&at))?;
            let kind = entry.file_type().map_err(SignedArchiveError::at(&at))?;
            let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
            match kind.is_dir() {
                true => open.push(format!("{name}/")),
                false => drop(found.insert(name, kind.is_file())),
            }
        }
    }
    Ok(found)
}

/// A file that is no part of an archive, and why.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Omitted {
    /// Its path below the directory.
    pub name: String,
    /// What it is.
    pub why: &'static str,
}

/// What of a directory is for an archive.
#[derive(Debug)]
pub struct Gathered {
    /// Files, by their paths.
    pub files: BTreeMap<String, Vec<u8>>,
    /// Those that no archive has: secrets and hidden files.
    pub omitted: Vec<Omitted>,
}

/// The files of a directory for an archive, but for these. WHY files that others may not read are left out: a gate takes no
/// secret from another file, so no secret of its is in an archive, whatever it looks like. `config` is the configuration, which
/// names secrets and has none.
///
/// # Errors
/// A file that cannot be read, or that can be in no archive.
pub fn gather(
    dir: &Path,
    config: &str,
    without: &[String],
) -> Result<Gathered, SignedArchiveError> {
    let (mut files, mut omitted) = (BTreeMap::new(), Vec::new());
    let is_below = |name: &str, of: &str| {
        let of = of.trim_end_matches('/');
        name.strip_prefix(of).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let found = walk(dir)?;
    if let Some(none) = without.iter().find(|of| !found.keys().any(|name| is_below(name, of))) {
        return Err(SignedArchiveError::Without(none.clone()));
    }
    for (name, is_file) in found {
        if without.iter().any(|of| is_below(&name, of)) {
            continue;
        }
        if name.split('/').any(|part| part.starts_with('.')) {
            omitted.push(Omitted { name, why: "a hidden file" });
            continue;
        }
        if !is_file {
            return Err(SignedArchiveError::Special(name));
        }
        let path = dir.join(&name);
        let bytes = std::fs::read(&path).map_err(SignedArchiveError::at(&path))?;
        let mode = std::fs::metadata(&path).map_err(SignedArchiveError::at(&path))?.mode();
        let kept =
            (mode & 0o007 == 0 && name != config).then_some("a file that only some may read");
        match secret(&bytes).or(kept) {
            Some(why) => omitted.push(Omitted { name, why }),
            None => drop(files.insert(name, bytes)),
        }
        if files.len() > FILES_MAX {
            return Err(SignedArchiveError::Many);
        }
    }
    check(&files)?;
    Ok(Gathered { files, omitted })
}

/// What makes these bytes a secret: all who may read the archive could read them.
fn secret(bytes: &[u8]) -> Option<&'static str> {
    let text = String::from_utf8_lossy(bytes);
    match text.contains("PRIVATE KEY-----") {
        true => Some("a private key"),
        false => token::holds(&text).then_some("a token"),
    }
}

/// The signed archive of these files.
///
/// # Errors
/// The key cannot sign.
pub fn pack(
    files: &BTreeMap<String, Vec<u8>>,
    signer: &dyn Signer,
) -> Result<Vec<u8>, SignedArchiveError> {
    let written = tar::write(files);
    let written =
        written.map_err(|source| SignedArchiveError::Form { path: PathBuf::new(), source })?;
    Ok(dsse::sign_by(PAYLOAD_TYPE, &written, signer)?)
}

impl Config {
    /// Reads the configuration from a signed archive and lays its files out: below `place`, or below the state directory
    /// of the configuration.
    ///
    /// # Errors
    /// What is wrong with the archive, or else what [`Self::load`] says of the files in it.
    pub fn load_archive(
        source: &ArchiveSource,
        place: Option<&Path>,
        env: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, Vec<Problem>> {
        let laid = laid(source, place, env).map_err(|why| vec![Problem::from(why)]);
        let (archived, current) = laid?;
        let read = Self::load(&current.join(&source.config), env)?;
        Ok(Self { archived: Some(archived), ..read })
    }

    /// Reads it again, from where it was read.
    ///
    /// # Errors
    /// As [`Self::load`] and [`Self::load_archive`].
    pub fn again(&self, env: &dyn Fn(&str) -> Option<String>) -> Result<Self, Vec<Problem>> {
        match (&self.archived, &self.file) {
            (Some(Archived { source, place, .. }), _) => {
                Self::load_archive(source, Some(place), env)
            }
            (None, Some(file)) => Self::load(file, env),
            (None, None) => Ok(self.clone()),
        }
    }
}

/// The archive with its files laid out, and where they are.
fn laid(
    source: &ArchiveSource,
    place: Option<&Path>,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<(Archived, PathBuf), SignedArchiveError> {
    let archive = SignedArchive::open(source)?;
    let name = source.config.display().to_string();
    let Some(config) = archive.files.get(&name) else {
        return Err(SignedArchiveError::Missing { name, path: source.file.clone() });
    };
    let place = match place {
        Some(place) => place.to_owned(),
        None => state(config, &name, env)?.join(PLACE),
    };
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let own = source.keys.iter().find(|key| real(key).starts_with(real(&place)));
    if let Some(key) = own {
        return Err(SignedArchiveError::OwnKey(key.clone()));
    }
    let current = archive.put(&place)?;
    let absolute = |path: &PathBuf| std::path::absolute(path).unwrap_or_else(|_| path.clone());
    let source = ArchiveSource {
        file: absolute(&source.file),
        keys: source.keys.iter().map(absolute).collect(),
        config: source.config.clone(),
    };
    Ok((Archived { source, place, digest: archive.digest }, current))
}

/// The state directory of a configuration that is in no file yet.
fn state(
    config: &[u8],
    name: &str,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<PathBuf, SignedArchiveError> {
    let mut document = Document::parse(config, name)?;
    let schema = schema();
    overrides::apply(&mut document.value, &schema, env);
    complete(&mut document.value, &schema, env);
    let state = document.value.get("state").and_then(serde_json::Value::as_str);
    match state.ok_or(SignedArchiveError::NoState)? {
        state if Path::new(state).is_absolute() => Ok(state.into()),
        state => Err(SignedArchiveError::State(state.to_owned())),
    }
}
