//! A policy bundle: files of four layers and the composition library, one digest, one signature.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use regorus::unstable::{Module, Ref};
use regorus::{Engine, Value};

use super::fault::{Error, LoadError, read_engine_message};
use super::layout::{self, META, Meta, SIGNATURE};
use super::places::SpeakingRules;
use super::stock::{self, Moved};
use super::{purity, tar};
use crate::crypto::dsse;
use crate::crypto::keys::{PublicKey, SecretKey};
use crate::domain::canonical;
use crate::domain::decision::LayerDigest;
use crate::domain::digest::Digest;
use crate::domain::json::Json;
use crate::domain::time::Timestamp;

/// The DSSE payload type of a bundle's signature.
pub const PAYLOAD_TYPE: &str = "application/vnd.wicketgate.policy-bundle.v1+json";

/// The composition library, compiled in.
pub(super) const LIBRARY: (&str, &str) =
    ("lib/decision.rego", include_str!("../../policies/lib/decision.rego"));
const LAYERS: [&str; 5] = ["lib", "org", "team", "agent", "data"];

/// Files with a known digest whose rules are not parsed yet.
#[derive(Debug, Clone)]
pub struct Unread {
    meta: Meta,
    files: BTreeMap<String, Vec<u8>>,
    tar: Arc<[u8]>,
    digest: Digest,
    layers: Vec<LayerDigest>,
    signature: Option<Vec<u8>>,
}

/// A bundle whose every file was read and accepted for evaluation.
#[derive(Debug, Clone)]
pub struct Bundle {
    unread: Unread,
    pub(super) template: Engine,
    pub(super) moved: Moved,
    /// Its rules as their authors wrote them.
    modules: Vec<Ref<Module>>,
    pub(super) places: SpeakingRules,
    /// Layers that count approvers for themselves.
    pub(super) by_hand: Vec<&'static str>,
}

/// Who signed a bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedBy {
    /// Ids of the distinct trusted keys that signed, sorted.
    pub signers: Vec<String>,
}

impl Unread {
    /// Reads the files of a directory and `bundle.json`; looks into no rule.
    ///
    /// # Errors
    /// Everything that does not belong in a bundle.
    pub fn read(dir: &Path) -> Result<Self, Vec<LoadError>> {
        let found = layout::read(dir)?;
        Self::of_layers(found.files, found.signature)
    }

    /// Takes files that are in no directory; the library is added, no rule looked into.
    pub(super) fn of_layers(
        mut files: BTreeMap<String, Vec<u8>>,
        signature: Option<Vec<u8>>,
    ) -> Result<Self, Vec<LoadError>> {
        files.insert(LIBRARY.0.to_owned(), LIBRARY.1.as_bytes().to_vec());
        Self::of(files, signature)
    }

    /// What [`Bundle::digest`] will be.
    pub const fn digest(&self) -> Digest {
        self.digest
    }

    /// What [`Bundle::version`] will be.
    pub const fn version(&self) -> &semver::Version {
        &self.meta.version
    }

    fn of(
        files: BTreeMap<String, Vec<u8>>,
        signature: Option<Vec<u8>>,
    ) -> Result<Self, Vec<LoadError>> {
        let failed = |e: Error| vec![LoadError::file("policy.archive", ".", e.to_string())];
        layout::check_size(&files).map_err(|e| vec![e])?;
        let meta = layout::meta(&files).map_err(|e| vec![e])?;
        let tar: Arc<[u8]> = tar::write(&files).map_err(failed)?.into();
        let mut layers = Vec::new();
        for layer in LAYERS {
            let own = files.iter().filter(|(name, _)| name.split('/').next() == Some(layer));
            let own: BTreeMap<_, _> = own.map(|(k, v)| (k.clone(), v.clone())).collect();
            if !own.is_empty() {
                let digest = Digest::of(&[&tar::write(&own).map_err(failed)?]);
                layers.push(LayerDigest { layer: layer.to_owned(), digest });
            }
        }
        let digest = Digest::of(&[&tar]);
        Ok(Self { meta, files, tar, digest, layers, signature })
    }

    /// Checks `bundle.sig.json`: at least `threshold` of these keys signed exactly these bytes.
    ///
    /// # Errors
    /// Unsigned, too few trusted signatures, or a signature for other bytes.
    pub fn verify_signature(
        &self,
        trusted: &[PublicKey],
        threshold: usize,
    ) -> Result<SignedBy, Error> {
        let envelope = self.signature.as_deref().ok_or(Error::Unsigned)?;
        let verified = dsse::open(envelope, PAYLOAD_TYPE, trusted, threshold)?;
        if verified.payload == self.statement() {
            Ok(SignedBy { signers: verified.signers })
        } else {
            Err(Error::OtherBytes)
        }
    }

    /// Checks `not_before` and `not_after`, and that no layer observes for too long.
    ///
    /// # Errors
    /// Not yet or no longer valid, or `until` is too far away.
    pub fn check_validity(&self, now: Timestamp) -> Result<(), Error> {
        self.meta.enforcement.check(now)?;
        let Meta { not_before, not_after, .. } = &self.meta;
        if not_before.is_some_and(|from| now < from) || not_after.is_some_and(|until| now >= until)
        {
            let shown = |t: &Option<Timestamp>| t.map_or("always".to_owned(), |t| t.to_string());
            return Err(Error::Validity { from: shown(not_before), until: shown(not_after) });
        }
        Ok(())
    }

    /// Reads and checks every rule and data file.
    ///
    /// # Errors
    /// Everything that is wrong, with file, line and column.
    pub fn check(self) -> Result<Bundle, Vec<LoadError>> {
        let mut authored = Engine::new();
        let mut errors = self.add_rules(&mut authored);
        if !self.files.keys().any(|name| is_rule(name) && !name.starts_with("lib/")) {
            let why = "there is no policy in `org/`, `team/` or `agent/`";
            errors.push(LoadError::file("policy.empty", ".", why));
        }
        let modules = authored.get_modules().clone();
        let (mut template, moved) = stock::engine(&modules).unwrap_or_else(|found_errors| {
            errors.extend(found_errors);
            (Engine::new(), Moved::default())
        });
        match self.data() {
            Ok(data) => {
                if let Err(e) = template.add_data(data) {
                    errors.push(LoadError::file("policy.data", "data", e.to_string()));
                }
            }
            Err(found_errors) => errors.extend(found_errors),
        }
        let mut speaking_rules = SpeakingRules::default();
        let by_hand = purity::check(&modules).unwrap_or_else(|found_errors| {
            errors.extend(found_errors);
            Vec::new()
        });
        modules.iter().for_each(|module| speaking_rules.note(module));
        if errors.is_empty() {
            Ok(Bundle { unread: self, template, moved, modules, places: speaking_rules, by_hand })
        } else {
            errors.sort();
            Err(errors)
        }
    }

    /// Parses every `.rego` file; tests are only parsed.
    fn add_rules(&self, template: &mut Engine) -> Vec<LoadError> {
        let mut errors = Vec::new();
        let mut tests = Engine::new();
        for (name, bytes) in self.files.iter().filter(|(name, _)| name.ends_with(".rego")) {
            let Ok(text) = String::from_utf8(bytes.clone()) else {
                errors.push(LoadError::file("policy.syntax", name, "not UTF-8"));
                continue;
            };
            if let Some((line, column)) = layout::too_nested(&text) {
                let message = "more than 10 brackets within each other".to_owned();
                let (file, code) = (name.clone(), "policy.nesting");
                errors.push(LoadError { file, line, column, code, message });
                continue;
            }
            let engine = if is_rule(name) { &mut *template } else { &mut tests };
            if let Err(e) = engine.add_policy(name.clone(), text) {
                let (_, line, column, message) = read_engine_message(&e.to_string());
                let (file, code) = (name.clone(), "policy.syntax");
                errors.push(LoadError { file, line, column, code, message });
            }
        }
        errors
    }

    /// `data/a/b.json` as `data.a.b`, for the engine.
    fn data(&self) -> Result<Value, Vec<LoadError>> {
        Value::from_json_str(&canonical::text(&self.data_files()?))
            .map_err(|e| vec![LoadError::file("policy.data", "data", e.to_string())])
    }

    /// `data/a/b.json` as `data.a.b`.
    fn data_files(&self) -> Result<Json, Vec<LoadError>> {
        let mut errors = Vec::new();
        let mut root = Json::Object(BTreeMap::new());
        for (name, bytes) in &self.files {
            let Some(path) = name.strip_prefix("data/").and_then(|n| n.strip_suffix(".json"))
            else {
                continue;
            };
            let placed = layout::parse(name, bytes).and_then(|value| {
                let malformed = |why: &str| LoadError::file("policy.data", name, why);
                let parts: Vec<&str> = path.split('/').collect();
                if !parts.iter().all(|part| is_identifier(part)) {
                    return Err(malformed("the name of a data file is [A-Za-z_][A-Za-z0-9_]*"));
                }
                if parts.first() == Some(&"wicketgate") {
                    return Err(malformed(
                        "`data.wicketgate` belongs to rules; data would override them",
                    ));
                }
                place(&mut root, &parts, value)
                    .ok_or_else(|| malformed("another data file already has this path"))
            });
            errors.extend(placed.err());
        }
        if errors.is_empty() { Ok(root) } else { Err(errors) }
    }

    /// What the signers sign: canonical JSON of name, version, digest and layers.
    fn statement(&self) -> Vec<u8> {
        let layer = |layer: &LayerDigest| {
            Json::object([
                ("digest", Json::from(layer.digest.prefixed())),
                ("layer", Json::from(layer.layer.as_str())),
            ])
        };
        canonical::bytes(&Json::object([
            ("digest", Json::from(self.digest.prefixed())),
            ("layers", self.layers.iter().map(layer).collect::<Vec<_>>().into()),
            ("name", Json::from(self.meta.name.as_str())),
            ("version", Json::from(self.meta.version.to_string())),
        ]))
    }
}

impl Bundle {
    /// Reads and checks a directory.
    ///
    /// # Errors
    /// Everything that is wrong, with file, line and column.
    pub fn load(dir: &Path) -> Result<Self, Vec<LoadError>> {
        Unread::read(dir)?.check()
    }

    /// Reads files that are in no directory yet; the library is added.
    ///
    /// # Errors
    /// Everything that is wrong, with file, line and column.
    pub fn of_files(mut files: BTreeMap<String, Vec<u8>>) -> Result<Self, Vec<LoadError>> {
        let errors: Vec<_> =
            files.keys().filter_map(|name| layout::check_name(name).err()).collect();
        if !errors.is_empty() {
            return Err(errors);
        }
        files.insert(LIBRARY.0.to_owned(), LIBRARY.1.as_bytes().to_vec());
        Unread::of(files, None)?.check()
    }

    /// Reads the archive from evidence, with the library it was made with.
    ///
    /// # Errors
    /// Not byte for byte the deterministic archive, or not a valid bundle.
    pub fn from_tar(archive: &[u8]) -> Result<Self, Error> {
        let files = tar::read(archive)?;
        let foreign = files.keys().filter(|name| name.as_str() != LIBRARY.0);
        let errors: Vec<_> = foreign.filter_map(|name| layout::check_name(name).err()).collect();
        if !errors.is_empty() {
            return Err(Error::Load(errors));
        }
        if !files.contains_key(LIBRARY.0) {
            return Err(Error::Archive(format!("no `{}`", LIBRARY.0)));
        }
        Unread::of(files, None).and_then(Unread::check).map_err(Error::Load)
    }

    /// Its rules, those of the library too, as their authors wrote them.
    pub(super) fn modules(&self) -> &[Ref<Module>] {
        &self.modules
    }

    /// Its files by name: the library and the tests too.
    pub(super) const fn files(&self) -> &BTreeMap<String, Vec<u8>> {
        &self.unread.files
    }

    /// Its data files as one object.
    pub(super) fn data_files(&self) -> Json {
        // It was read when the bundle was.
        self.unread.data_files().unwrap_or(Json::Null)
    }

    /// `bundle.json`, unchanged.
    pub(super) fn description(&self) -> Option<Json> {
        layout::parse(META, self.unread.files.get(META)?).ok()
    }

    /// Digests of the files that are carried and not evaluated.
    pub(super) fn tests(&self) -> BTreeMap<String, Digest> {
        let files = self.unread.files.iter().filter(|(name, _)| name.ends_with("_test.rego"));
        files.map(|(name, bytes)| (name.clone(), Digest::of(&[bytes]))).collect()
    }

    /// Its files by name, as they lie in a directory: without the library, without a signature.
    pub fn as_written(&self) -> impl Iterator<Item = (&str, &[u8])> {
        let files = self.unread.files.iter().filter(|(name, _)| name.as_str() != LIBRARY.0);
        files.map(|(name, bytes)| (name.as_str(), bytes.as_slice()))
    }

    /// The same bundle with this `bundle.sig.json`.
    #[must_use]
    pub fn with_signature(mut self, envelope: Vec<u8>) -> Self {
        self.unread.signature = Some(envelope);
        self
    }

    /// See [`Unread::verify_signature`].
    ///
    /// # Errors
    /// Unsigned, too few trusted signatures, or a signature for other bytes.
    pub fn verify_signature(
        &self,
        trusted: &[PublicKey],
        threshold: usize,
    ) -> Result<SignedBy, Error> {
        self.unread.verify_signature(trusted, threshold)
    }

    /// See [`Unread::check_validity`].
    ///
    /// # Errors
    /// Not yet or no longer valid.
    pub fn check_validity(&self, now: Timestamp) -> Result<(), Error> {
        self.unread.check_validity(now)
    }

    /// Whether the bundle is for this manifest (`metadata.name`).
    ///
    /// # Errors
    /// The bundle names its manifests, and not this one.
    pub fn check_manifest(&self, name: &str) -> Result<(), Error> {
        let manifests = &self.unread.meta.manifests;
        if manifests.is_empty() || manifests.iter().any(|m| m == name) {
            Ok(())
        } else {
            Err(Error::OtherManifest(name.to_owned()))
        }
    }

    /// Signs this bundle's name, version and digests: the bytes of `bundle.sig.json`.
    pub fn sign(&self, keys: &[&SecretKey]) -> Vec<u8> {
        dsse::sign(PAYLOAD_TYPE, &self.unread.statement(), keys)
    }

    /// Where the signature of a bundle in this directory is kept.
    pub fn signature_path(dir: &Path) -> std::path::PathBuf {
        dir.join(SIGNATURE)
    }

    /// Where the description of a bundle in this directory is kept.
    pub fn meta_path(dir: &Path) -> std::path::PathBuf {
        dir.join(META)
    }

    /// The contents of `bundle.json`.
    pub const fn meta(&self) -> &Meta {
        &self.unread.meta
    }

    /// `name`.
    pub fn name(&self) -> &str {
        &self.unread.meta.name
    }

    /// `version`.
    pub const fn version(&self) -> &semver::Version {
        &self.unread.meta.version
    }

    /// SHA-256 of [`Self::tar`].
    pub const fn digest(&self) -> Digest {
        self.unread.digest
    }

    /// SHA-256 of each layer's own archive: `lib`, `org`, `team`, `agent`, `data`, where not empty.
    pub fn layers(&self) -> &[LayerDigest] {
        &self.unread.layers
    }

    /// The deterministic archive for evidence, composition library included.
    pub fn tar(&self) -> &[u8] {
        &self.unread.tar
    }

    /// `bundle.sig.json`, if there.
    #[must_use]
    pub fn signature(&self) -> Option<&[u8]> {
        self.unread.signature.as_deref()
    }

    /// Whether the archive was made with the composition library of this build.
    #[must_use]
    pub fn has_own_library(&self) -> bool {
        self.unread.files.get(LIBRARY.0).is_some_and(|text| text == LIBRARY.1.as_bytes())
    }
}

/// The contents of an archive's `bundle.json`; its rules are not read.
///
/// # Errors
/// Not the deterministic archive, or no valid `bundle.json`.
pub fn meta_of_archive(archive: &[u8]) -> Result<Meta, Error> {
    layout::meta(&tar::read(archive)?).map_err(|e| Error::Load(vec![e]))
}

/// Whether a file of this name holds rules that are evaluated.
pub(super) fn is_rule(name: &str) -> bool {
    name.ends_with(".rego") && !name.ends_with("_test.rego")
}

/// Whether a text is a name in Rego: `[A-Za-z_][A-Za-z0-9_]*`.
pub(super) fn is_identifier(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        && !text.starts_with(|c: char| c.is_ascii_digit())
}

fn place(at: &mut Json, parts: &[&str], value: Json) -> Option<()> {
    let Json::Object(members) = at else { return None };
    match parts.split_first()? {
        (last, []) if members.contains_key(*last) => None,
        (last, []) => {
            members.insert((*last).to_owned(), value);
            Some(())
        }
        (first, rest) => {
            let next = members.entry((*first).to_owned());
            place(next.or_insert_with(|| Json::Object(BTreeMap::new())), rest, value)
        }
    }
}
