//! Profiles: what a pod gets. One file each, `<name>.yaml`, in one directory.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::GATE;
use super::merge::has_token;
use super::review::{WebhookPath, answer};
use crate::crypto::files::FileMarks;
use crate::domain::canonical;
use crate::domain::digest::Digest;
use crate::domain::json::Json;
use crate::record::yaml::{self, Document};

/// The most profiles of one directory.
const PROFILES_MAX: usize = 256;

/// What one kind of pod gets.
#[derive(Clone, Debug)]
pub(super) struct Profile {
    /// Its name.
    pub name: String,
    /// Labels of the pod.
    pub labels: BTreeMap<String, String>,
    /// The pod's part.
    pub pod: PodFragment,
    /// The part of each container of the agent.
    pub agent: AgentFragment,
    /// The volume whose `ConfigMap` the pod names.
    pub config: Option<String>,
    /// The digest of the file's canonical form.
    pub digest: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ProfileFile {
    profile: String,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    pod: PodFragment,
    agent: AgentFragment,
    config: Option<ConfigVolume>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ConfigVolume {
    volume: String,
}

/// What a profile says of a pod, in the words of Kubernetes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct PodFragment {
    pub init_containers: Vec<Value>,
    #[serde(default)]
    pub volumes: Vec<Value>,
    #[serde(default)]
    pub image_pull_secrets: Vec<Value>,
    #[serde(default)]
    pub security_context: Map<String, Value>,
    pub termination_grace_period_seconds: Option<u64>,
    automount_service_account_token: Option<bool>,
    enable_service_links: Option<bool>,
    share_process_namespace: Option<bool>,
    host_network: Option<bool>,
    #[serde(rename = "hostPID")]
    host_pid: Option<bool>,
    #[serde(rename = "hostIPC")]
    host_ipc: Option<bool>,
}

impl PodFragment {
    /// Every switch, by its name; a profile can only turn them off.
    fn switches(&self) -> [(&'static str, Option<bool>); 6] {
        [
            ("automountServiceAccountToken", self.automount_service_account_token),
            ("enableServiceLinks", self.enable_service_links),
            ("shareProcessNamespace", self.share_process_namespace),
            ("hostNetwork", self.host_network),
            ("hostPID", self.host_pid),
            ("hostIPC", self.host_ipc),
        ]
    }

    /// Whether environment variables for services are turned off.
    pub(super) fn hides_services(&self) -> bool {
        self.enable_service_links.is_some()
    }
}

/// What a profile says of a container of the agent, in the words of Kubernetes.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct AgentFragment {
    #[serde(default)]
    pub env: Vec<Value>,
    #[serde(default)]
    pub volume_mounts: Vec<Value>,
    #[serde(default)]
    pub security_context: Map<String, Value>,
}

/// The name of a container, a volume, a mount or a variable; empty if it has none.
pub(super) fn name_of(value: &Value) -> &str {
    value.get("name").and_then(Value::as_str).unwrap_or_default()
}

/// The items of a list, none if there is no list.
pub(super) fn items<'v>(of: &'v Value, list: &str) -> &'v [Value] {
    of.get(list).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The user that a security context names.
pub(super) fn user(context: Option<&Value>) -> Option<i64> {
    context?.get("runAsUser")?.as_i64()
}

impl Profile {
    /// The containers that run before the agent, the gate among them.
    pub(super) fn is_ours(&self, container: &str) -> bool {
        self.pod.init_containers.iter().any(|one| name_of(one) == container)
    }

    /// Whether this volume is one of the profile.
    pub(super) fn has_volume(&self, name: &str) -> bool {
        self.pod.volumes.iter().any(|one| name_of(one) == name)
    }

    /// Whether this is the user of the gate.
    pub(super) fn is_gate_user(&self, user: i64) -> bool {
        let mut users =
            self.pod.init_containers.iter().map(|one| self::user(one.get("securityContext")));
        users.any(|one| one == Some(user))
    }

    /// Reads one file; `stem` is its name without the ending.
    pub(super) fn read(bytes: &[u8], file: &str, stem: &str) -> Result<Self, Vec<yaml::Error>> {
        let read: ProfileFile = yaml::from_slice(bytes, file).map_err(|error| vec![error])?;
        let document = Document::parse(bytes, file).map_err(|error| vec![error])?;
        let canonical = canonical::bytes(&Json::from(document.value.clone()));
        let config = read.config.map(|config| config.volume);
        let ProfileFile { profile: name, labels, pod, agent, .. } = read;
        let digest = Digest::of(&[&canonical]).prefixed();
        let profile = Self { name, labels, pod, agent, config, digest };
        let wrong = Faults::of(&profile, stem);
        if wrong.is_empty() {
            return Ok(profile);
        }
        Err(wrong.into_iter().map(|(at, why)| document.error(&at, why)).collect())
    }
}

/// What is wrong with a profile: places as JSON pointers, and why.
#[derive(Default)]
struct Faults(Vec<(String, String)>);

impl Faults {
    fn of(profile: &Profile, stem: &str) -> Vec<(String, String)> {
        let mut faults = Self::default();
        let Profile { name, pod, agent, config, .. } = profile;
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.".contains(c);
        let bounds = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        let named = name.len() <= 63 && name.chars().all(plain);
        if !named || !name.starts_with(bounds) || !name.ends_with(bounds) {
            faults.add("/profile", "must match [a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?");
        } else if name != stem {
            faults.add("/profile", format!("the file is named `{stem}.yaml`; give both one name"));
        }
        for (switch, on) in pod.switches() {
            if on == Some(true) {
                faults
                    .add(&format!("/pod/{switch}"), "a pod with a gate has none; set it to false");
            }
        }
        let lists = [
            ("/pod/initContainers", &pod.init_containers),
            ("/pod/volumes", &pod.volumes),
            ("/pod/imagePullSecrets", &pod.image_pull_secrets),
            ("/agent/env", &agent.env),
        ];
        for (at, list) in lists {
            faults.names(at, list);
        }
        faults.containers(profile);
        faults.mounts(profile);
        faults.agent_user(profile);
        let volume = |name: &str| pod.volumes.iter().find(|one| name_of(one) == name);
        if let Some(config) = config
            && volume(config)
                .and_then(|one| one.get("configMap"))
                .is_none_or(|map| !map.is_object())
        {
            faults.add(
                "/config/volume",
                format!("`{config}` is no volume with a `configMap` in `pod.volumes`"),
            );
        }
        faults.0
    }

    fn add(&mut self, at: &str, why: impl Into<String>) {
        self.0.push((at.to_owned(), why.into()));
    }

    /// Each item has a name of its own.
    fn names(&mut self, at: &str, list: &[Value]) {
        let mut seen = BTreeSet::new();
        for (index, one) in list.iter().enumerate() {
            let name = name_of(one);
            if name.is_empty() {
                self.add(&format!("{at}/{index}"), "missing field `name`");
            } else if !seen.insert(name) {
                self.add(&format!("{at}/{index}/name"), format!("`{name}` is there twice"));
            }
        }
    }

    /// The gate is there, and is what a gate must be.
    fn containers(&mut self, profile: &Profile) {
        let all = &profile.pod.init_containers;
        let Some(gate) = all.iter().position(|one| name_of(one) == GATE) else {
            return self.add("/pod/initContainers", "no container is named `gate`");
        };
        for (index, one) in all.iter().enumerate() {
            let at = format!("/pod/initContainers/{index}");
            let stays = one.get("restartPolicy").and_then(Value::as_str) == Some("Always");
            if index == gate && !stays {
                self.add(&at, "a gate stays beside the agent; set `restartPolicy: Always`");
            }
            if index < gate && stays {
                self.add(
                    &format!("{at}/restartPolicy"),
                    "nothing stays before the gate; put it after the gate",
                );
            }
            let image = one.get("image").and_then(Value::as_str).unwrap_or_default();
            if !is_pinned(image) {
                self.add(
                    &format!("{at}/image"),
                    format!("`{image}` is not pinned; append `@sha256:` and its digest"),
                );
            }
            if user(one.get("securityContext")).is_none_or(|user| user <= 0) {
                let why = "names no user, or root; set it to a number of the gate alone";
                self.add(&format!("{at}/securityContext/runAsUser"), why);
            }
        }
    }

    /// What is mounted is there, and the agent writes nothing that the gate has.
    fn mounts(&mut self, profile: &Profile) {
        let of_gate = |name: &str| {
            let mut all =
                profile.pod.init_containers.iter().flat_map(|one| items(one, "volumeMounts"));
            all.any(|mount| name_of(mount) == name)
        };
        for (index, one) in profile.pod.init_containers.iter().enumerate() {
            for (number, mount) in items(one, "volumeMounts").iter().enumerate() {
                self.declared(
                    &format!("/pod/initContainers/{index}/volumeMounts/{number}"),
                    mount,
                    profile,
                );
            }
        }
        for (index, mount) in profile.agent.volume_mounts.iter().enumerate() {
            let at = format!("/agent/volumeMounts/{index}");
            self.declared(&at, mount, profile);
            let writes = mount.get("readOnly").and_then(Value::as_bool) != Some(true);
            if writes && of_gate(name_of(mount)) {
                self.add(&at, "the gate has this volume too; set `readOnly: true`");
            }
            let volume = profile.pod.volumes.iter().find(|one| name_of(one) == name_of(mount));
            if volume.is_some_and(has_token) {
                self.add(&at, "the volume has a token of the service account; remove the mount");
            }
        }
    }

    fn declared(&mut self, at: &str, mount: &Value, profile: &Profile) {
        let name = name_of(mount);
        if !profile.has_volume(name) {
            self.add(&format!("{at}/name"), format!("`{name}` is no volume of `pod.volumes`"));
        }
        if mount.get("mountPath").and_then(Value::as_str).is_none_or(|path| !path.starts_with('/'))
        {
            self.add(&format!("{at}/mountPath"), "missing, or not an absolute path");
        }
    }

    fn agent_user(&mut self, profile: &Profile) {
        let context = &profile.agent.security_context;
        let Some(user) = context.get("runAsUser") else { return };
        if user.as_i64().is_none_or(|user| user <= 0 || profile.is_gate_user(user)) {
            self.add(
                "/agent/securityContext/runAsUser",
                "must be a number that is neither root nor the gate's",
            );
        }
    }
}

/// Whether an image is named by its digest.
fn is_pinned(image: &str) -> bool {
    let digest = |text: &str| text.strip_prefix("sha256:").and_then(Digest::parse).is_some();
    image.split_once('@').is_some_and(|(name, end)| !name.is_empty() && digest(end))
}

/// Profiles by name.
pub(super) type ProfileSet = BTreeMap<String, Profile>;

/// Why profiles cannot be used.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ProfileError {
    /// The directory or a file cannot be read.
    #[error("cannot read `{0}`: {1}; name a directory with one `<profile>.yaml` for each profile")]
    Unreadable(String, String),
    /// The directory has no profile.
    #[error("`{0}` has no `<profile>.yaml`; put at least one profile there")]
    Empty(String),
    /// The directory has too many.
    #[error("`{0}` has more than {PROFILES_MAX} profiles")]
    Many(String),
    /// What files say.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Written(Vec<yaml::Error>),
}

/// The directory of profiles, read again when it changes. It refuses unusable files, and the old profiles stay in force.
#[derive(Debug)]
pub struct ProfileDirectory {
    path: PathBuf,
    live: ArcSwap<ProfileSet>,
    looked: Mutex<(FileMarks, Option<ProfileError>)>,
}

impl ProfileDirectory {
    /// The answer to the bytes of a review, as the server gives it; none if they are no review.
    pub fn reviewed(&self, path: WebhookPath, review: &[u8]) -> Option<Value> {
        answer(path, review, &self.live()).body.ok()
    }

    /// Reads every profile of a directory.
    ///
    /// # Errors
    /// What is wrong with the directory, or everything that is wrong with its files.
    pub fn open(path: PathBuf) -> Result<Self, ProfileError> {
        // WHY: mark the files before reading them, so that a change in between counts.
        let marks = FileMarks::below(&path);
        let live = ArcSwap::from_pointee(read_all(&path)?);
        Ok(Self { path, live, looked: Mutex::new((marks, None)) })
    }

    /// Reads the directory again if it changed. `None`: nothing is new.
    pub(super) fn look(&self) -> Option<Result<(), ProfileError>> {
        let mut looked = self.looked.lock();
        if looked.1.is_none() && !looked.0.changed() {
            return None;
        }
        let marks = FileMarks::below(&self.path);
        let refused = read_all(&self.path).map(|read| self.live.store(Arc::new(read))).err();
        // Report a repeated refusal only once.
        let new = refused.is_none() || refused != looked.1;
        *looked = (marks, refused.clone());
        new.then(|| refused.map_or(Ok(()), Err))
    }

    /// The profiles in force.
    pub(super) fn live(&self) -> Arc<ProfileSet> {
        self.live.load_full()
    }

    /// Why the files as they are now were refused.
    pub(super) fn refused(&self) -> Option<ProfileError> {
        self.looked.lock().1.clone()
    }
}

fn read_all(path: &Path) -> Result<ProfileSet, ProfileError> {
    let shown = path.display().to_string();
    let unreadable = |what: &Path, why: std::io::Error| {
        ProfileError::Unreadable(what.display().to_string(), why.to_string())
    };
    let entries = std::fs::read_dir(path).map_err(|why| unreadable(path, why))?;
    let mut files = Vec::new();
    for entry in entries {
        let file = entry.map_err(|why| unreadable(path, why))?.path();
        let stem = file.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default().to_owned();
        // Kubernetes puts its own links beside the files, with a dot in front.
        if file.extension().is_some_and(|ending| ending == "yaml") && !stem.starts_with('.') {
            files.push((stem, file));
        }
        if files.len() > PROFILES_MAX {
            return Err(ProfileError::Many(shown));
        }
    }
    if files.is_empty() {
        return Err(ProfileError::Empty(shown));
    }
    let (mut read, mut wrong) = (ProfileSet::new(), Vec::new());
    for (stem, file) in files {
        let bytes = std::fs::read(&file).map_err(|why| unreadable(&file, why))?;
        match Profile::read(&bytes, &file.display().to_string(), &stem) {
            Ok(profile) => drop(read.insert(stem, profile)),
            Err(errors) => wrong.extend(errors),
        }
    }
    wrong.sort();
    if wrong.is_empty() { Ok(read) } else { Err(ProfileError::Written(wrong)) }
}
