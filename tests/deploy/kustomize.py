"""The kustomize tree, rendered by kubectl and held to the chart: kustomize.py QUESTION."""

import filecmp
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import yaml

from rendering import (
    BIN, TOP, Helm, accepted, ask, check, judged_by_checkov, manifests, native_sidecar, pods, restricted_pod)

TREE = TOP / "deploy" / "kustomize"
# Where the injector is.
SYSTEM = "wicketgate-system"
PINNED = "sha256:0000000000000000000000000000000000000000000000000000000000000001"
# Somebody's agent, as they had it before.
WORKLOAD = {
    "metadata": {"name": "reviewer", "labels": {"wicketgate.dev/sidecar": "true"}},
    "spec": {"template": {
        "metadata": {"labels": {"app": "reviewer"}},
        "spec": {"containers": [{
            "name": "agent", "image": f"agent@{PINNED}", "imagePullPolicy": "Always",
            "env": [{"name": "MODEL", "value": "m"}],
            "livenessProbe": {"tcpSocket": {"port": 8080}}, "readinessProbe": {"tcpSocket": {"port": 8080}},
            "resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}}}]}}}}


def workload(kind):
    one = {"apiVersion": "batch/v1" if kind == "Job" else "apps/v1", "kind": kind, **yaml.safe_load(yaml.safe_dump(WORKLOAD))}
    if kind == "Job":
        one["spec"]["template"]["spec"]["restartPolicy"] = "Never"
        one["spec"]["template"]["spec"]["containers"][0].pop("livenessProbe")
        one["spec"]["template"]["spec"]["containers"][0].pop("readinessProbe")
    else:
        one["spec"] |= {"replicas": 2, "selector": {"matchLabels": {"app": "reviewer"}}}
    return one


def built(folder, resources, namespace="agents", **more):
    """What kubectl makes of a kustomization of these resources in a folder; paths of the tree begin with `tree/`."""
    tree = os.path.relpath(TREE, folder)
    given = {key: [one.replace("tree/", f"{tree}/") if isinstance(one, str) else one for one in value]
             for key, value in {"resources": resources, **more}.items()}
    images = [{"name": "wicketgate", "newName": "registry.example/wicketgate", "digest": PINNED}]
    kustomization = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "namespace": namespace,
                     "images": images, **given}
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    text, why = ask("kubectl", "kustomize", str(folder))
    assert text is not None, why
    return manifests(text)


def overlays():
    """{name: manifests} of what people build on the tree."""
    found = {}
    (TOP / "target").mkdir(exist_ok=True)
    for name, kind, tls in [("deployment", "Deployment", True), ("job", "Job", False)]:
        # Below the top: kustomize knows roots only by relative paths without links in them.
        with tempfile.TemporaryDirectory(dir=TOP / "target") as made:
            folder = pathlib.Path(made)
            for path in ["wicketgate.yaml", "policy/agent/main.rego"]:
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                (folder / path).write_text(path)
            (folder / "workload.yaml").write_text(yaml.safe_dump(workload(kind)))
            printed = subprocess.run([TREE / "files", "wicketgate.yaml", "policy/agent/main.rego"], check=True,
                                     capture_output=True, text=True).stdout
            components = ["tree/components/sidecar"] + (["tree/components/operator-tls", "tree/components/monitoring"] if tls else [])
            found[name] = built(folder, ["workload.yaml"], components=components, **yaml.safe_load(printed))
    with tempfile.TemporaryDirectory(dir=TOP / "target") as made:
        generator = [{"name": "wicketgate-hub", "literals": ["hub.yaml={}"]}]
        found["hub"] = built(pathlib.Path(made), ["tree/base/hub", "tree/base/migration"], configMapGenerator=generator)
    with tempfile.TemporaryDirectory(dir=TOP / "target") as made:
        profile = (TREE / "base" / "injector" / "profiles" / "default.yaml").read_text()
        (pathlib.Path(made) / "default.yaml").write_text(re.sub("wicketgate@sha256:0+", f"registry.example/wicketgate@{PINNED}", profile))
        generator = [{"name": "wicketgate-injector-profiles", "behavior": "replace", "files": ["default.yaml"]}]
        found["injector"] = built(pathlib.Path(made), ["tree/base/injector"], SYSTEM, configMapGenerator=generator)
    return found


def current():
    """Running the script again changes nothing."""
    with tempfile.TemporaryDirectory() as made:
        environment = {**os.environ, "HELM": str(BIN / "helm"), "HOME": made}
        subprocess.run([sys.executable, "-B", TREE / "from_chart.py", f"{made}/out"], check=True, env=environment)
        written = sorted(path.relative_to(f"{made}/out") for path in pathlib.Path(made, "out").rglob("*.yaml"))
        assert len(written) == 8, written
        stale = [str(path) for path in written if not filecmp.cmp(pathlib.Path(made, "out", path), TREE / path, shallow=False)]
    assert not stale, f"{stale}: run deploy/kustomize/from_chart.py"
    print(f"{len(written)} files are the chart's")


def valid():
    count = 0
    for name, all_of_it in overlays().items():
        for one in all_of_it:
            check(one, namespace=SYSTEM if name == "injector" else "agents")
        names = [(one["kind"], one["metadata"]["name"]) for one in all_of_it]
        assert len(names) == len(set(names)), f"{name}: {names}"
        accepted(all_of_it)
        count += len(all_of_it)
    print(f"{count} manifests are valid")


def restricted():
    count = 0
    for name, all_of_it in overlays().items():
        accounts = {one["metadata"]["name"]: one for one in all_of_it if one["kind"] == "ServiceAccount"}
        for one, spec in pods(all_of_it):
            at = f"{name}: {one['kind']} {one['metadata']['name']}"
            restricted_pod(at, spec)
            if "serviceAccountName" in spec:
                assert accounts[spec["serviceAccountName"]]["automountServiceAccountToken"] is False, at
            for container in spec.get("initContainers", []):
                native_sidecar(spec, container)
            count += 1
    assert count == 7, count
    print(f"{count} pods are restricted")


def pod(all_of_it, kind):
    [found] = [(one, spec) for one, spec in pods(all_of_it) if one["kind"] == kind]
    return found


def by_name(things):
    return {one["name"]: one for one in things}


def plain(container):
    """A container without what is each workload's own."""
    return {key: value for key, value in container.items() if key not in ("image", "imagePullPolicy")}


def injector():
    """Each object is in the one namespace that the webhooks leave out, and the profile is the overlay's own."""
    all_of_it = overlays()["injector"]
    for one in all_of_it:
        for hook in one.get("webhooks", []):
            assert hook["clientConfig"]["service"]["namespace"] == SYSTEM, hook
            assert {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system", SYSTEM]} in hook["namespaceSelector"]["matchExpressions"], hook
        for subject in one.get("subjects", []):
            assert subject["namespace"] == SYSTEM, one
    pinned = f"registry.example/wicketgate@{PINNED}"
    [profiles] = [one for one in all_of_it if one["kind"] == "ConfigMap"]
    [server] = [spec for one, spec in pods(all_of_it) if one["kind"] == "Deployment"]
    [mounted] = [volume["configMap"]["name"] for volume in server["volumes"] if "configMap" in volume]
    assert mounted == profiles["metadata"]["name"], "another profile starts no pod anew"
    profile = yaml.safe_load(profiles["data"]["default.yaml"])
    images = {profile["pod"]["initContainers"][0]["image"], *(spec["containers"][0]["image"] for _, spec in pods(all_of_it))}
    assert images == {pinned}, images
    print("the injector is in its namespace")


def same():
    """What is rendered agrees with the chart in everything that keeps the agent from being more than the chart lets it be."""
    trees = overlays()
    files = {"wicketgate.yaml": "wicketgate.yaml", "policy/agent/main.rego": "policy/agent/main.rego"}
    compared = 0
    for name, kind, tls in [("deployment", "Deployment", "wicketgate-gate-tls"), ("job", "Job", "")]:
        values = {"agent": {"image": "agent", "kind": kind}, "gate": {"files": files, "tlsSecret": tls}, "image": {"repository": "wicketgate"},
                  "ledger": {"ephemeral": True}}
        text, why = Helm().template(values)
        assert text is not None, why
        chart, theirs = pod(manifests(text), kind)
        _, ours = pod(trees[name], kind)
        assert by_name(ours["initContainers"]).keys() == {"gate"}, ours["initContainers"]
        gate, other = plain(ours["initContainers"][0]), plain(theirs["initContainers"][0])
        for one in (gate, other):
            one["env"] = by_name(one["env"])
        assert gate == other, (gate, other)
        agent, other = ours["containers"][0], theirs["containers"][0]
        for key in ("securityContext", "volumeMounts"):
            assert agent[key] == other[key], (key, agent[key], other[key])
        assert {one["name"] for one in agent["env"]} == {"MODEL", "WICKETGATE_SOCKET"}, agent["env"]
        assert agent["resources"]["limits"] == {"cpu": "1", "memory": "1Gi"}, "the workload's own"
        own = ("serviceAccountName", "initContainers", "containers", "volumes", "schedulerName", "dnsPolicy")
        for key in set(ours) | set(theirs):
            assert key in own or ours.get(key) == theirs.get(key), (key, ours.get(key), theirs.get(key))
        mine, charts = by_name(ours["volumes"]), by_name(theirs["volumes"])
        for volumes, manifest in ((mine, trees[name]), (charts, manifests(text))):
            source = volumes["config"].pop("configMap")
            maps = {one["metadata"]["name"]: one["data"] for one in manifest if one["kind"] == "ConfigMap"}
            laid = {item["path"]: maps[source["name"]][item["key"]] for item in source["items"]}
            assert laid == files, laid
            volumes["secrets"]["projected"]["sources"] = volumes["secrets"]["projected"]["sources"] or []
        assert mine == charts, (mine, charts)
        policy = next(one for one in trees[name] if one["kind"] == "NetworkPolicy")
        assert policy["spec"]["policyTypes"] == ["Ingress", "Egress"] and "ingress" not in policy["spec"], policy
        wanted = policy["spec"]["podSelector"]["matchLabels"]
        labels = next(one for one, _ in pods(trees[name]))["spec"]["template"]["metadata"]["labels"]
        assert wanted.items() <= labels.items() and "app" in labels, labels
        theirs = next(one for one in manifests(text) if one["kind"] == "NetworkPolicy")
        assert policy["spec"]["egress"] == theirs["spec"]["egress"], policy
        compared += 1
    print(f"{compared} agents are what the chart makes of them")


def checkov():
    passed, failed = judged_by_checkov(overlays())
    for one in failed:
        print(one["check_id"], one["resource"], one["check_name"])
    assert passed > 200, passed
    print(f"{passed} passed, {len(failed)} failed")
    sys.exit(bool(failed))


if __name__ == "__main__":
    {"current": current, "valid": valid, "restricted": restricted, "same": same, "injector": injector, "checkov": checkov}[sys.argv[1]]()
