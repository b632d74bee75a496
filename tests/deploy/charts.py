"""Has the chart rendered by Helm and judged: charts.py QUESTION."""

import copy
import itertools
import json
import random
import re
import sys

import kubernetes_validate

from rendering import (
    CHART, FOREIGN, IMAGE, Helm, accepted, check, examples, judged_by_checkov, manifests, native_sidecar, pods, rendered, restricted_pod)


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
    wanted = {"Deployment", "StatefulSet", "Job", "CronJob", "Service", "ServiceAccount", "ConfigMap", "NetworkPolicy",
              "PersistentVolumeClaim", "PodDisruptionBudget", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "Secret",
              "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"} | FOREIGN - {"Certificate", "Issuer"}
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
    assert count == 12, count
    same = examples()["job"]
    same["agent"]["uid"] = 65532
    text, why = helm.template(same)
    assert text is None and "must not be the user the gate is" in why, why
    print(f"{count} pods are restricted")


def large(schema, at=()):
    """(path, greatest value) of each whole number that the schema lets have seven digits: Helm reads numbers as floats."""
    for name, one in schema.get("properties", {}).items():
        if one.get("type") == "integer" and one.get("maximum", 0) >= 1_000_000:
            yield (*at, name), one["maximum"]
        yield from large(one, (*at, name))


def admitted(at, spec, ids):
    """Holds a pod to the security context constraints `restricted-v2` of OpenShift in a namespace with this range of users and groups."""
    pod = spec["securityContext"]
    assert pod["fsGroup"] in ids, f"{at}: fsGroup {pod['fsGroup']}"
    assert not any(spec.get(field) for field in ("hostNetwork", "hostPID", "hostIPC")), at
    kinds = {kind for volume in spec.get("volumes", []) for kind in volume if kind != "name"}
    assert kinds <= {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret"}, f"{at}: {kinds}"
    for container in spec.get("initContainers", []) + spec["containers"]:
        context = pod | container["securityContext"]
        assert type(context["runAsUser"]) is int and context["runAsUser"] in ids, f"{at}: {container['name']} is {context['runAsUser']}"
        assert context["allowPrivilegeEscalation"] is False and not context.get("privileged"), at
        assert "ALL" in context["capabilities"]["drop"] and not set(context["capabilities"].get("add", [])) - {"NET_BIND_SERVICE"}, at
        assert context["seccompProfile"] == {"type": "RuntimeDefault"} and "seLinuxOptions" not in context, at
        assert not any("hostPort" in port for port in container.get("ports", [])), at


def openshift(helm):
    """With numbers of the namespace's range every pod is admitted, and every number is written in full."""
    first = 1_000_740_000
    ids, count = range(first, first + 10_000), 0
    users = {"agent": {"uid": first + 1}} | {part: {"uid": first + 2, "gid": first + 2} for part in ("gate", "hub", "migration", "injector")}
    paths = dict(large(json.loads((CHART / "values.schema.json").read_text())))
    assert {(part, name) for part, own in users.items() for name in own} <= paths.keys(), paths
    for name, values in examples().items():
        for path, most in paths.items():
            part = values
            for step in path[:-1]:
                part = part.setdefault(step, {})
            part[path[-1]] = users.get(path[0], {}).get(path[-1], most)
        for profile in values["injector"].get("profiles", {}).values():
            profile["uid"] = first + 1
        text, why = helm.template(values)
        assert text is not None, f"{name}: {why}"
        written = re.findall(r"\b\d(?:\.\d+)?e[+]\d+", text)
        assert not written, f"{name}: {written}"
        for one, spec in pods(manifests(text)):
            at = f"{name}: {one['kind']} {one['metadata']['name']}"
            count += 1
            check(one)
            restricted_pod(at, spec)
            admitted(at, spec, ids)
    # The check can fail: the chart's own numbers are of no such range.
    [spec, *_] = [spec for _, spec in pods(rendered(helm)["deployment"])]
    try:
        admitted("deployment", spec, ids)
    except AssertionError:
        print(f"{count} pods are admitted")
    else:
        raise SystemExit("a user outside the range was not found")


def sidecar(helm):
    count = 0
    for all_of_it in rendered(helm).values():
        for one, spec in pods(all_of_it):
            for container in spec.get("initContainers", []):
                if container["name"] == "gate":
                    count += 1
                    native_sidecar(spec, container)
    assert count == 4, count
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
                # A hub reads its files when it starts but for hub.yaml, and a gate takes them over.
                assert bool(anew) == (part == "hub" and path != "hub.yaml") and all("hub" in key[1] for key in anew), f"{name}: {path}: {anew}"
                count += 1
    assert count >= 4, count
    print(f"{count} files change nothing but what they say")


def ledger(helm):
    """An installation says where its ledger is kept, and none loses it by surprise."""
    postgres = {"files": {"wicketgate.yaml": "ledger: {postgres: {url_file: /run/secrets/wicketgate/url}}\n"}}
    by_variable = {"files": {"wicketgate.yaml": ""}, "env": [{"name": "WICKETGATE__LEDGER__POSTGRES__URL_FILE", "value": "/x"}]}
    sqlite = {"files": {"wicketgate.yaml": "ledger: {sqlite: {}}\n"}}
    volume, ephemeral = {"persistence": {"enabled": True}}, {"ephemeral": True}
    ends = "THE LEDGER ENDS WITH THE POD"
    for gate, kept, wanted in (
        ({}, {}, "choose where the ledger is kept"), (sqlite, {}, "choose where the ledger is kept"),
        (sqlite, {**volume, **ephemeral}, "exclude each other"),
        (postgres, {}, None), (by_variable, {}, None), (sqlite, volume, None), (sqlite, ephemeral, ends),
    ):
        values = examples()["job"]
        values["gate"].update(gate)
        values["ledger"] = kept
        told, why = helm.install(values)
        if told is None:
            assert wanted and wanted in why, f"{gate} {kept}: {why}"
            continue
        assert (ends in told.split("NOTES:")[1]) == (wanted == ends), f"{gate} {kept}: {told.split('NOTES:')[1]}"
        assert ("kind: PersistentVolumeClaim" in told) == (kept == volume), told
    print("no ledger is lost by surprise")


def refused(values, path, change):
    """The values with one change at a path."""
    values = copy.deepcopy(values)
    at = values
    for name in path[:-1]:
        at = at.setdefault(name, {})
    at[path[-1]] = change
    return values


def refusals(helm):
    """What would give the agent what is the gate's, or break a pod, is refused with the name of the value."""
    of = examples()
    guest = {"name": "x", "image": "x"}
    for example, path, change, said in (
        ("statefulset", ["agent", "volumeMounts"], [{"name": "secrets", "mountPath": "/x"}], "agent.volumeMounts: `secrets`"),
        ("statefulset", ["agent", "volumeMounts"], [{"name": "programs", "mountPath": "/x"}], "agent.volumeMounts: `programs`"),
        ("statefulset", ["agent", "volumes"], [{"name": "state", "emptyDir": {}}], "agent.volumes"),
        ("statefulset", ["agent", "volumes"], [{"name": "documents", "emptyDir": {}}], "agent.volumes"),
        ("statefulset", ["agent", "extraContainers"], [{**guest, "volumeMounts": [{"name": "secrets", "mountPath": "/x"}]}], "agent.extraContainers"),
        ("statefulset", ["agent", "initContainers"], [{**guest, "volumeMounts": [{"name": "state", "mountPath": "/x"}]}], "agent.initContainers"),
        ("statefulset", ["agent", "extraContainers"], [{**guest, "securityContext": {"runAsUser": 65532}}], "must not be the user"),
        ("deployment", ["gate", "volumes"], [{"name": "socket", "emptyDir": {}}], "volumes: the chart has a volume `socket`"),
        ("statefulset", ["gate", "files", "keys/policy.pem"], "-----BEGIN PRIVATE KEY-----\n", "`keys/policy.pem` is a private key"),
        ("statefulset", ["gate", "files", "policy--org/rules.rego"], "", "have one key"),
        ("statefulset", ["ledger", "persistence", "existingClaim"], "books", "replicas cannot share"),
        ("statefulset", ["agent", "kind"], "Deployment", "replicas cannot share"),
        ("statefulset", ["image", "repository"], "", "image.repository"),
        ("statefulset", ["agent", "egress"], [{"host": "api.example.com", "ports": [443]}], "agent"),
        ("cronjob", ["agent", "cron", "schedule"], "", "agent.cron.schedule"),
        ("deployment", ["gate", "secrets"], [{"name": n, "items": [{"key": "k", "path": "a"}]} for n in "ab"], "two items have the path `a`"),
        ("deployment", ["gate", "secrets"], [{"name": "a", "items": [{"key": "k", "path": "tls.key"}]}], "the path `tls.key`"),
        ("separate", ["gate", "separate", "clusterIP"], "", "gate.separate.clusterIP"),
        ("hub", ["hub", "ingress"], {"enabled": True}, "hub.ingress.host"),
    ):
        text, why = helm.template(of[example])
        assert text is not None, why
        text, why = helm.template(refused(of[example], path, change))
        assert text is None and said in why, f"{path} {change}: {why}"
    for example, kind in (("cronjob", "CronJob"), ("statefulset", "StatefulSet"), ("deployment", None)):
        text, why = helm.template(of[example], "a" * 40)
        assert (text is None and f"a {kind} with a name of more than 52" in why) if kind else text is not None, f"{example}: {why}"
    print("each is refused by name")


def matrix(helm):
    """Combinations of the choices render to something valid, or are refused with a reason: each kind with each ledger and topology, the
    rest twice, once as a pattern and once as its opposite, so that each pair of choices meets."""
    kinds = ("Deployment", "StatefulSet", "Job", "CronJob")
    kept = ({"ephemeral": True}, {"persistence": {"enabled": True}}, {"persistence": {"enabled": True, "existingClaim": "books"}}, {})
    valid = why_not = 0
    for number, (kind, ledger, alone, opposite) in enumerate(itertools.product(kinds, kept, (False, True), (False, True))):
        tls, ports, enrolment = ((number // 2 >> bit & 1 == 1) != opposite for bit in range(3))
        values = {
            "image": dict(IMAGE), "ledger": ledger, "kubernetesEnrolment": {"enabled": enrolment},
            "agent": {"kind": kind, "image": "agent:1", "cron": {"schedule": "0 0 * * *"}, "tlsSecret": "agent-tls" if alone else "",
                      "ports": [{"name": "http", "containerPort": 8080}] if ports else []},
            "gate": {"files": {"wicketgate.yaml": "" if ledger else "ledger: {postgres: {url_env: X}}"}, "tlsSecret": "gate-tls" if tls else "",
                     "secrets": [{"name": "ledger-ca", "items": [{"key": "ca.crt", "path": "ca.crt"}]}], "separate": {"enabled": alone}},
        }
        text, why = helm.template(values)
        if alone and not tls:
            assert text is None and "gate.tlsSecret" in why, why
            why_not += 1
            continue
        assert text is not None, f"{values}: {why}"
        all_of_it = manifests(text)
        for one in all_of_it:
            check(one)
        for one, spec in pods(all_of_it):
            restricted_pod(f"{values}: {one['kind']}", spec)
            names = [volume["name"] for volume in spec["volumes"]] + ["state"] * (one["spec"].get("volumeClaimTemplates") is not None)
            assert len(names) == len(set(names)), names
            for container in spec.get("initContainers", []) + spec["containers"]:
                assert {mount["name"] for mount in container["volumeMounts"]} <= set(names), container
            for volume in spec["volumes"]:
                paths = [item["path"] for source in volume.get("projected", {}).get("sources") or [] for item in source.get("secret", {}).get("items", [])]
                assert len(paths) == len(set(paths)), paths
        valid += 1
    print(f"{valid} combinations are valid, {why_not} are refused")


def network(helm):
    """Who calls the agent and whom it calls is what the values say."""
    named = {(one["kind"], one["metadata"]["name"]): one for one in rendered(helm)["statefulset"]}
    spec = named["NetworkPolicy", "demo-wicketgate-agent"]["spec"]
    [caller] = spec["ingress"]
    assert caller["ports"] == [{"protocol": "TCP", "port": 8080}], caller
    assert caller["from"] == examples()["statefulset"]["agent"]["callers"], caller
    [_, block, cache] = spec["egress"]
    assert block == {"to": [{"ipBlock": {"cidr": "192.0.2.0/24", "except": ["192.0.2.128/25"]}}], "ports": [{"protocol": "TCP", "port": 443}]}
    [peer] = cache["to"]
    assert peer["podSelector"]["matchLabels"] == {"app": "redis"} and cache["ports"] == [{"protocol": "TCP", "port": 6379}], cache
    service = named["Service", "demo-wicketgate-agent"]["spec"]
    assert service["ports"] == [{"name": "http", "port": 8080, "targetPort": "http", "protocol": "TCP"}], service
    # What the owner names is there, and Secrets reach no ConfigMap.
    claims = named["StatefulSet", "demo-wicketgate-agent"]["spec"]["volumeClaimTemplates"]
    assert claims[0]["spec"]["resources"]["requests"]["storage"] == "20Gi", claims
    assert set(named["ConfigMap", "demo-wicketgate-agent"]["data"]) == {"wicketgate.yaml", "policy--org--rules.rego"}
    closed = {(one["kind"], one["metadata"]["name"]): one for one in rendered(helm)["job"]}
    assert not closed["NetworkPolicy", "demo-wicketgate-agent"]["spec"]["ingress"]
    print("the network is what the values say")


def archived(helm):
    """A gate with a signed archive, from the values or from a volume of any source: it gets no other configuration, and the key is not the archive's."""
    key = "-----BEGIN PUBLIC KEY-----\n"
    of = {"image": dict(IMAGE), "agent": {"image": "agent:1"}, "ledger": {"ephemeral": True}}
    for number, (archive, path) in enumerate((
        ({"text": "{}"}, "/etc/wicketgate/gate.archive"),
        ({"volume": {"configMap": {"name": "reviewer"}}}, "/etc/wicketgate-archive/gate.archive"),
        ({"volume": {"secret": {"secretName": "reviewer"}}, "path": "a/b"}, "/etc/wicketgate-archive/a/b"),
        ({"volume": {"image": {"reference": "registry.example/reviewer:1"}}}, "/etc/wicketgate-archive/gate.archive"),
        ({"volume": {"persistentVolumeClaim": {"claimName": "reviewer"}}}, "/etc/wicketgate-archive/gate.archive"),
    )):
        for alone in (False, True):
            gate = {"archive": {**archive, "publicKey": key}, "separate": {"enabled": alone}, "tlsSecret": "gate-tls" if alone else ""}
            values = {**of, "gate": gate, "agent": {**of["agent"], "tlsSecret": "agent-tls" if alone else ""}}
            text, why = helm.template(values)
            assert text is not None, why
            all_of_it = manifests(text)
            for one in all_of_it:
                check(one)
            found = 0
            for one, spec in pods(all_of_it):
                # Whether a restricted namespace admits a volume of this kind is the cluster's affair, and everything else is ours.
                own = {**spec, "volumes": [volume for volume in spec["volumes"] if "image" not in volume]}
                restricted_pod(one["kind"], own)
                for container in spec.get("initContainers", []) + spec["containers"]:
                    mounts = {mount["mountPath"] for mount in container["volumeMounts"]}
                    if container["name"] != "gate":
                        assert "/etc/wicketgate-archive" not in mounts, container
                        continue
                    found += 1
                    assert container["args"] == ["serve", "--config-archive", path, "--archive-key", "/etc/wicketgate/archive.pub", "--json"], container["args"]
                    assert ("/etc/wicketgate-archive" in mounts) == ("volume" in archive), mounts
                    assert all(mount["readOnly"] for mount in container["volumeMounts"] if mount["name"] == "archive"), container
                    [volume] = [volume for volume in spec["volumes"] if volume["name"] == "archive"] or [None]
                    assert volume == ({"name": "archive", **archive["volume"]} if "volume" in archive else None), volume
            assert found == 1, f"{number}: {found}"
            [data] = [one["data"] for one in all_of_it if one["kind"] == "ConfigMap"]
            assert data == {"archive.pub": key, **({"gate.archive": "{}"} if "text" in archive else {})}, data
    good = {**of, "gate": {"archive": {"text": "{}", "publicKey": key}}}
    for path, change, said in (
        (["gate", "archive", "publicKey"], "", "gate.archive.publicKey"),
        (["gate", "archive", "volume"], {"emptyDir": {}}, "exclude each other"),
        (["gate", "files"], {"wicketgate.yaml": ""}, "`wicketgate.yaml` is in `gate.archive`"),
        (["gate", "files"], {"archive.pub": ""}, "`archive.pub` is a file of the chart's"),
        (["gate", "volumes"], [{"name": "archive", "emptyDir": {}}], "the chart has a volume `archive`"),
        (["agent", "volumes"], [{"name": "archive", "emptyDir": {}}], "agent.volumes"),
        (["ledger"], {}, "choose where the ledger is kept"),
        (["gate", "archive", "path"], "../x", "gate"),
    ):
        text, why = helm.template(refused(good, path, change))
        assert text is None and said in why, f"{path} {change}: {why}"
    text, why = helm.template(refused(good, ["ledger"], {"postgres": True}))
    assert text is not None, why
    archived_hub(helm, key)
    print("each source of an archive is mounted in the gate alone")


def archived_hub(helm, key):
    """A hub with a signed archive gets no other configuration, and the agents of its release do not get the archive."""
    of = {"image": dict(IMAGE), "agent": {"enabled": False}}
    for archive, path in (
        ({"text": "{}"}, "/etc/wicketgate/hub.archive"),
        ({"volume": {"configMap": {"name": "hub"}}}, "/etc/wicketgate-archive/hub.archive"),
        ({"volume": {"image": {"reference": "registry.example/hub:1"}}, "path": "a/b"}, "/etc/wicketgate-archive/a/b"),
    ):
        text, why = helm.template({**of, "hub": {"enabled": True, "tlsSecret": "hub-tls", "archive": {**archive, "publicKey": key}}})
        assert text is not None, why
        all_of_it = manifests(text)
        for one in all_of_it:
            check(one)
        [(_, spec)] = pods(all_of_it)
        [hub] = spec["containers"]
        assert hub["args"] == ["serve", "hub", "--config", "hub.yaml", "--config-archive", path, "--archive-key", "/etc/wicketgate/archive.pub", "--json"], hub["args"]
        mounted = [mount for mount in hub["volumeMounts"] if mount["name"] == "archive"]
        held = [volume for volume in spec["volumes"] if volume["name"] == "archive"]
        if "volume" in archive:
            assert mounted == [{"name": "archive", "mountPath": "/etc/wicketgate-archive", "readOnly": True}], mounted
            assert held == [{"name": "archive", **archive["volume"]}], held
        else:
            assert not mounted and not held
        [data] = [one["data"] for one in all_of_it if one["kind"] == "ConfigMap"]
        assert data == {"archive.pub": key, **({"hub.archive": "{}"} if "text" in archive else {})}, data
    good = {**of, "hub": {"enabled": True, "tlsSecret": "hub-tls", "archive": {"text": "{}", "publicKey": key}}}
    for path, change, said in (
        (["hub", "archive", "publicKey"], "", "hub.archive.publicKey"),
        (["hub", "archive", "text"], "", "`hub.yaml` is missing"),
        (["hub", "files"], {"hub.yaml": ""}, "`hub.yaml` is in `hub.archive`"),
    ):
        text, why = helm.template(refused(good, path, change))
        assert text is None and said in why, f"{path} {change}: {why}"


def papers(helm):
    """The table of values is what the schema and the values say: papers writes it where WICKETGATE_BLESS is set."""
    sys.path.insert(0, str(CHART.parent))
    import table
    assert table.current(), "deploy/helm/wicketgate/README.md is not what deploy/helm/table.py makes: run it"
    print("the table is current")


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
    # Without a fixed address the agent asks the cluster's DNS for its gate.
    values = examples()["separate"]
    values["gate"]["separate"]["clusterIP"] = ""
    values["gate"]["files"]["wicketgate.yaml"] = "ledger: {postgres: {url_env: X}}"
    text, why = helm.template(values)
    assert text is not None and "hostAliases" not in text and "clusterIP:" not in text, why
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
    found, bound, roles = {}, [], {}
    for name, all_of_it in rendered(helm).items():
        bound += [(one["roleRef"]["name"], one["subjects"]) for one in all_of_it if one["kind"] == "ClusterRoleBinding"]
        roles |= {one["metadata"]["name"]: one["rules"] for one in all_of_it if one["kind"] == "ClusterRole"}
        for one, spec in pods(all_of_it):
            for volume in spec.get("volumes", []):
                sources = volume.get("projected", {}).get("sources") or []
                for token in [source["serviceAccountToken"] for source in sources if "serviceAccountToken" in source]:
                    mounted = [container["name"] for container in spec.get("initContainers", []) + spec["containers"]
                               if volume["name"] in [mount["name"] for mount in container["volumeMounts"]]]
                    env = {one["name"]: one.get("value") for container in spec.get("initContainers", []) + spec["containers"]
                           if container["name"] in mounted for one in container["env"]}
                    found[name] = (mounted, token.get("audience"), spec["serviceAccountName"], env)
    assert set(found) == {"hub", "deployment", "injector"}, found
    makers, own, account, _ = found["injector"]
    assert (makers, own, account) == (["certs"], None, "demo-wicketgate-injector-certs"), found["injector"]
    role = next(role for role in roles if role.endswith("-injector-certs"))
    assert all("create" not in rule["verbs"] and rule["resourceNames"] for rule in roles.pop(role)), role
    bound.remove((role, [{"kind": "ServiceAccount", "name": account, "namespace": "agents"}]))
    gates, audience, account, env = found["deployment"]
    assert (gates, audience) == (["gate"], "wicketgate-hub"), found["deployment"]
    assert env["WICKETGATE__LEDGER__POSTGRES__SLOTS"] == f"agents/{account}", env
    assert env["WICKETGATE__ENROLMENT__TOKEN_FILE"] == "/run/secrets/wicketgate-enrolment/token", env
    hubs, own, account, env = found["hub"]
    assert (hubs, own) == (["hub"], None), found["hub"]
    assert env["WICKETGATE__HUB__ENROLMENT__KUBERNETES__AUDIENCE"] == audience, env
    [role] = roles
    assert roles[role] == [{"apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"]}], roles
    assert bound == [(role, [{"kind": "ServiceAccount", "name": account, "namespace": "agents"}])], bound
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
        if "anyOf" in inner or inner.get("properties") == {}:
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
    {"valid": valid, "restricted": restricted, "openshift": openshift, "sidecar": sidecar, "separate": separate, "changes": changes, "ledger": ledger, "refusals": refusals, "matrix": matrix, "network": network, "papers": papers, "archived": archived, "tokens": tokens, "enrolment": enrolment, "fuzz": fuzz, "checkov": checkov}[sys.argv[1]](Helm())
