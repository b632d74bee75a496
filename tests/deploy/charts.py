"""Has the chart rendered by Helm and judged: charts.py QUESTION."""

import copy
import json
import random
import sys

import kubernetes_validate

from rendering import (
    CHART, FOREIGN, Helm, accepted, check, examples, judged_by_checkov, manifests, native_sidecar, pods, rendered, restricted_pod)


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
        accepted(all_of_it)
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


def restricted(helm):
    count = 0
    for name, all_of_it in rendered(helm).items():
        accounts = {one["metadata"]["name"]: one for one in all_of_it if one["kind"] == "ServiceAccount"}
        for one, spec in pods(all_of_it):
            at = f"{name}: {one['kind']} {one['metadata']['name']}"
            count += 1
            assert accounts[spec["serviceAccountName"]]["automountServiceAccountToken"] is False, at
            restricted_pod(at, spec)
    assert count == 7, count
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
                if container["name"] != "doctor":
                    count += 1
                    native_sidecar(spec, container)
    assert count == 2, count
    migration = next(spec for one, spec in pods(rendered(helm)["hub"]) if "migration" in one["metadata"]["name"])
    assert migration["restartPolicy"] == "Never" and "initContainers" not in migration
    print(f"{count} native sidecars")


def changes(helm):
    """Whose pods start anew when a file says something else, and what an installation is told of its ledger."""
    def templates(values):
        text, why = helm.template(values)
        assert text is not None, why
        named = {(one["kind"], one["metadata"]["name"]): one for one in manifests(text)}
        specs = {key: one["spec"]["template"] for key, one in named.items() if "template" in one.get("spec", {})}
        return specs, {key: one["data"] for key, one in named.items() if key[0] == "ConfigMap"}

    count = 0
    for name, values in examples().items():
        for part in ("gate", "hub"):
            for path in values.get(part, {}).get("files", {}):
                changed = copy.deepcopy(values)
                changed[part]["files"][path] += "\n# another text\n"
                (before, texts), (after, others) = templates(values), templates(changed)
                assert texts != others, f"{name}: {path} reaches no ConfigMap"
                anew = {key for key in before if before[key] != after[key]}
                # A hub reads its files when it starts, and a gate takes them over.
                assert bool(anew) == (part == "hub") and all("hub" in key[1] for key in anew), f"{name}: {path}: {anew}"
                count += 1
    assert count >= 4, count
    ends = "THE LEDGER ENDS WITH THE POD"
    for name, change, wanted in (
        ("job", {}, True),
        ("job", {"stateClaim": "books"}, False),
        ("job", {"files": {"wicketgate.yaml": "ledger: {postgres: {url_file: /run/secrets/wicketgate/url}}\n"}}, False),
        ("job", {"files": {"wicketgate.yaml": "ledger: {sqlite: {}}\n"}}, True),
    ):
        values = examples()[name]
        values["gate"].update(change)
        told, why = helm.install(values)
        assert told is not None, why
        assert (ends in told.split("NOTES:")[1]) == wanted, f"{name} {change}: {told.split('NOTES:')[1]}"
        assert ("persistentVolumeClaim" in told) == ("stateClaim" in change), told
    print(f"{count} files change nothing but what they say")


def separate(helm):
    """An agent whose network reaches its gate and nothing else; what is printed is run by who asks."""
    all_of_it = rendered(helm)["separate"]
    named = {(one["kind"], one["metadata"]["name"]): one for one in all_of_it}
    [agent, gate] = [named["Deployment", f"demo-wicketgate-{part}"]["spec"]["template"] for part in ("agent", "gate")]
    policies = [one["spec"] for kind, one in ((key[0], one) for key, one in named.items()) if kind == "NetworkPolicy"]
    for template, port in ((agent, None), (gate, 7302)):
        labels = template["metadata"]["labels"]
        [policy] = [one for one in policies if one["podSelector"]["matchLabels"].items() <= labels.items()]
        assert policy["policyTypes"] == ["Ingress", "Egress"], policy
        if port is None:
            [rule] = policy["egress"]
            [peer] = rule["to"]
            assert list(peer) == ["podSelector"] and not policy["ingress"], policy
            assert peer["podSelector"]["matchLabels"].items() <= gate["metadata"]["labels"].items(), policy
            assert rule["ports"] == [{"protocol": "TCP", "port": 7302}], policy
        else:
            [rule] = [rule for rule in policy["ingress"] if {"protocol": "TCP", "port": port} in rule["ports"]]
            [peer] = rule["from"]
            assert peer["podSelector"]["matchLabels"].items() <= agent["metadata"]["labels"].items(), policy
    service = named["Service", "demo-wicketgate-gate"]["spec"]
    # Where isolation is enforced, the gate is ready only after the doctor has reached it.
    assert service["publishNotReadyAddresses"] is True, service
    [alias] = agent["spec"]["hostAliases"]
    assert alias["ip"] == service["clusterIP"], alias
    [doctor], [own], [theirs] = agent["spec"]["initContainers"], agent["spec"]["containers"], gate["spec"]["containers"]
    assert doctor["securityContext"] == own["securityContext"] and doctor["restartPolicy"] == "Always", doctor
    assert f"https://{alias['hostnames'][0]}:7302" in doctor["args"], doctor
    volumes = [next(iter(set(volume) - {"name"})) for volume in agent["spec"]["volumes"]]
    assert sorted(volumes) == ["emptyDir", "secret"], volumes
    for spoilt, said in (({"clusterIP": ""}, "clusterIP"), ({}, "agent.tlsSecret")):
        values = examples()["separate"]
        values["gate"]["separate"].update(spoilt)
        if not spoilt:
            del values["agent"]["tlsSecret"]
        text, why = helm.template(values)
        assert text is None and said in why, why
    print(json.dumps({"doctor": doctor["args"], "env": {one["name"]: one["value"] for one in theirs["env"]}}))


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


def selects(selector, labels):
    """Whether a label selector of Kubernetes selects what has these labels."""
    wanted = selector.get("matchLabels", {}).items()
    among = selector.get("matchExpressions", [])
    assert all(one["operator"] == "In" for one in among), selector
    return all(labels.get(key) == value for key, value in wanted) and all(labels.get(one["key"]) in one["values"] for one in among)


def let(rules, direction, port, labels):
    """Whether a pod of these labels in the same namespace may be reached at, or reach, this port."""
    peers = [peer for rule in rules if port in [one["port"] for one in rule["ports"]] for peer in rule[direction]]
    return any(selects(peer["podSelector"], labels) for peer in peers if set(peer) == {"podSelector"})


def enrolment(helm):
    """Gates of one release reach the hub of another, and nobody else does."""
    of = {}
    for release, example in (("demo", "deployment"), ("hub", "hub"), ("alone", "separate")):
        text, why = helm.template(examples()[example], release)
        assert text is not None, why
        for one in manifests(text):
            of[release, one["kind"], one["metadata"]["labels"].get("app.kubernetes.io/component")] = one
    pod = lambda release, part: of[release, "Deployment", part]["spec"]["template"]["metadata"]["labels"]
    policy = lambda release, part: of[release, "NetworkPolicy", part]["spec"]
    into = policy("hub", "hub")["ingress"]
    assert let(into, "from", 7303, pod("demo", "agent")) and let(into, "from", 7303, pod("alone", "gate"))
    assert let(policy("demo", "agent")["egress"], "to", 7303, pod("hub", "hub"))
    for other in ({}, {**pod("demo", "agent"), "app.kubernetes.io/name": "other"}, pod("hub", "hub")):
        assert not let(into, "from", 7303, other), other
    assert not let(into, "from", 7301, pod("demo", "agent"))
    named = examples()["hub"]
    named["networkPolicy"]["gates"] = [{"podSelector": {"matchLabels": {"mine": "true"}}}]
    text, why = helm.template(named, "hub")
    assert text is not None, why
    into = next(one for one in manifests(text) if one["kind"] == "NetworkPolicy" and one["metadata"]["name"].endswith("-hub"))["spec"]["ingress"]
    assert let(into, "from", 7303, {"mine": "true"}) and not let(into, "from", 7303, pod("demo", "agent"))
    print("gates reach their hub")


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
        labels = {dice.choice(["grafana_dashboard", "example.org/folder"]): dice.choice(["1", "", "wicket.gate"])}
        values.setdefault("monitoring", {})["dashboard"] = {"enabled": dice.random() < 0.5, "labels": labels}
        text, why = helm.template(values)
        assert text is not None, why
        for one in manifests(text):
            check(one)
    print(f"{refused} refused")


def checkov(helm):
    passed, failed = judged_by_checkov(rendered(helm))
    for one in failed:
        print(one["check_id"], one["resource"], one["check_name"])
    assert passed > 200, passed
    print(f"{passed} passed, {len(failed)} failed")
    sys.exit(bool(failed))


if __name__ == "__main__":
    {"valid": valid, "restricted": restricted, "sidecar": sidecar, "separate": separate, "changes": changes, "tokens": tokens, "enrolment": enrolment, "fuzz": fuzz, "checkov": checkov}[sys.argv[1]](Helm())
