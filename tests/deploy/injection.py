"""What the chart and the kustomize tree give pods that ask for a gate: injection.py QUESTION."""

import base64
import copy
import json
import pathlib
import random
import ssl
import subprocess
import sys
import tempfile
import urllib.request

import yaml

from apiserver import authority, patched
from backstop import Judge
from engines import Both
from kustomize import by_name, overlays, pod as of_kind, workload
from rendering import CHART, IMAGE, ask, bare, check, examples, manifests, pods

ADMISSION = "admissionregistration.k8s.io/v1/"
MUTATING, VALIDATING = f"{ADMISSION}MutatingAdmissionPolicy", f"{ADMISSION}ValidatingAdmissionPolicy"
# The first version whose schemas have both as v1.
NEW = "1.36"
FILES = {"wicketgate.yaml": "wicketgate.yaml", "policy/agent/main.rego": "policy/agent/main.rego"}
GATE, CONFIG, AGENTS = "wicketgate.dev/gate", "wicketgate.dev/config", "wicketgate.dev/agents"
DIGEST = "wicketgate.dev/profile-digest"
# What a container takes from the security context of its pod.
OF_POD = ("runAsUser", "runAsGroup", "runAsNonRoot", "seccompProfile")
# What a pod has of the host and with itself; absent means no.
SHARED = ("hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace")


def template(values, *known, version="1.31"):
    words = [word for one in ("monitoring.coreos.com/v1", *known) for word in ("--api-versions", one)]
    return ask("helm", "template", "demo", str(CHART), "-n", "agents", "--kube-version", version + ".0", *words, "-f", "-", stdin=yaml.safe_dump(values))


def made(values, *known, **more):
    text, why = template(values, *known, **more)
    assert text is not None, why
    return manifests(text)


def policies():
    """The example, for a cluster on which no server is needed."""
    values = examples()["injector"]
    values["injector"] |= {"mode": "policy"}
    values["backstop"] = {"enabled": True, "exempt": [{"namespace": "agents", "serviceAccount": "metrics"}]}
    return made(values, MUTATING, VALIDATING, version=NEW)


def profiles(all_of_it):
    """{name: profile} of the ConfigMap that the injector reads."""
    [data] = [one["data"] for one in all_of_it if one["kind"] == "ConfigMap" and one["metadata"]["name"].endswith("injector-profiles")]
    found = {name.removesuffix(".yaml"): yaml.safe_load(text) for name, text in data.items()}
    for name, profile in found.items():
        assert profile.keys() == {"profile", "labels", "pod", "agent", "config"} and profile["profile"] == name, profile
        assert profile["agent"].keys() == {"env", "volumeMounts", "securityContext"} and profile["config"] == {"volume": "config"}, profile
    return found


def token(volume):
    """Whether this is the token that the API server mounts by itself."""
    return volume["name"].startswith("kube-api-access-") and any("serviceAccountToken" in one for one in volume.get("projected", {}).get("sources", []))


def filled(container, context, of_pod):
    """Fills what the security context of a container leaves open, with what the pod says if that is the place for it."""
    said = {key: of_pod.get(key, value) if key in OF_POD else value for key, value in context.items()}
    container["securityContext"] = {**said, **container.get("securityContext", {})}


def injected(profile, pod):
    """The pod with what a profile gives it: the merge, as short as it can be said."""
    pod = copy.deepcopy(pod)
    meta, spec = pod["metadata"], pod["spec"]
    lists = [spec.get("initContainers", []), spec["containers"]]
    named = [one for one in meta["annotations"].get(AGENTS, "").split(",") if one] or [one["name"] for one in spec["containers"]]
    tokens, of_pod = [one["name"] for one in spec.get("volumes", []) if token(one)], spec.get("securityContext", {})
    for container in sum(lists, []):
        if "volumeMounts" in container:
            container["volumeMounts"] = [one for one in container["volumeMounts"] if one["name"] not in tokens]
        if container["name"] in named:
            there = {one["name"] for one in container.get("env", [])}
            container["env"] = container.get("env", []) + [one for one in profile["agent"]["env"] if one["name"] not in there]
            container["volumeMounts"] = container.get("volumeMounts", []) + profile["agent"]["volumeMounts"]
            filled(container, profile["agent"]["securityContext"], of_pod)
        filled(container, {"allowPrivilegeEscalation": False, **{key: of_pod[key] for key in ("runAsUser",) if key in of_pod}}, {})
    volumes = copy.deepcopy(profile["pod"]["volumes"])
    for volume in volumes:
        if volume["name"] == profile["config"]["volume"]:
            volume["configMap"]["name"] = meta["annotations"][CONFIG]
    ours = profile["pod"]
    spec["initContainers"] = copy.deepcopy(ours["initContainers"]) + lists[0]
    spec["volumes"] = [one for one in spec.get("volumes", []) if one["name"] not in tokens] + volumes
    spec["securityContext"] = {**ours["securityContext"], **of_pod}
    spec |= {key: ours[key] for key in ("automountServiceAccountToken", "enableServiceLinks")}
    spec["terminationGracePeriodSeconds"] = max(ours["terminationGracePeriodSeconds"], spec.get("terminationGracePeriodSeconds", 30))
    meta["labels"] = {**meta["labels"], **profile["labels"]}
    return pod


def plain(pod):
    """A pod without what says the same as nothing, and without the digest of the profile, which each rendering has of its own."""
    pod = copy.deepcopy(pod)
    pod["metadata"]["annotations"].pop(DIGEST, None)
    for container in pod["spec"].get("initContainers", []) + pod["spec"]["containers"]:
        container.pop("volumeMounts", None) if not container.get("volumeMounts") else None
    return pod


def objects():
    """What is installed, by what the cluster has: narrow, in the one namespace, and never in the way of the cluster itself."""
    values = examples()["injector"]
    own = made(values)
    named = {(one["kind"], one["metadata"]["name"]): one for one in own}
    for kind, path, operations in (("Mutating", "/mutate", ["CREATE"]), ("Validating", "/validate", ["CREATE", "UPDATE"])):
        [hook] = named[f"{kind}WebhookConfiguration", "agents-demo-wicketgate-injector"]["webhooks"]
        assert (hook["failurePolicy"], hook["timeoutSeconds"], hook["sideEffects"]) == ("Fail", 5, "None"), hook
        assert hook.get("reinvocationPolicy") == ("IfNeeded" if kind == "Mutating" else None), hook
        assert hook["rules"] == [{"apiGroups": [""], "apiVersions": ["v1"], "operations": operations, "resources": ["pods"], "scope": "Namespaced"}], hook
        spaces = hook["namespaceSelector"]
        assert spaces["matchLabels"] == {"wicketgate.dev/inject": "enabled"}, spaces
        assert spaces["matchExpressions"] == [{"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system", "agents"]}], spaces
        assert hook["objectSelector"] == {"matchExpressions": [{"key": GATE, "operator": "Exists"}]}, hook
        assert hook["clientConfig"] == {"service": {"name": "demo-wicketgate-injector", "namespace": "agents", "path": path, "port": 443}}, hook
        [condition] = hook["matchConditions"]
        mirror = {"kubernetes.io/config.mirror": "x"}
        for annotations, groups, asked in (({}, ["system:nodes"], True), (mirror, ["system:nodes"], False), (mirror, ["developers"], True), (None, [], True)):
            one = {"metadata": {"annotations": annotations} if annotations is not None else {}}
            _, [said] = Both().answer([], [], [condition["expression"]], {"object": one, "request": {"userInfo": {"groups": groups}}})
            assert said == {"value": asked}, (annotations, groups, said)
    [server] = [spec for one, spec in pods(own) if one["kind"] == "Deployment"]
    assert all("serviceAccountToken" not in str(volume) for volume in server["volumes"]), server["volumes"]
    makers = [(one, spec) for one, spec in pods(own) if one["kind"] in ("Job", "CronJob")]
    assert len(makers) == 2 and {spec["serviceAccountName"] for _, spec in makers} == {"demo-wicketgate-injector-certs"}, makers
    rules = {one["kind"]: one["rules"] for one in own if one["kind"] in ("Role", "ClusterRole")}
    assert rules == {
        "Role": [{"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["demo-wicketgate-injector-tls"], "verbs": ["get", "update"]}],
        "ClusterRole": [{"apiGroups": ["admissionregistration.k8s.io"], "resourceNames": ["agents-demo-wicketgate-injector"], "verbs": ["get", "patch"],
                         "resources": ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"]}]}, rules
    assert "data" not in named["Secret", "demo-wicketgate-injector-tls"], "an upgrade would take the certificate away"
    for name, spec in {one["metadata"]["name"]: one["spec"] for one in own if one["kind"] == "NetworkPolicy"}.items():
        assert spec["policyTypes"] == ["Ingress", "Egress"] and bool(spec["egress"]) == name.endswith("-certs") and bool(spec["ingress"]) != name.endswith("-certs"), spec

    managed = made(values, "cert-manager.io/v1")
    for one in managed:
        check(one)
    kinds = {one["kind"] for one in managed}
    assert {"Certificate", "Issuer"} <= kinds and not {"CronJob", "Job", "Role", "ClusterRole", "Secret"} & kinds, kinds
    for one in managed:
        if "Webhook" in one["kind"]:
            assert one["metadata"]["annotations"] == {"cert-manager.io/inject-ca-from": "agents/demo-wicketgate-injector"}, one["metadata"]
    [leaf] = [one["spec"] for one in managed if one["kind"] == "Certificate" and not one["spec"].get("isCA")]
    assert leaf["dnsNames"] == ["demo-wicketgate-injector.agents.svc"] and leaf["secretName"] == "demo-wicketgate-injector-tls", leaf
    values["injector"]["certificates"] = {"issuerRef": {"name": "mine", "kind": "ClusterIssuer"}}
    [leaf] = [one["spec"] for one in made(values, "cert-manager.io/v1") if one["kind"] in ("Certificate", "Issuer")]
    assert leaf["issuerRef"] == {"name": "mine", "kind": "ClusterIssuer"}, leaf

    without = policies()
    for one in without:
        check(one, NEW)
    kinds = {one["kind"] for one in without}
    assert {"MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding", "ValidatingAdmissionPolicy"} <= kinds and not {"Deployment", "Secret", "CronJob"} & kinds, kinds
    print(f"{len(own) + len(managed) + len(without)} objects are narrow")


def refusals():
    for change, known, said in (
        ({"profiles": {}}, (), "injector.profiles: name a profile"),
        ({"profiles": {"a": {}}}, (), "injector.profiles.a.ledger: choose where"),
        ({"profiles": {"a": {"ledger": "postgres", "uid": 65532}}}, (), "injector.profiles.a.uid: the agent must not be the user"),
        ({"profiles": {"a": {"ledger": "postgres", "gate": {"uid": 1}}}}, (), "schema"),
        ({"profiles": {"A": {"ledger": "postgres"}}}, (), "schema"),
        ({"profiles": {"a": {"ledger": "postgres", "files": ["../x"]}}}, (), "schema"),
        ({"mode": "policy"}, (), "the cluster has no MutatingAdmissionPolicy"),
        ({"mode": "policy"}, (MUTATING, VALIDATING), "backstop.enabled: with `injector.mode: policy`"),
    ):
        values = examples()["injector"]
        values["injector"] |= change
        text, why = template(values, *known, version=NEW)
        assert text is None and said in why, f"{change}: {why}"
    values = examples()["injector"]
    values["image"].pop("digest")
    text, why = template(values)
    assert text is None and "image.digest" in why, why
    print("each is refused by name")


def labelled(pod, profile="default", **annotations):
    """A pod that asks for a gate."""
    meta = copy.deepcopy(pod.get("metadata", {}))
    return {"metadata": {**meta, "namespace": "agents", "labels": {**meta.get("labels", {}), GATE: profile},
                         "annotations": {CONFIG: "reviewer-gate", **annotations}}, "spec": copy.deepcopy(pod["spec"])}


def laid(volumes, all_of_it):
    """The volumes by name, the configuration as the files that it lays down."""
    found = by_name(copy.deepcopy(volumes))
    source = found["config"].pop("configMap")
    maps = {one["metadata"]["name"]: one["data"] for one in all_of_it if one["kind"] == "ConfigMap"}
    assert {item["path"]: maps[source["name"]][item["key"]] for item in source["items"]} == FILES, source
    found["secrets"]["projected"]["sources"] = found["secrets"]["projected"].get("sources") or []
    return found


def same():
    """One workload in three renderings is one pod: by the chart, by kustomize, and by the profile of the injector."""
    values = examples()["injector"]
    values["injector"]["profiles"] = {"default": {"ledger": "ephemeral", "files": list(FILES)}}
    values["image"]["pullPolicy"] = "IfNotPresent"
    profile, compared, trees = profiles(made(values))["default"], 0, overlays()
    for name, kind in (("deployment", "Deployment"), ("job", "Job")):
        bare_pod = workload(kind)["spec"]["template"]
        [theirs] = bare_pod["spec"]["containers"]
        chart = made({"image": {**IMAGE, "pullPolicy": "IfNotPresent"}, "ledger": {"ephemeral": True}, "gate": {"files": FILES}, "agent": {
            "kind": kind, "image": theirs["image"], "pullPolicy": theirs["imagePullPolicy"], "env": theirs["env"], "resources": theirs["resources"],
            **{key: theirs[key] for key in ("livenessProbe", "readinessProbe") if key in theirs}}})
        config = {"kind": "ConfigMap", "metadata": {"name": "reviewer-gate"}, "data": {path.replace("/", "--"): text for path, text in FILES.items()}}
        found = {"chart": (bare(of_kind(chart, kind)[1]), chart), "injector": (injected(profile, labelled(bare_pod))["spec"], [config])}
        if name == "job":
            found["kustomize"] = (of_kind(trees[name], kind)[1], trees[name])
        seen = {}
        for rendering, (spec, all_of_it) in found.items():
            spec = copy.deepcopy(spec)
            spec.pop("serviceAccountName", None)
            spec["volumes"] = laid(spec["volumes"], all_of_it)
            assert not any(spec.pop(key, False) for key in SHARED), spec
            for container in spec["initContainers"] + spec["containers"]:
                container["env"] = by_name(container["env"])
            seen[rendering] = spec
            compared += 1
        for rendering, spec in seen.items():
            for key in spec.keys() | seen["chart"].keys():
                assert spec.get(key) == seen["chart"].get(key), f"{rendering}: {key}: {spec.get(key)}, {seen['chart'].get(key)}"
    # The check can fail.
    assert injected({**profile, "pod": {**profile["pod"], "enableServiceLinks": True}}, labelled(bare_pod))["spec"] != injected(profile, labelled(bare_pod))["spec"]
    print(f"{compared} pods are one shape")


def generated(dice):
    """A pod of others as the API server hands it to admission, in one of many forms."""
    access = {"name": "kube-api-access-x7k2p", "projected": {"defaultMode": 420, "sources": [{"serviceAccountToken": {"path": "token"}}, {"downwardAPI": {}}]}}
    mounts = [{"name": "cache", "mountPath": "/cache"}, {"name": access["name"], "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "readOnly": True}]

    def container(name):
        one = {"name": name, "image": "x"}
        plain = [None, {}, {"runAsUser": 1337}, {"runAsUser": 10001, "allowPrivilegeEscalation": False}, {"runAsNonRoot": True}] * 3
        context = dice.choice([*plain, {"runAsUser": 0}, {"runAsUser": 65532}, {"allowPrivilegeEscalation": True}, {"privileged": True}, {"capabilities": {"add": ["NET_ADMIN"]}}])
        if context is not None:
            one["securityContext"] = context
        if dice.random() < 0.6:
            one["volumeMounts"] = dice.sample(mounts, dice.randint(1, 2))
        if dice.random() < 0.5:
            one["env"] = [{"name": "MODEL", "value": "a < b"}] + [{"name": "WICKETGATE_SOCKET", "value": "/run/wicketgate/agent.sock"}] * (dice.random() < 0.3)
        return one
    spec = {"containers": [container("agent")] + [container(name) for name in dice.sample(["istio-proxy", "vault-agent", "logs"], dice.randint(0, 2))]}
    if dice.random() < 0.4:
        spec["initContainers"] = [container(name) for name in dice.sample(["istio-init", "vault-agent-init"], dice.randint(1, 2))]
    if dice.random() < 0.9:
        spec["volumes"] = dice.choice([[access], [access, {"name": "cache", "emptyDir": {}}], [{"name": "cache", "emptyDir": {}}],
                                       [{"name": "kube-api-access-mine", "emptyDir": {}}], [access], [{"name": "cloud", "projected": access["projected"]}]])
    if dice.random() < 0.7:
        of_pod = {"runAsUser": 1000, "runAsGroup": 1000, "seccompProfile": {"type": "Localhost", "localhostProfile": "x"}}
        spec["securityContext"] = dice.choice([{}, {"fsGroup": 7}, {"runAsUser": 0}, of_pod, of_pod, of_pod, of_pod])
    spec |= dice.choice([{}, {}, {}, {}, {"hostNetwork": True}, {"terminationGracePeriodSeconds": 30, "enableServiceLinks": True}])
    annotations = dice.choice([{}, {}, {AGENTS: "agent"}, {AGENTS: "logs,agent"}, {AGENTS: "agen"}])
    return labelled({"metadata": {"name": "x"}, "spec": spec}, **annotations)


def mutated(spec, pod, engine, at_once=True):
    """The pod as a MutatingAdmissionPolicy leaves it: each step sees what the one before it did, or all of them the pod as it was."""
    pod = copy.deepcopy(pod)
    variables = [(one["name"], one["expression"]) for one in spec["variables"]]
    conditions = [one["expression"] for one in spec["matchConditions"]]
    steps = [one["jsonPatch"]["expression"] for one in spec["mutations"]]
    for some in [steps] if at_once else [[step] for step in steps]:
        given = {"object": pod, "request": {"operation": "CREATE", "userInfo": {"groups": ["system:serviceaccounts"]}}}
        matches, values = engine.answer(conditions, variables, some, given)
        if not matches:
            return pod
        # The conditions are asked once.
        conditions = []
        for value in values:
            assert "error" not in value, value
            patched(pod, value["value"])
    return pod


def policy():
    """The policy gives a pod what the profile says, which two engines for CEL agree on; what that cannot make safe, the backstop refuses."""
    all_of_it, engine, dice = policies(), Both(), random.Random(20261128)
    found = profiles(made(examples()["injector"]))
    steps = {one["metadata"]["name"].rsplit("-", 1)[1]: one["spec"] for one in all_of_it if one["kind"] == "MutatingAdmissionPolicy"}
    assert steps.keys() == found.keys() == {"default", "trial"}, steps.keys()
    for name, spec in steps.items():
        assert spec["failurePolicy"] == "Fail" and spec["matchConstraints"]["objectSelector"] == {"matchLabels": {GATE: name}}, spec
        assert spec["matchConstraints"]["namespaceSelector"]["matchLabels"] == {"wicketgate.dev/inject": "enabled"}, spec
    [rule] = [one["spec"] for one in all_of_it if one["kind"] == "ValidatingAdmissionPolicy" and one["metadata"]["name"].endswith("-pods")]
    [params] = [one for one in all_of_it if one["kind"] == "ConfigMap" and one["metadata"]["name"].endswith("-backstop")]
    judge, admitted, refused = Judge(rule, params, engine), 0, 0
    for number in range(40):
        name = dice.choice(sorted(steps))
        pod = generated(dice)
        after = mutated(steps[name], pod, engine)
        wanted = injected(found[name], pod)
        assert plain(after) == plain(wanted), f"{number}: {plain(after)}\n{plain(wanted)}"
        assert after["metadata"]["annotations"][DIGEST].startswith("sha256:"), after["metadata"]
        assert after["spec"]["initContainers"][0]["name"] == "gate" and not any(token(one) for one in after["spec"]["volumes"]), after
        assert mutated(steps[name], after, engine) == after, "a second time changes something"
        if number < 5:
            assert mutated(steps[name], pod, engine, at_once=False) == after, "the steps depend on each other"
        assert any("has no gate" in message for message in judge.refusals(pod)), "a naked pod is admitted"
        others = after["spec"]["initContainers"][1:] + after["spec"]["containers"]
        context = [one["securityContext"] for one in others]
        safe = all(one.get("runAsUser", 0) not in (0, 65532) and not one["allowPrivilegeEscalation"] and not one.get("privileged")
                   and not one.get("capabilities", {}).get("add") for one in context)
        safe = safe and not any("serviceAccountToken" in str(one) for one in after["spec"]["volumes"]) and not after["spec"].get("hostNetwork")
        said = judge.refusals(after)
        assert (not said) == safe, f"{number}: {said}: {after}"
        admitted, refused = admitted + (not said), refused + bool(said)
    assert admitted >= 8 and refused >= 8, (admitted, refused)
    # Without the annotation there is no configuration to mount: the expression fails, and the pod with it.
    pod = generated(dice)
    del pod["metadata"]["annotations"][CONFIG]
    [volumes] = [one["jsonPatch"]["expression"] for one in steps["trial"]["mutations"] if '"/spec/volumes"' in one["jsonPatch"]["expression"]]
    _, [value] = engine.answer([], [(one["name"], one["expression"]) for one in steps["trial"]["variables"]], [volumes], {"object": pod})
    assert "error" in value, value
    print(f"{admitted + refused} pods got their gate, {refused} of them are refused by the backstop, and two engines agreed {engine.asked} times")


class Server:
    """`wicketgate injector serve` with the profiles of the example, for as long as the `with` lasts."""

    def __init__(self, programs):
        self.program, self.folder = pathlib.Path(programs) / "wicketgate", tempfile.TemporaryDirectory()

    def __enter__(self):
        home = pathlib.Path(self.folder.name)
        (home / "profiles").mkdir()
        for name, profile in profiles(made(examples()["injector"])).items():
            (home / "profiles" / f"{name}.yaml").write_text(yaml.safe_dump(profile))
        certificate, key = authority(home)
        key.chmod(0o600)
        words = ["injector", "serve", "--profiles", home / "profiles", "--listen", "127.0.0.1:0", "--tls-cert", certificate, "--tls-key", key]
        self.process = subprocess.Popen([self.program, *words], env={}, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.place, self.context = self.process.stdout.readline().split()[-1], ssl.create_default_context(cafile=certificate)
        return self

    def __exit__(self, *_):
        self.process.terminate()
        assert self.process.wait() == 0, self.process.returncode
        self.folder.cleanup()

    def mutate(self, pod):
        """(the pod with its gate, none) or (none, why it is refused)."""
        request = {"uid": "u", "kind": {"group": "", "version": "v1", "kind": "Pod"}, "resource": {"group": "", "version": "v1", "resource": "pods"},
                   "operation": "CREATE", "namespace": "agents", "userInfo": {"username": "x"}, "object": {"apiVersion": "v1", "kind": "Pod", **pod}}
        body = json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}).encode()
        asked = urllib.request.Request(f"{self.place}/mutate", data=body, headers={"Content-Type": "application/json"})
        said = json.loads(urllib.request.urlopen(asked, context=self.context).read())["response"]
        if not said["allowed"]:
            return None, said["status"]["message"]
        after = copy.deepcopy(pod)
        patched(after, json.loads(base64.b64decode(said["patch"])))
        return after, None


def served(programs):
    """The real server makes of a pod what the merge of this file says and the backstop admits it, or it refuses what the backstop would refuse."""
    found, engine, dice = profiles(made(examples()["injector"])), Both(), random.Random(20261128)
    [rule] = [one["spec"] for one in policies() if one["kind"] == "ValidatingAdmissionPolicy" and one["metadata"]["name"].endswith("-pods")]
    [params] = [one for one in policies() if one["kind"] == "ConfigMap" and one["metadata"]["name"].endswith("-backstop")]
    judge, counts = Judge(rule, params, engine), {"same": 0, "refused": 0, "named": 0}
    with Server(programs) as server:
        for kind in ("Deployment", "Job"):
            pod = labelled(workload(kind)["spec"]["template"])
            after, why = server.mutate(pod)
            assert after and plain(after) == plain(injected(found["default"], pod)), why
        for number in range(120):
            pod, name = generated(dice), dice.choice(sorted(found))
            pod["metadata"]["labels"][GATE] = name
            after, why = server.mutate(pod)
            if after:
                assert plain(after) == plain(injected(found[name], pod)) and not judge.refusals(after), f"{number}: {judge.refusals(after)}: {after}"
                counts["same"] += 1
            elif "is no container of the agent" in why:
                counts["named"] += 1
            else:
                assert judge.refusals(injected(found[name], pod)), f"{number}: {why}: {pod}"
                counts["refused"] += 1
    assert min(counts.values()) >= 10, counts
    print(f"{counts['same']} pods are what the merge says, {counts['refused']} are refused by the backstop, too")


if __name__ == "__main__":
    {"objects": objects, "refusals": refusals, "same": same, "policy": policy, "served": served}[sys.argv[1]](*sys.argv[2:])
