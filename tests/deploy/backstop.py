"""The admission rules of the chart, judged by two engines for CEL of others: backstop.py QUESTION."""

import copy
import sys

import yaml

from engines import Both
from rendering import Helm, ask, bare, check, examples, manifests, pods, CHART, IMAGE, KNOWN, VERSION

ADMISSION = ["--api-versions", "admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy"]
DEBUGGERS = ["system:masters", "sre"]


def rules():
    """({rule: spec of its policy}, the parameters, the bindings)."""
    values = examples()["job"]
    values["backstop"] = {"enabled": True, "exempt": [{"namespace": "agents", "serviceAccount": "metrics"}], "debuggers": DEBUGGERS}
    text, why = ask("helm", "template", "demo", str(CHART), "-n", "agents", "--kube-version", VERSION + ".0", *KNOWN, *ADMISSION, "-f", "-",
                    stdin=yaml.safe_dump(values))
    assert text is not None, why
    made = [one for one in manifests(text) if one["metadata"]["labels"]["app.kubernetes.io/component"] == "backstop"]
    for one in made:
        check(one)
    policies = {one["metadata"]["name"].rsplit("-", 1)[1]: one["spec"] for one in made if one["kind"] == "ValidatingAdmissionPolicy"}
    [params] = [one for one in made if one["kind"] == "ConfigMap"]
    return policies, params, [one["spec"] for one in made if one["kind"] == "ValidatingAdmissionPolicyBinding"]


class Judge:
    """Evaluates the expressions of one policy as the API server does: variables in order, then each validation."""

    def __init__(self, spec, params, engine):
        self.params, self.engine = params, engine
        self.conditions = [one["expression"] for one in spec.get("matchConditions", [])]
        self.variables = [(one["name"], one["expression"]) for one in spec.get("variables", [])]
        self.validations = [(one["expression"], one["message"]) for one in spec["validations"]]

    def refusals(self, one, request=None, old=None):
        """The messages of the rules that refuse the object; an expression that fails refuses too, as `failurePolicy: Fail` says."""
        given = {"object": one, "oldObject": old or one, "params": self.params, "request": request or {"operation": "CREATE"}}
        matches, values = self.engine.answer(self.conditions, self.variables, [expression for expression, _ in self.validations], given)
        refused = []
        for (_, message), value in zip(self.validations, values if matches else []):
            if "error" in value:
                refused.append(f"{message} ({value['error']})")
            elif value["value"] is not True:
                refused.append(message)
        return refused


def sidecars():
    """{name: pod} of each example of the chart with a gate in it."""
    found = {}
    for name, values in examples().items():
        if values.get("agent", {}).get("enabled", True) and not values["gate"].get("separate", {}).get("enabled"):
            text, why = Helm().template(values)
            assert text is not None, why
            [(_, spec)] = pods(manifests(text))
            found[name] = {"metadata": {"name": "x", "namespace": "agents"}, "spec": bare(spec)}
    assert len(found) == 4, found.keys()
    return found


def gate(pod):
    return next(one for one in pod["spec"]["initContainers"] if one["name"] == "gate")


def agent(pod):
    return next(one for one in pod["spec"]["containers"] if one["name"] == "agent")


def volume(pod, one):
    pod["spec"]["volumes"].append(one)


def spoilt():
    """(what is done to a good pod, a word of the message that must refuse it)."""
    def security(pod):
        return agent(pod)["securityContext"]
    own = {"projected": {"sources": [{"secret": {"name": "gate-own", "items": [{"key": "k", "path": "k"}]}}]}}

    def secret(pod):
        [mine] = [one for one in pod["spec"]["volumes"] if one["name"] == "secrets"]
        mine.update(copy.deepcopy(own))
        return pod
    yield lambda pod: pod["spec"].pop("initContainers"), "has no gate"
    yield lambda pod: pod["spec"]["initContainers"].remove(gate(pod)), "has no gate"
    yield lambda pod: gate(pod).pop("restartPolicy"), "has no gate"
    yield lambda pod: pod["spec"]["initContainers"].insert(0, {"name": "early", "image": "x"}) or pod["spec"]["initContainers"].insert(0, {"name": "earlier", "image": "x"}), "has no gate"
    early = {"name": "early", "image": "x", "securityContext": {"runAsUser": 65532, "allowPrivilegeEscalation": False}}

    def before(pod, **change):
        pod["spec"]["initContainers"] = [{**copy.deepcopy(early), **change}, gate(pod)]
    yield lambda pod: before(pod, restartPolicy="Always"), "stays beside it"
    yield lambda pod: before(pod, securityContext={"runAsUser": 0, "allowPrivilegeEscalation": False}), "names no user"
    yield lambda pod: gate(pod).update(image="docker.io/evil/wicketgate:1"), "another image"
    yield lambda pod: gate(pod)["securityContext"].update(runAsUser=0), "another image or user"
    yield lambda pod: security(pod).update(runAsUser=65532), "names no user"
    yield lambda pod: security(pod).update(runAsUser=0), "names no user"
    yield lambda pod: security(pod).pop("runAsUser"), "names no user"
    yield lambda pod: agent(pod).pop("securityContext"), "names no user"
    yield lambda pod: pod["spec"]["containers"].append({"name": "second", "image": "x"}), "names no user"
    yield lambda pod: security(pod).update(privileged=True), "privileged"
    yield lambda pod: security(pod).update(allowPrivilegeEscalation=True), "can become another user"
    yield lambda pod: security(pod).pop("allowPrivilegeEscalation"), "can become another user"
    yield lambda pod: security(pod).update(capabilities={"add": ["SYS_PTRACE"]}), "capability"
    for name in ("hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace"):
        yield lambda pod, name=name: pod["spec"].update({name: True}), "namespace of the host"
    token = {"name": "t", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}
    yield lambda pod: volume(pod, token), "token of the service account"
    for name in ("config", "secrets", "state", "enrolment"):
        yield lambda pod, name=name: agent(pod)["volumeMounts"].append({"name": name, "mountPath": "/x"}), "mounts a volume of the gate"
    yield lambda pod: [mount.pop("readOnly") for mount in agent(pod)["volumeMounts"] if mount["name"] == "socket"], "socket writable"
    yield lambda pod: volume(pod, {"name": "node", "hostPath": {"path": "/var/lib/kubelet"}}), "directory of the node"
    yield lambda pod: volume(secret(pod), {"name": "mine", "secret": {"secretName": "gate-own"}}), "has a Secret of the gate"
    yield lambda pod: volume(secret(pod), {"name": "mine", **copy.deepcopy(own)}), "has a Secret of the gate"
    yield lambda pod: agent(secret(pod)).update(envFrom=[{"secretRef": {"name": "gate-own"}}]), "Secret of the gate in a variable"
    yield lambda pod: agent(secret(pod))["env"].append({"name": "X", "valueFrom": {"secretKeyRef": {"name": "gate-own", "key": "k"}}}), "Secret of the gate in a variable"


def admitted():
    policies, params, bindings = rules()
    assert policies.keys() == {"pods", "ephemeral", "marks", "debug"} and len(bindings) == 4, policies.keys()
    for one in bindings:
        assert one["validationActions"] == ["Deny", "Audit"] and one["paramRef"]["parameterNotFoundAction"] == "Deny", one
        assert one["matchResources"]["namespaceSelector"] == {"matchLabels": {"wicketgate.dev/inject": "enabled"}}, one
    assert all(one["failurePolicy"] == "Fail" for one in policies.values())
    engine = Both()
    judge, good, judged = Judge(policies["pods"], params, engine), sidecars(), 0
    assert params["data"]["image"] == f"{IMAGE['repository']}@{IMAGE['digest']}", params
    for name, pod in good.items():
        assert not judge.refusals(pod), f"{name}: {judge.refusals(pod)}"
        for spoil, said in spoilt():
            bad = copy.deepcopy(pod)
            spoil(bad)
            refused = judge.refusals(bad)
            assert any(said in message for message in refused), f"{name}: {said}: {refused}"
            bad["spec"]["serviceAccountName"] = "metrics"
            assert not judge.refusals(bad), f"{name}: an exempt account: {judge.refusals(bad)}"
            # A label or another namespace exempts nothing.
            bad["metadata"] = {"name": "x", "namespace": "other", "labels": {"exempt.agents.metrics": ""}}
            assert judge.refusals(bad), name
            judged += 3
    claim = copy.deepcopy(good["job"])
    volume(claim, {"name": "mine", "persistentVolumeClaim": {"claimName": "demo-wicketgate-ledger"}})
    assert any("claim of its ledger" in message for message in judge.refusals(claim)), judge.refusals(claim)
    naked = {"metadata": {"name": "x", "namespace": "agents"}, "spec": {"containers": [{"name": "agent", "image": "x"}]}}
    assert len(judge.refusals(naked)) >= 2, judge.refusals(naked)

    other, update = copy.deepcopy(naked), {"operation": "UPDATE"}
    other["metadata"]["finalizers"] = ["x"]
    assert not judge.refusals(naked, update, old=other)
    other["spec"]["containers"][0]["image"] = "y"
    assert judge.refusals(naked, update, old=other)

    judge = Judge(policies["ephemeral"], params, engine)
    user = {"runAsUser": 10001, "allowPrivilegeEscalation": False}
    fine = {"name": "look", "image": "x", "targetContainerName": "agent", "securityContext": user}
    of_gate = {"valueFrom": {"secretKeyRef": {"name": "gate-own", "key": "k"}}}
    for change, said in (({}, None), ({"targetContainerName": "gate"}, "processes of the gate"), ({"securityContext": {**user, "runAsUser": 65532}}, "processes of the gate"),
                         ({"securityContext": {"allowPrivilegeEscalation": False}}, "names no user"),
                         ({"securityContext": {"runAsUser": 10001}}, "can become another user"), ({"securityContext": {**user, "privileged": True}}, "is privileged"),
                         ({"securityContext": {**user, "capabilities": {"add": ["SYS_PTRACE"]}}}, "adds a capability"),
                         ({"env": [{"name": "X", **of_gate}]}, "Secret of the gate in a variable"), ({"envFrom": [{"secretRef": {"name": "gate-own"}}]}, "Secret of the gate in a variable"),
                         ({"volumeMounts": [{"name": "secrets", "mountPath": "/x"}]}, "mounts a volume of the gate")):
        pod = copy.deepcopy(good["job"])
        [mine] = [one for one in pod["spec"]["volumes"] if one["name"] == "secrets"]
        mine["projected"]["sources"] = [{"secret": {"name": "gate-own"}}]
        pod["spec"]["ephemeralContainers"] = [{**fine, **change}]
        refused = judge.refusals(pod)
        assert bool(refused) == bool(said) and all(said in message for message in refused), f"{change}: {refused}"

    judge = Judge(policies["marks"], params, engine)
    old = {**good["job"], "metadata": {"name": "x", "labels": {"wicketgate.dev/gate": "default"}, "annotations": {"wicketgate.dev/config": "a"}}}
    for kind, change, said in (
        ("labels", {"wicketgate.dev/gate": "default", "mine": "x"}, None), ("labels", {"wicketgate.dev/gate": "other"}, "`wicketgate.dev/gate`"), ("labels", {}, "`wicketgate.dev/gate`"),
        ("labels", None, "`wicketgate.dev/gate`"), ("annotations", {"wicketgate.dev/config": "a", "mine": "x"}, None), ("annotations", {"wicketgate.dev/config": "b"}, "`wicketgate.dev/config`"),
        ("annotations", {"wicketgate.dev/config": "a", "wicketgate.dev/profile-digest": "x"}, "`wicketgate.dev/profile-digest`"),
        ("annotations", {"wicketgate.dev/config": "a", "wicketgate.dev/agents": "x"}, "`wicketgate.dev/agents`"),
    ):
        new = {**old, "metadata": {**old["metadata"], kind: change}}
        refused = judge.refusals(bare(new), {"operation": "UPDATE"}, old=old)
        assert bool(refused) == bool(said) and all(said in message for message in refused), f"{kind} {change}: {refused}"

    judge = Judge(policies["debug"], params, engine)
    for what, container, groups, admits in (
        ("exec", "agent", [], True), ("exec", "gate", ["developers"], False), ("exec", "gate", ["sre"], True), ("attach", "gate", ["s", "re", "system:master"], False),
        ("exec", "", ["developers"], False), ("exec", "gate", ["system:masters,sre"], False), ("portforward", None, ["developers"], False), ("portforward", None, ["system:masters"], True),
    ):
        one = {} if container is None else {"container": container}
        refused = judge.refusals(one, {"subResource": what, "userInfo": {"username": "x", "groups": groups}})
        assert (not refused) == admits, f"{what} {container} {groups}: {refused}"
    assert engine.asked > 400, engine.asked
    print(f"{judged} pods were judged, and two engines agreed {engine.asked} times")


def cluster():
    """A cluster without this kind gets no rule, and none where the gate has a pod of its own."""
    values = examples()["job"]
    values["backstop"] = {"enabled": True}
    text, why = Helm().template(values)
    assert text is not None and "ValidatingAdmissionPolicy" not in text, why
    print("only where the cluster has the kind")


if __name__ == "__main__":
    {"admitted": admitted, "cluster": cluster}[sys.argv[1]]()
