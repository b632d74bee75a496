//! Gives a pod what its profile says. Pure: the same pod and profile give the same pod, and a pod that has everything
//! is returned as it is.

use std::collections::BTreeSet;
use std::fmt::Display;

use serde_json::{Map, Value, json};

use super::profile::{Profile, items, name_of};
use super::same::same;
use super::{AGENTS_ANNOTATION, CONFIG_ANNOTATION, DIGEST_ANNOTATION, GATE, OURS, checks};

/// What begins the name of the volume that the API server itself adds for the token of the service account.
const TOKEN_VOLUME: &str = "kube-api-access-";

/// Members of a container's security context that it takes from the pod's if it has none.
const OF_POD: [&str; 6] = [
    "runAsUser",
    "runAsGroup",
    "runAsNonRoot",
    "seccompProfile",
    "seLinuxOptions",
    "appArmorProfile",
];

/// How long a pod may take to end if it says nothing.
const GRACE_SECONDS: u64 = 30;

/// Why a pod is refused: each line has the field, what is wrong there, and what to do.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Refusals(Vec<String>);

impl Refusals {
    pub(super) fn add(&mut self, at: impl Display, why: impl Display) {
        self.0.push(format!("{at}: {why}"));
    }

    /// All of them, if there is one.
    pub(super) fn all(self) -> Result<(), Vec<String>> {
        if self.0.is_empty() { Ok(()) } else { Err(self.0) }
    }
}

/// The pod with its gate.
///
/// # Errors
/// Everything for which the pod is refused.
pub(super) fn merged(pod: &Value, profile: &Profile) -> Result<Value, Vec<String>> {
    let mut refusals = Refusals::default();
    checks::shape(pod, &mut refusals);
    refusals.all()?;
    let mut merge = Merge { pod: pod.clone(), profile, refusals: Refusals::default() };
    let agents = merge.agents();
    merge.metadata();
    merge.strip_tokens();
    merge.volumes();
    merge.init_containers();
    for list in ["initContainers", "containers"] {
        merge.containers(list, &agents);
    }
    merge.pod_members();
    checks::forbidden(&merge.pod, profile, &agents, &mut merge.refusals);
    merge.refusals.all()?;
    Ok(merge.pod)
}

/// Why this change of a pod that runs is refused.
///
/// # Errors
/// Every member that may not change.
pub(super) fn unchanged(
    old: &Value,
    new: &Value,
    profile: Option<&Profile>,
) -> Result<(), Vec<String>> {
    let mut refusals = Refusals::default();
    for kind in ["labels", "annotations"] {
        let of = |pod: &Value| -> Map<String, Value> {
            let at = pod.pointer(&format!("/metadata/{kind}"));
            let all = at.and_then(Value::as_object).into_iter().flatten();
            let labels = profile.filter(|_| kind == "labels").map(|profile| &profile.labels);
            let ours = |name: &str| {
                name.starts_with(OURS) || labels.is_some_and(|of| of.contains_key(name))
            };
            all.filter(|(name, _)| ours(name))
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect()
        };
        let [old, new] = [old, new].map(of);
        let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
        for name in names.into_iter().filter(|name| old.get(*name) != new.get(*name)) {
            refusals.add(
                format_args!("metadata.{kind}[{name}]"),
                "it cannot change while the pod runs; change the template of the workload",
            );
        }
    }
    let gate = |pod: &Value| {
        let all =
            pod.get("spec").map(|spec| items(spec, "initContainers")).unwrap_or_default().iter();
        all.filter(|one| name_of(one) == GATE).cloned().collect::<Vec<_>>()
    };
    if gate(old) != gate(new) {
        refusals.add(
            "spec.initContainers",
            "the container `gate` cannot change while the pod runs; start a new pod",
        );
    }
    refusals.all()
}

/// The annotation of this name.
fn annotation<'p>(pod: &'p Value, name: &str) -> Option<&'p str> {
    pod.get("metadata")?.get("annotations")?.get(name)?.as_str()
}

struct Merge<'p> {
    pod: Value,
    profile: &'p Profile,
    refusals: Refusals,
}

impl Merge<'_> {
    fn spec(&self, member: &str) -> Option<&Value> {
        self.pod.get("spec")?.get(member).filter(|value| !value.is_null())
    }

    fn list(&self, list: &str) -> Vec<Value> {
        self.pod.get("spec").map(|spec| items(spec, list).to_vec()).unwrap_or_default()
    }

    fn set(&mut self, part: &str, member: &str, value: Value) {
        let part = self.pod.get_mut(part).and_then(Value::as_object_mut);
        part.map(|members| members.insert(member.to_owned(), value));
    }

    /// Puts a list back; an empty one stays away.
    fn put(&mut self, list: &str, value: Vec<Value>) {
        if !value.is_empty() || self.spec(list).is_some() {
            self.set("spec", list, Value::Array(value));
        }
    }

    /// The names of the agent's containers.
    fn agents(&mut self) -> BTreeSet<String> {
        let names = |list: Vec<Value>| list.iter().map(|one| name_of(one).to_owned()).collect();
        let containers: BTreeSet<String> = names(self.list("containers"));
        let Some(named) = annotation(&self.pod, AGENTS_ANNOTATION) else { return containers };
        let inits: BTreeSet<String> = names(self.list("initContainers"));
        let named: BTreeSet<String> = named.split(',').map(|name| name.trim().to_owned()).collect();
        for name in &named {
            let known = containers.contains(name) || inits.contains(name);
            if !known || self.profile.is_ours(name) {
                self.refusals.add(
                    format_args!("metadata.annotations[{AGENTS_ANNOTATION}]"),
                    format_args!("`{name}` is no container of the agent; name containers of the pod, with commas between them"),
                );
            }
        }
        named
    }

    /// Labels of the profile, and its digest.
    fn metadata(&mut self) {
        let of = |pod: &Value, kind: &str| {
            let all = pod.pointer(&format!("/metadata/{kind}")).and_then(Value::as_object);
            all.cloned().unwrap_or_default()
        };
        let mut labels = of(&self.pod, "labels");
        for (name, value) in &self.profile.labels {
            let there = labels.entry(name.clone()).or_insert_with(|| json!(value));
            if there != value {
                let fix = format!("the profile sets it to `{value}`; remove it");
                self.refusals.add(format_args!("metadata.labels[{name}]"), fix);
            }
        }
        let mut annotations = of(&self.pod, "annotations");
        annotations.insert(DIGEST_ANNOTATION.to_owned(), json!(self.profile.digest));
        self.set("metadata", "labels", Value::Object(labels));
        self.set("metadata", "annotations", Value::Object(annotations));
    }

    /// Removes the volume that the API server adds for the token of the service account, and its mounts. WHY here:
    /// `automountServiceAccountToken` comes too late for it, because it is mounted before webhooks are called.
    fn strip_tokens(&mut self) {
        let is_token = |one: &Value| name_of(one).starts_with(TOKEN_VOLUME) && has_token(one);
        let (tokens, kept): (Vec<_>, Vec<_>) = self.list("volumes").into_iter().partition(is_token);
        if tokens.is_empty() {
            return;
        }
        let stays = |mount: &Value| !tokens.iter().any(|one| name_of(one) == name_of(mount));
        self.put("volumes", kept);
        for list in ["initContainers", "containers"] {
            let mut containers = self.list(list);
            for container in containers.iter_mut().filter_map(Value::as_object_mut) {
                let Some(mounts) = container.get_mut("volumeMounts").and_then(Value::as_array_mut)
                else {
                    continue;
                };
                mounts.retain(stays);
                if mounts.is_empty() {
                    container.remove("volumeMounts");
                }
            }
            self.put(list, containers);
        }
    }

    /// The volumes of the profile as this pod gets them.
    fn own_volumes(&mut self) -> Vec<Value> {
        let at = format!("metadata.annotations[{CONFIG_ANNOTATION}]");
        let named = annotation(&self.pod, CONFIG_ANNOTATION).map(str::to_owned);
        let mut volumes = self.profile.pod.volumes.clone();
        let Some(config) = &self.profile.config else {
            if named.is_some() {
                let name = &self.profile.name;
                self.refusals.add(
                    at,
                    format_args!(
                        "the profile `{name}` takes no configuration; remove the annotation"
                    ),
                );
            }
            return volumes;
        };
        let map = volumes.iter_mut().find(|one| name_of(one) == config);
        let Some(map) = map.and_then(|one| one.get_mut("configMap")).and_then(Value::as_object_mut)
        else {
            return volumes;
        };
        match named {
            Some(named) if !is_object_name(&named) => {
                self.refusals.add(at, format_args!("`{named}` is no name of a ConfigMap"));
            }
            Some(named) => drop(map.insert("name".to_owned(), named.into())),
            None if map
                .get("name")
                .and_then(Value::as_str)
                .is_some_and(|name| !name.is_empty()) => {}
            None => self.refusals.add(at, "missing; name the ConfigMap of the gate"),
        }
        volumes
    }

    fn volumes(&mut self) {
        let mut all = self.list("volumes");
        for ours in self.own_volumes() {
            match all.iter().position(|one| name_of(one) == name_of(&ours)) {
                None => all.push(ours),
                Some(index) if all.get(index).is_some_and(|theirs| same(&ours, theirs)) => {}
                Some(index) => {
                    let name = name_of(&ours);
                    let why =
                        format!("`{name}` is a volume of the gate, and this is another; rename it");
                    self.refusals.add(format_args!("spec.volumes[{index}]"), why);
                }
            }
        }
        self.put("volumes", all);
    }

    /// Containers of the profile first, in its order: everything after them is governed.
    fn init_containers(&mut self) {
        let theirs = self.list("initContainers");
        let mut all = Vec::new();
        for ours in &self.profile.pod.init_containers {
            let name = name_of(ours);
            let Some(index) = theirs.iter().position(|one| name_of(one) == name) else {
                all.push(ours.clone());
                continue;
            };
            let Some(there) = theirs.get(index) else { continue };
            if !same(ours, there) {
                let profile = &self.profile.name;
                let why = format!(
                    "`{name}` is not the container of the profile `{profile}`; remove it, or rename it"
                );
                self.refusals.add(format_args!("spec.initContainers[{index}]"), why);
            }
            all.push(there.clone());
        }
        all.extend(theirs.into_iter().filter(|one| !self.profile.is_ours(name_of(one))));
        self.put("initContainers", all);
    }

    fn containers(&mut self, list: &str, agents: &BTreeSet<String>) {
        let of_pod =
            self.spec("securityContext").and_then(Value::as_object).cloned().unwrap_or_default();
        let mut all = self.list(list);
        for (index, container) in all.iter_mut().enumerate() {
            if list == "initContainers" && self.profile.is_ours(name_of(container)) {
                continue;
            }
            let at = format!("spec.{list}[{index}]");
            if agents.contains(name_of(container)) {
                self.env(&at, container);
                self.mounts(&at, container);
                fill(container, &self.profile.agent.security_context, &of_pod);
            }
            // What the admission rules demand of each container, in the words of the pod.
            let mut least = Map::new();
            least
                .extend(of_pod.get("runAsUser").map(|user| ("runAsUser".to_owned(), user.clone())));
            least.insert("allowPrivilegeEscalation".to_owned(), false.into());
            fill(container, &least, &of_pod);
        }
        self.put(list, all);
    }

    fn env(&mut self, at: &str, container: &mut Value) {
        let name = name_of(container).to_owned();
        let mut all = items(container, "env").to_vec();
        for ours in &self.profile.agent.env {
            let variable = name_of(ours);
            let mut there =
                all.iter().enumerate().filter(|(_, one)| name_of(one) == variable).peekable();
            if there.peek().is_none() {
                all.push(ours.clone());
                continue;
            }
            // A value may be a secret: it is not shown.
            for (index, _) in there.filter(|(_, theirs)| !same(ours, theirs)) {
                let why = format!(
                    "`{name}` has another value of `{variable}` than the profile; remove it"
                );
                self.refusals.add(format_args!("{at}.env[{index}]"), why);
            }
        }
        put_list(container, "env", all);
    }

    fn mounts(&mut self, at: &str, container: &mut Value) {
        let name = name_of(container).to_owned();
        let path = |mount: &Value| {
            let path = mount.get("mountPath").and_then(Value::as_str).unwrap_or_default();
            path.trim_end_matches('/').to_owned()
        };
        let mut all = items(container, "volumeMounts").to_vec();
        for ours in &self.profile.agent.volume_mounts {
            let place = path(ours);
            let Some(index) = all.iter().position(|one| path(one) == place) else {
                all.push(ours.clone());
                continue;
            };
            // A mount of a volume of the gate is refused as such.
            let foreign =
                |theirs: &Value| !same(ours, theirs) && !self.profile.has_volume(name_of(theirs));
            if all.get(index).is_some_and(foreign) {
                let volume = name_of(ours);
                let why = format!(
                    "`{name}` mounts something else than `{volume}` at `{place}`; remove it, or mount it elsewhere"
                );
                self.refusals.add(format_args!("{at}.volumeMounts[{index}]"), why);
            }
        }
        put_list(container, "volumeMounts", all);
    }

    /// What concerns the pod as a whole.
    fn pod_members(&mut self) {
        let pod = &self.profile.pod;
        let mut context =
            self.spec("securityContext").and_then(Value::as_object).cloned().unwrap_or_default();
        fill_members(&mut context, &pod.security_context, &Map::new());
        if !context.is_empty() {
            self.set("spec", "securityContext", Value::Object(context));
        }
        self.set("spec", "automountServiceAccountToken", false.into());
        if pod.hides_services() {
            self.set("spec", "enableServiceLinks", false.into());
        }
        let grace = self.spec("terminationGracePeriodSeconds").and_then(Value::as_u64);
        if let Some(wanted) = pod.termination_grace_period_seconds
            && grace.unwrap_or(GRACE_SECONDS) < wanted
        {
            self.set("spec", "terminationGracePeriodSeconds", wanted.into());
        }
        let mut secrets = self.list("imagePullSecrets");
        for secret in &pod.image_pull_secrets {
            if !secrets.iter().any(|one| name_of(one) == name_of(secret)) {
                secrets.push(secret.clone());
            }
        }
        self.put("imagePullSecrets", secrets);
    }
}

/// Whether a volume has a token of the service account.
pub(super) fn has_token(volume: &Value) -> bool {
    let projected = volume.get("projected");
    let sources = projected.map(|projected| items(projected, "sources")).unwrap_or_default();
    sources
        .iter()
        .any(|source| source.get("serviceAccountToken").is_some_and(|token| !token.is_null()))
}

/// Puts a list into a container; an empty one stays away.
fn put_list(container: &mut Value, list: &str, value: Vec<Value>) {
    if let Some(members) = container.as_object_mut().filter(|_| !value.is_empty()) {
        members.insert(list.to_owned(), Value::Array(value));
    }
}

/// Fills the security context of a container where it is empty.
fn fill(container: &mut Value, with: &Map<String, Value>, of_pod: &Map<String, Value>) {
    let context = container.get("securityContext").and_then(Value::as_object);
    let mut context = context.cloned().unwrap_or_default();
    fill_members(&mut context, with, of_pod);
    if let Some(members) = container.as_object_mut().filter(|_| !context.is_empty()) {
        members.insert("securityContext".to_owned(), Value::Object(context));
    }
}

fn fill_members(
    context: &mut Map<String, Value>,
    with: &Map<String, Value>,
    of_pod: &Map<String, Value>,
) {
    let is_empty = |value: &Value| match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    };
    for (name, value) in with.iter().filter(|(_, value)| !is_empty(value)) {
        let of_pod =
            of_pod.get(name).filter(|value| OF_POD.contains(&name.as_str()) && !is_empty(value));
        let there = context.entry(name.clone()).or_insert(Value::Null);
        if there.is_null() {
            *there = of_pod.unwrap_or(value).clone();
        }
    }
}

/// Whether Kubernetes takes this as the name of an object.
fn is_object_name(name: &str) -> bool {
    let part = |part: &str| {
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        part.starts_with(plain)
            && part.ends_with(plain)
            && part.chars().all(|c| plain(c) || c == '-')
    };
    name.len() <= 253 && name.split('.').all(part)
}
