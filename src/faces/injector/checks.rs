//! What a pod with a gate may not have: ways around the gate, or to what is the gate's alone.

use std::collections::BTreeSet;

use serde_json::Value;

use super::merge::{Refusals, has_token};
use super::profile::{Profile, items, name_of, user};
use super::same::same;

/// Members of a pod that give it a namespace of the node, or one namespace of processes.
const SHARED: [&str; 4] = ["hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace"];

/// A pod has the members that the merge reads, in the form that it expects.
pub(super) fn shape(pod: &Value, refusals: &mut Refusals) {
    for kind in ["labels", "annotations"] {
        let texts = pod.pointer(&format!("/metadata/{kind}")).unwrap_or(&Value::Null);
        let texts_alone = texts.as_object().is_some_and(|all| all.values().all(Value::is_string));
        if !texts.is_null() && !texts_alone {
            refusals.add(format_args!("metadata.{kind}"), "not an object of strings");
        }
    }
    for part in ["metadata", "spec"] {
        if !pod.get(part).is_some_and(Value::is_object) {
            return refusals.add(part, "missing, or not an object");
        }
    }
    for list in
        ["initContainers", "containers", "ephemeralContainers", "volumes", "imagePullSecrets"]
    {
        let at = format!("/spec/{list}");
        let value = pod.pointer(&at).unwrap_or(&Value::Null);
        // The name of a secret for images may be empty.
        let named = |one: &Value| {
            one.is_object() && (list == "imagePullSecrets" || !name_of(one).is_empty())
        };
        let whole = value.as_array().is_some_and(|all| all.iter().all(named));
        if !whole && (!value.is_null() || list == "containers") {
            refusals.add(format_args!("spec.{list}"), "not a list of objects with names");
        }
    }
}

/// One container that is not the gate's, and where it stands.
struct Guest<'p> {
    at: String,
    container: &'p Value,
    is_agent: bool,
}

/// Everything that a pod with this gate may not have.
pub(super) fn forbidden(
    pod: &Value,
    profile: &Profile,
    agents: &BTreeSet<String>,
    refusals: &mut Refusals,
) {
    let Some(spec) = pod.get("spec") else { return };
    for member in SHARED {
        if spec.get(member).and_then(Value::as_bool) == Some(true) {
            refusals.add(
                format_args!("spec.{member}"),
                "the agent would reach the gate through it; remove it",
            );
        }
    }
    if is_host_process(spec.get("securityContext")) {
        let at = "spec.securityContext.windowsOptions.hostProcess";
        refusals.add(at, "the agent would be a process of the node; remove it");
    }
    let secrets = GateSecrets::of(profile);
    for (index, volume) in items(spec, "volumes").iter().enumerate() {
        if !profile.has_volume(name_of(volume)) {
            foreign_volume(&format!("spec.volumes[{index}]"), volume, &secrets, refusals);
        }
    }
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        for (index, container) in items(spec, list).iter().enumerate() {
            let (at, name) = (format!("spec.{list}[{index}]"), name_of(container));
            if profile.is_ours(name) {
                if list != "initContainers" {
                    let why = format!("`{name}` is the name of a container of the gate; rename it");
                    refusals.add(format_args!("{at}.name"), why);
                }
                continue;
            }
            let guest = Guest { at, container, is_agent: agents.contains(name) };
            guest.rights(profile, refusals);
            guest.mounts(profile, refusals);
            guest.variables(&secrets, refusals);
        }
    }
}

fn is_host_process(context: Option<&Value>) -> bool {
    let on = context.and_then(|context| context.pointer("/windowsOptions/hostProcess"));
    on.and_then(Value::as_bool) == Some(true)
}

/// A volume beside those of the gate.
fn foreign_volume(at: &str, volume: &Value, secrets: &GateSecrets<'_>, refusals: &mut Refusals) {
    let name = name_of(volume);
    if has_token(volume) {
        let why = format!(
            "`{name}` has a token of the service account, with which the agent could act beside the gate; remove it"
        );
        refusals.add(format_args!("{at}.projected"), why);
    }
    if volume.get("hostPath").is_some_and(|path| !path.is_null()) {
        let why = format!(
            "`{name}` is a directory of the node, through which the agent could reach the gate; remove it"
        );
        refusals.add(format_args!("{at}.hostPath"), why);
    }
    if volume_secrets(volume).any(|secret| secrets.secrets.contains(secret)) {
        refusals
            .add(at, format_args!("`{name}` has a Secret of the gate; give the agent another one"));
    }
    if claim(volume).is_some_and(|claim| secrets.claims.contains(claim)) {
        refusals
            .add(at, format_args!("`{name}` is a claim of the gate; give the agent another one"));
    }
}

/// What the gate alone may read: names of Secrets and of claims.
struct GateSecrets<'p> {
    secrets: BTreeSet<&'p str>,
    claims: BTreeSet<&'p str>,
}

impl<'p> GateSecrets<'p> {
    fn of(profile: &'p Profile) -> Self {
        let (volumes, containers) = (&profile.pod.volumes, &profile.pod.init_containers);
        let of_agent = |one: &&Value| {
            profile.agent.volume_mounts.iter().any(|mount| name_of(mount) == name_of(one))
        };
        let own = || volumes.iter().filter(|one| !of_agent(one));
        let secrets =
            own().flat_map(volume_secrets).chain(containers.iter().flat_map(variable_secrets));
        Self { secrets: secrets.collect(), claims: own().filter_map(claim).collect() }
    }
}

fn claim(volume: &Value) -> Option<&str> {
    volume.pointer("/persistentVolumeClaim/claimName")?.as_str()
}

/// The Secrets of a volume.
fn volume_secrets(volume: &Value) -> impl Iterator<Item = &str> {
    let projected = volume.get("projected");
    let sources = projected.map(|projected| items(projected, "sources")).unwrap_or_default();
    let projected = sources.iter().filter_map(|source| source.pointer("/secret/name"));
    volume.pointer("/secret/secretName").into_iter().chain(projected).filter_map(Value::as_str)
}

/// The Secrets in the variables of a container.
fn variable_secrets(container: &Value) -> impl Iterator<Item = &str> {
    let env = items(container, "env")
        .iter()
        .filter_map(|one| one.pointer("/valueFrom/secretKeyRef/name"));
    let from = items(container, "envFrom").iter().filter_map(|one| one.pointer("/secretRef/name"));
    env.chain(from).filter_map(Value::as_str)
}

impl Guest<'_> {
    /// It runs as a user of its own, and can become no other.
    fn rights(&self, profile: &Profile, refusals: &mut Refusals) {
        let (at, name) = (format!("{}.securityContext", self.at), name_of(self.container));
        let context = self.container.get("securityContext");
        let of = |member: &str| context.and_then(|context| context.get(member));
        if of("privileged").and_then(Value::as_bool) == Some(true) {
            refusals.add(
                format_args!("{at}.privileged"),
                format_args!("`{name}` is privileged; remove it"),
            );
        }
        if of("capabilities").is_some_and(|capabilities| !items(capabilities, "add").is_empty()) {
            let why = format!("`{name}` adds capabilities; remove them");
            refusals.add(format_args!("{at}.capabilities.add"), why);
        }
        if of("allowPrivilegeEscalation").and_then(Value::as_bool) == Some(true) {
            let why = format!("`{name}` could become another user; set it to false");
            refusals.add(format_args!("{at}.allowPrivilegeEscalation"), why);
        }
        if of("procMount").and_then(Value::as_str).is_some_and(|mount| mount != "Default") {
            refusals.add(
                format_args!("{at}.procMount"),
                format_args!("`{name}` sees more of the node; remove it"),
            );
        }
        if is_host_process(context) {
            let why = format!("`{name}` would be a process of the node; remove it");
            refusals.add(format_args!("{at}.windowsOptions.hostProcess"), why);
        }
        let wrong = match user(context) {
            None => "names no user; set it to a number that is neither root nor the gate's",
            Some(0) => "is root; set it to another number",
            Some(user) if profile.is_gate_user(user) => {
                "is the user of the gate; set it to another number"
            }
            Some(_) => return,
        };
        refusals.add(format_args!("{at}.runAsUser"), format_args!("`{name}` {wrong}"));
    }

    /// It has no volume of the gate, but for what an agent gets.
    fn mounts(&self, profile: &Profile, refusals: &mut Refusals) {
        let given = |mount: &Value| {
            self.is_agent && profile.agent.volume_mounts.iter().any(|ours| same(ours, mount))
        };
        for list in ["volumeMounts", "volumeDevices"] {
            for (index, mount) in items(self.container, list).iter().enumerate() {
                if profile.has_volume(name_of(mount)) && !given(mount) {
                    let (name, volume) = (name_of(self.container), name_of(mount));
                    let why = format!(
                        "`{name}` may not mount `{volume}`, a volume of the gate; remove the mount"
                    );
                    refusals.add(format_args!("{}.{list}[{index}]", self.at), why);
                }
            }
        }
    }

    /// It has no Secret of the gate in a variable.
    fn variables(&self, secrets: &GateSecrets<'_>, refusals: &mut Refusals) {
        if variable_secrets(self.container).any(|secret| secrets.secrets.contains(secret)) {
            let why = format!(
                "`{}` has a Secret of the gate in a variable; give it another one",
                name_of(self.container)
            );
            refusals.add(format_args!("{}.env", self.at), why);
        }
    }
}
