//! A bundle on its way to the gates: its files with the signature, as one JSON object.
//!
//! `{"files": {"agent/main.rego": "<base64>", "bundle.sig.json": "<base64>", …}}`. The transport
//! adds no trust: a gate writes a carried bundle to a directory and loads it as any other.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::bundle::{Bundle, Unread};
use super::fault::{LoadError, list};
use super::layout::{self, SIGNATURE};
use crate::domain::digest::Digest;
use crate::domain::json::Json;

/// Bytes of all files of a carried bundle: the most that one order on the list holds.
pub const BYTES_MAX: usize = 512 * 1024;

/// Why files do not make a bundle that can be carried.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Not an object.
    #[error("`files` is no object of file names and base64")]
    Object,
    /// The content of this file.
    #[error("file `{0}` is not base64")]
    Base64(String),
    /// The name of a file.
    #[error(transparent)]
    Name(#[from] LoadError),
    /// The bundle has this many bytes, more than [`BYTES_MAX`].
    #[error("{0} bytes: an amendment carries at most {BYTES_MAX}")]
    Size(usize),
    /// They are not a bundle.
    #[error("{}", list(.0))]
    Load(Vec<LoadError>),
}

/// The files of one bundle, signature included.
#[derive(Clone, PartialEq, Eq)]
pub struct BundleFiles {
    files: BTreeMap<String, Vec<u8>>,
    signature: Option<Vec<u8>>,
}

impl std::fmt::Debug for BundleFiles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Carried({} files)", self.files.len())
    }
}

impl BundleFiles {
    /// Takes up a directory.
    ///
    /// # Errors
    /// What does not belong in a bundle.
    pub fn read(dir: &Path) -> Result<Self, Vec<LoadError>> {
        let found = layout::read(dir)?;
        Ok(Self { files: found.files, signature: found.signature })
    }

    /// Reads the JSON form.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn parse(json: &Json) -> Result<Self, Error> {
        let files = json.as_object().ok_or(Error::Object)?;
        let mut carried = Self { files: BTreeMap::new(), signature: None };
        for (name, text) in files {
            let bytes = text.as_str().and_then(|text| STANDARD.decode(text).ok());
            let bytes = bytes.ok_or_else(|| Error::Base64(name.clone()))?;
            if name == SIGNATURE {
                carried.signature = Some(bytes);
                continue;
            }
            layout::check_name(name)?;
            carried.files.insert(name.clone(), bytes);
        }
        carried.bounded()
    }

    /// The JSON form.
    pub fn to_json(&self) -> Json {
        Json::object(self.all().map(|(name, bytes)| (name, Json::from(STANDARD.encode(bytes)))))
    }

    fn all(&self) -> impl Iterator<Item = (&str, &Vec<u8>)> {
        let signature = self.signature.iter().map(|bytes| (SIGNATURE, bytes));
        self.files.iter().map(|(name, bytes)| (name.as_str(), bytes)).chain(signature)
    }

    /// The same, if it is small enough to be carried.
    ///
    /// # Errors
    /// It is not.
    pub fn bounded(self) -> Result<Self, Error> {
        let bytes: usize = self.all().map(|(_, bytes)| bytes.len()).sum();
        if bytes <= BYTES_MAX {
            return Ok(self);
        }
        Err(Error::Size(bytes))
    }

    /// Digest and version of the bundle these files are, with the composition library of this build.
    ///
    /// # Errors
    /// These files are not a bundle.
    pub fn described(&self) -> Result<(Digest, String), Error> {
        let unread = Unread::of_layers(self.files.clone(), self.signature.clone());
        let unread = unread.map_err(Error::Load)?;
        Ok((unread.digest(), unread.version().to_string()))
    }

    /// The bundle these files are, with the composition library of this build.
    ///
    /// # Errors
    /// These files are not a bundle.
    pub fn bundle(&self) -> Result<Bundle, Error> {
        let unread = Unread::of_layers(self.files.clone(), self.signature.clone());
        unread.and_then(Unread::check).map_err(Error::Load)
    }

    /// `bundle.sig.json`, if there.
    pub fn signature(&self) -> Option<&[u8]> {
        self.signature.as_deref()
    }

    /// Writes the files below a new directory; a reader never sees only half of them there.
    ///
    /// # Errors
    /// The file system's error.
    pub fn write(&self, dir: &Path) -> std::io::Result<()> {
        use std::os::unix::fs::DirBuilderExt as _;
        let mut aside = dir.as_os_str().to_owned();
        aside.push(".new");
        let aside = PathBuf::from(aside);
        match std::fs::remove_dir_all(&aside) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(e),
            Ok(()) | Err(_) => {}
        }
        let make = |dir: &Path| std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir);
        make(&aside)?;
        for (name, bytes) in self.all() {
            let path = aside.join(name);
            path.parent().map_or(Ok(()), make)?;
            let file = std::fs::File::create(&path)?;
            std::io::Write::write_all(&mut &file, bytes)?;
            file.sync_all()?;
        }
        if dir.exists() {
            std::fs::remove_dir_all(dir)?;
        }
        std::fs::rename(&aside, dir)?;
        // A relative name of one part is in the working directory, whose name must not be empty
        // here.
        let parent = dir.parent().filter(|parent| !parent.as_os_str().is_empty());
        std::fs::File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn carried(files: &[(&str, &str)]) -> Result<BundleFiles, Error> {
        let files = files.iter().map(|(n, t)| (*n, Json::from(STANDARD.encode(t))));
        BundleFiles::parse(&Json::object(files))
    }

    #[test]
    fn what_is_carried_arrives_as_it_was_and_leads_out_of_no_directory() {
        let meta = r#"{"name":"x","version":"1.2.3"}"#;
        let rule = "package wicketgate.agent\nimport rego.v1\nallow if true\n";
        let bundle =
            carried(&[("bundle.json", meta), ("agent/main.rego", rule), (SIGNATURE, "{}")]);
        let bundle = bundle.unwrap();
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("b");
        bundle.write(&dir).unwrap();
        bundle.write(&dir).unwrap();
        assert_eq!(BundleFiles::read(&dir).unwrap(), bundle);
        assert_eq!(BundleFiles::parse(&bundle.to_json()).unwrap(), bundle);
        let (digest, version) = bundle.described().unwrap();
        assert_eq!((digest, version.as_str()), (Unread::read(&dir).unwrap().digest(), "1.2.3"));
        for name in ["../x.rego", "agent/../../x.rego", "/etc/x.rego", "agent/.x.rego", "x"] {
            assert!(carried(&[("bundle.json", meta), (name, "")]).is_err(), "{name}");
        }
        let large = "x".repeat(BYTES_MAX);
        assert!(carried(&[("bundle.json", meta), ("data/x.json", &large)]).is_err());
    }
}
