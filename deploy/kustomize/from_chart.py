#!/usr/bin/env python3
"""Makes the kustomize tree out of the chart: deploy/kustomize/from_chart.py [OUT].

The chart is the one source: a change of it runs this and commits what it writes (tests/deploy/kustomize.py looks). Files named
kustomization.yaml are written by hand. Needs Python with PyYAML, and `helm` in the path or in $HELM."""

import os
import pathlib
import subprocess
import sys

import yaml

HERE = pathlib.Path(__file__).resolve().parent
CHART = HERE.parent / "helm" / "wicketgate"
HEAD = "# Made from the chart by deploy/kustomize/from_chart.py: change the chart, and run it again.\n"
# What a pod with a gate is known by: set by the component, selected by its NetworkPolicy and by the hub's.
MARK = {"wicketgate.dev/sidecar": "true"}
AGENT = {"app.kubernetes.io/name": "wicketgate", "app.kubernetes.io/instance": "wicketgate", "app.kubernetes.io/component": "agent"}
CHARTS_OWN = {"helm.sh/chart", "app.kubernetes.io/managed-by", "wicketgate.dev/files"}
# Where the injector is: its webhooks leave out this namespace.
SYSTEM = "wicketgate-system"
# It stands for the digest of the image, and no image has it.
NO_DIGEST = "sha256:" + "0" * 64
HUB = yaml.safe_load((CHART / "ci" / "hub.yaml").read_text())


def rendered(values, namespace="default"):
    """Every manifest of a release `wicketgate`, without what is Helm's."""
    command = [os.environ.get("HELM", "helm"), "template", "wicketgate", str(CHART), "-n", namespace, "--kube-version", "1.31.0",
               "--api-versions", "monitoring.coreos.com/v1", "-f", "-"]
    values = {"image": {}, **values}
    values["image"] = {"repository": "wicketgate", **values["image"]}
    text = subprocess.run(command, input=yaml.safe_dump(values), check=True, capture_output=True, text=True).stdout
    for one in yaml.safe_load_all(text.replace("wicketgate-wicketgate", "wicketgate")):
        if one:
            one["metadata"].pop("namespace", None)
            yield bare(one)


def render(values):
    """The same as {(kind, part): manifest}."""
    return {(one["kind"], one["metadata"]["labels"]["app.kubernetes.io/component"]): one for one in rendered(values)}


def bare(value):
    """Without nulls, and without labels and annotations that only mean something to Helm."""
    if isinstance(value, list):
        return [bare(one) for one in value]
    if not isinstance(value, dict):
        return value
    kept = {key: bare(one) for key, one in value.items()
            if one is not None and key not in CHARTS_OWN and not key.startswith("helm.sh/")}
    if "annotations" in kept and not kept["annotations"]:
        del kept["annotations"]
    return marked(kept)


def marked(value):
    """Selects pods by the component's mark where the chart selects the agents of its release."""
    return {**value, "matchLabels": dict(MARK)} if value.get("matchLabels") == AGENT else value


def agent(tls):
    values = {"agent": {"image": "agent"}, "gate": {"files": {"wicketgate.yaml": ""}, "tlsSecret": tls}, "image": {"tag": ""}, "ledger": {"ephemeral": True},
              "networkPolicy": HUB["networkPolicy"]}
    rendered = render(values)
    return rendered["Deployment", "agent"]["spec"]["template"]["spec"], rendered["NetworkPolicy", "agent"]


def patch(spec):
    """A strategic merge patch of whatever has a pod template; its target says which."""
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "any"}, "spec": {"template": spec}}


def sidecar():
    spec, network = agent("")
    spec.pop("serviceAccountName")
    [theirs] = spec["containers"]
    # The workload's own: its image, what it runs, what it needs.
    spec["containers"] = [{key: theirs[key] for key in ("name", "env", "securityContext", "volumeMounts")}]
    for volume in spec["volumes"]:
        if volume["name"] == "config":
            volume["configMap"] = {"name": "wicketgate-agent"}
        if volume["name"] == "secrets":
            volume["projected"]["sources"] = []
    network["metadata"].pop("labels")
    return patch({"metadata": {"labels": MARK}, "spec": spec}), [network]


def operator_tls():
    """What the chart changes once there is a certificate for the operators' listener."""
    [without], [gate] = (agent(tls)[0]["initContainers"] for tls in ("", "wicketgate-gate-tls"))
    added = [one for one in gate["env"] if one not in without["env"]]
    changed = {"name": "gate", "env": added, "ports": gate["ports"]}
    assert all(gate[probe] == without[probe] for probe in ("startupProbe", "livenessProbe", "readinessProbe"))
    secrets = next(one for one in agent("wicketgate-gate-tls")[0]["volumes"] if one["name"] == "secrets")
    return patch({"spec": {"initContainers": [changed], "volumes": [secrets]}})


def bases():
    values = {**HUB, "image": {}, "monitoring": {}, "ca": {}}
    values["networkPolicy"] = {**HUB["networkPolicy"], "gates": [{"podSelector": {"matchLabels": MARK}}]}
    values["hub"] = {**HUB["hub"], "tlsSecret": "wicketgate-hub-tls", "secrets": [], "files": {"hub.yaml": ""}}
    rendered = render(values)
    hub = [one for (kind, part), one in rendered.items() if part == "hub" and kind != "ConfigMap"]
    for one in hub:
        if one["kind"] == "Deployment":
            one["spec"]["template"].setdefault("metadata", {}).pop("annotations", None)
            for volume in one["spec"]["template"]["spec"]["volumes"]:
                if volume["name"] == "config":
                    volume["configMap"].pop("items")
    return hub, [one for (_, part), one in rendered.items() if part == "migration"]


def injector():
    """(its objects, its profile): the image is that of the kustomization, but for the profile's, which is text."""
    values = {"agent": {"enabled": False}, "image": {"digest": NO_DIGEST}, "injector": {"enabled": True, "profiles": {"default": {"ledger": "postgres"}}}}
    found, [profiles] = [], [one["data"] for one in rendered(values, SYSTEM) if one["kind"] == "ConfigMap"]
    for one in rendered(values, SYSTEM):
        if one["kind"] == "Job":
            # A Job cannot change: with another image it needs another name.
            one["metadata"]["name"] = "wicketgate-injector-certs-first"
        found += [one] * (one["kind"] != "ConfigMap")
    return found, [yaml.safe_load(profiles["default.yaml"])]


def monitoring():
    values = {"agent": {"image": "agent"}, "gate": {"files": {"wicketgate.yaml": ""}, "tlsSecret": "x"}, "hub": {**HUB["hub"]},
              "monitoring": {"enabled": True, "serverName": "wicketgate.example"}, "ca": {"secret": "wicketgate-ca"}, "ledger": {"ephemeral": True}}
    kinds = ("PodMonitor", "ServiceMonitor", "PrometheusRule")
    return [one for (kind, part), one in render(values).items() if kind in kinds or part == "dashboard"]


def main(out):
    pod, network = sidecar()
    hub, migration = bases()
    objects, profile = injector()
    for path, manifests in {
        "base/hub/hub.yaml": hub,
        "base/migration/migration.yaml": migration,
        "base/injector/injector.yaml": objects,
        "base/injector/profiles/default.yaml": profile,
        "components/sidecar/pod.yaml": [pod],
        "components/sidecar/network.yaml": network,
        "components/operator-tls/pod.yaml": [operator_tls()],
        "components/monitoring/monitoring.yaml": monitoring(),
    }.items():
        to = out / path
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_text(HEAD + yaml.safe_dump_all(manifests, sort_keys=False, width=140))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]) if len(sys.argv) == 2 else HERE)
