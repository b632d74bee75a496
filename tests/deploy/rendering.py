"""Helm and kubectl as the tests ask them, and the one check of a manifest."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

import kubernetes_validate
import yaml

from apiserver import Api

BIN = pathlib.Path(sys.executable).parent
TOP = pathlib.Path(__file__).resolve().parent.parent.parent
CHART = TOP / "deploy" / "helm" / "wicketgate"
EXAMPLES = sorted((CHART / "ci").glob("*.yaml"))
# Kinds of operators: the schemas of Kubernetes do not know them.
FOREIGN = {"PodMonitor", "ServiceMonitor", "PrometheusRule", "Certificate", "Issuer"}
VERSION = "1.31"
# What a cluster with the Prometheus operator knows besides.
KNOWN = ["--api-versions", "monitoring.coreos.com/v1"]
# The image that the examples leave to who installs them.
IMAGE = {"repository": "registry.example/wicketgate", "pullPolicy": "Always",
         "digest": "sha256:0000000000000000000000000000000000000000000000000000000000000001"}


def ask(program, *args, stdin=""):
    """What a program says, in a home of its own and with no cluster: (its output, none) or (None, why not)."""
    with tempfile.TemporaryDirectory() as home:
        environment = {"PATH": os.environ["PATH"], "HOME": home, "KUBECONFIG": f"{home}/none"}
        done = subprocess.run([str(BIN / program), *args], input=stdin, env=environment, capture_output=True, text=True)
    return (done.stdout, "") if done.returncode == 0 else (None, done.stdout + done.stderr)


class Helm:
    """The chart, as Helm lints and renders it; hooks are among what it renders."""

    def lint(self, values):
        text, why = ask("helm", "lint", "--strict", "-f", "-", str(CHART), stdin=yaml.safe_dump(values))
        return text is not None, text or why

    def template(self, values, release="demo"):
        return ask("helm", "template", release, str(CHART), "-n", "agents", "--kube-version", VERSION + ".0", *KNOWN, "-f", "-",
                   stdin=yaml.safe_dump(values))

    def install(self, values, release="demo"):
        """What an installation prints, its notes at the end; nothing is installed."""
        return ask("helm", "install", release, str(CHART), "-n", "agents", "--dry-run=client", "-f", "-", stdin=yaml.safe_dump(values))


def examples():
    return {path.stem: {"image": dict(IMAGE), **yaml.safe_load(path.read_text())} for path in EXAMPLES}


def manifests(text):
    return [one for one in yaml.safe_load_all(text) if one]


def rendered(helm):
    """Every manifest of every example of the chart."""
    found = {}
    for name, values in examples().items():
        text, why = helm.template(values)
        assert text is not None, f"{name}: {why}"
        found[name] = manifests(text)
        assert len(found[name]) >= 4, f"{name}: {len(found[name])} manifests"
    return found


def check(one, version=VERSION, namespace="agents"):
    """Holds a manifest to its namespace and to the schemas of Kubernetes, in which no field is unknown."""
    everywhere = one["kind"].startswith(("ClusterRole", "ValidatingAdmission", "MutatingAdmission", "ValidatingWebhook", "MutatingWebhook"))
    assert one["metadata"].get("namespace") == (None if everywhere else namespace), one["metadata"]
    if one["kind"] not in FOREIGN:
        kubernetes_validate.validate(one, version, strict=True)


def bare(value):
    """Without nulls, as the API server decodes a manifest."""
    if isinstance(value, dict):
        return {key: bare(one) for key, one in value.items() if one is not None}
    return [bare(one) for one in value] if isinstance(value, list) else value


def pods(all_of_it):
    """(manifest, pod) for each of these that makes pods."""
    for one in all_of_it:
        job = one.get("spec", {}).get("jobTemplate", one)
        spec = one["spec"] if one["kind"] == "Pod" else job.get("spec", {}).get("template", {}).get("spec")
        if spec and "containers" in spec:
            yield one, spec


def judged_by_checkov(sets):
    """(passed, failed checks) of these sets of manifests, {name: manifests}."""
    with tempfile.TemporaryDirectory() as folder:
        for name, all_of_it in sets.items():
            # checkov wants every resource that belongs together in one file.
            text = yaml.safe_dump_all([one for one in all_of_it if one["kind"] not in FOREIGN])
            (pathlib.Path(folder) / f"{name}.yaml").write_text(text)
        program = [str(BIN / "checkov"), "-d", folder, "--framework", "kubernetes", "--compact", "-o", "json", "--skip-download"]
        done = subprocess.run(program, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        report = json.loads(done.stdout)
    return report["summary"]["passed"], report["results"]["failed_checks"]


def restricted_pod(at, spec):
    """Holds a pod to Pod Security `restricted`, and to what we ask beyond it; its containers."""
    assert spec["automountServiceAccountToken"] is False, at
    assert not any(spec.get(f) for f in ("hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace")), at
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, at
    containers = spec.get("initContainers", []) + spec["containers"]
    # What the owner adds runs as the agent or, before the gate, as the gate.
    users = {container["name"]: container["securityContext"]["runAsUser"] for container in containers}
    assert 0 not in users.values() and ("gate" not in users or users.get("agent") != users["gate"]), f"{at}: {users}"
    assert len(set(users.values())) <= 2, f"{at}: {users}"
    for container in containers:
        context = container["securityContext"]
        assert context["runAsNonRoot"] is True and context["readOnlyRootFilesystem"] is True, at
        assert context["allowPrivilegeEscalation"] is False and context["privileged"] is False, at
        assert context["capabilities"] == {"drop": ["ALL"]}, at
        assert context["seccompProfile"] == {"type": "RuntimeDefault"}, at
        assert {"cpu", "memory"} <= set(container["resources"]["limits"]), at
        if container["name"] == "agent":
            mounts = {mount["name"]: mount.get("readOnly", False) for mount in container["volumeMounts"]}
            separate = "doctor" in [one["name"] for one in containers]
            own = {"certificate" if separate else "socket": True, "tmp": False}
            assert own.items() <= mounts.items() and not {"config", "secrets", "state", "enrolment"} & mounts.keys(), f"{at}: {mounts}"
    kinds = {next(k for k in volume if k != "name") for volume in spec.get("volumes", [])}
    assert kinds <= {"configMap", "emptyDir", "persistentVolumeClaim", "projected", "secret"}, f"{at}: {kinds}"
    return containers


def native_sidecar(spec, container):
    """Holds an init container to what makes it a native sidecar that needs no database to start and no script to end."""
    assert container["restartPolicy"] == "Always", container["name"]
    assert "lifecycle" not in container, "a preStop script"
    starting, living = json.dumps(container["startupProbe"]), json.dumps(container["livenessProbe"])
    assert "start" in starting.replace("startupProbe", "") and "live" not in starting and "ready" not in starting, starting
    assert "live" in living and "ready" not in living, living
    shown = starting + living
    assert container["startupProbe"]["periodSeconds"] == 1, shown
    assert "live" not in json.dumps(container["readinessProbe"])
    # The gate gets its 20 seconds of draining after the agent.
    assert spec["terminationGracePeriodSeconds"] >= 25


def accepted(all_of_it):
    """Holds manifests to what kubectl itself checks before it sends anything."""
    with Api() as api:
        said, why = ask("kubectl", "--kubeconfig", api.kubeconfig, "create", "--dry-run=client", "--validate=false", "-f", "-",
                        stdin=yaml.safe_dump_all(all_of_it))
        assert said is not None, why
        assert len(said.splitlines()) == len(all_of_it) and said.count("(dry run)") == len(all_of_it), said
        assert not api.objects, api.objects
