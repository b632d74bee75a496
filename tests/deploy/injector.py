"""The built injector, called as the API server calls it: injector.py QUESTION FOLDER-OF-THE-PROGRAM FOLDER-OF-CERTIFICATES."""

import base64
import contextlib
import copy
import functools
import http.server
import json
import os
import pathlib
import queue
import random
import re
import shutil
import ssl
import subprocess
import sys
import tempfile
import threading

import kubernetes_validate
import yaml

import backstop
import kustomize
from admission import TIMEOUT, ApiServer, Refused, Remote, review, with_defaults, with_token
from apiserver import Api, authority
from engines import Both
from rendering import IMAGE, TOP, Helm, rendered, VERSION, native_sidecar, restricted_pod

PINNED = f"{IMAGE['repository']}@{IMAGE['digest']}"
GATE_UID = 65532
OURS = ("config", "secrets", "state", "socket", "tmp")


@functools.cache
def sidecar():
    return json.dumps(yaml.safe_load((TOP / "deploy/kustomize/components/sidecar/pod.yaml").read_text()))


def profile():
    """A profile of the pod that kustomize makes: one shape, whoever gives it to a pod."""
    patch = json.loads(sidecar())["spec"]["template"]
    pod = patch["spec"]
    [agent] = pod.pop("containers")
    agent.pop("name")
    pod["initContainers"][0]["image"] = PINNED
    [config] = [one for one in pod["volumes"] if one["name"] == "config"]
    config["configMap"] = {}
    return {"profile": "strict", "labels": patch["metadata"]["labels"], "pod": pod, "agent": agent, "config": {"volume": "config"}}


def bare(**labels):
    """An agent as its owner wrote it."""
    return {"apiVersion": "v1", "kind": "Pod",
            "metadata": {"generateName": "reviewer-", "labels": {"app": "reviewer", "wicketgate.dev/gate": "strict", **labels},
                         "annotations": {"wicketgate.dev/config": "reviewer-gate"}},
            "spec": {"containers": [{
                "name": "agent", "image": f"agent@{IMAGE['digest']}", "env": [{"name": "MODEL", "value": "m"}],
                "resources": {"requests": {"cpu": "1000m", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1024Mi"}}}]}}


def workload(kind):
    """A pod as the controller of this kind creates it."""
    pod = bare()
    pod["metadata"]["ownerReferences"] = [{"apiVersion": "apps/v1" if kind in ("ReplicaSet", "StatefulSet") else "batch/v1", "kind": kind, "name": "reviewer",
                                           "uid": "a8f1c1de-0000-4000-8000-000000000000", "controller": True, "blockOwnerDeletion": True}]
    if kind == "Job":
        pod["metadata"]["labels"]["batch.kubernetes.io/job-name"] = "reviewer"
        pod["spec"]["restartPolicy"] = "Never"
    if kind == "StatefulSet":
        pod["metadata"]["name"] = "reviewer-0"
        pod["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": "data-reviewer-0"}}]
        pod["spec"]["containers"][0]["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
    return pod


@contextlib.contextmanager
def running(cert="injector", profiles=None):
    """(address, folder of the profiles and the certificate) of an injector."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "profiles").mkdir()
        for name, text in (profiles or {"strict": yaml.safe_dump(profile())}).items():
            (folder / "profiles" / f"{name}.yaml").write_text(text)
        certify(folder, cert)
        log = folder / "log"
        process = subprocess.Popen(
            [PROGRAM, "injector", "serve", "--profiles", folder / "profiles", "--listen", "127.0.0.1:0", "--tls-cert", folder / "tls.crt", "--tls-key", folder / "tls.key"],
            stdout=subprocess.PIPE, stderr=log.open("w"), text=True)
        try:
            line = process.stdout.readline()
            assert line.startswith("listening on https://127.0.0.1:"), f"{line} {log.read_text()}"
            yield line.split()[-1], folder
        finally:
            process.terminate()
            process.communicate()
        assert process.returncode == 0 and "panicked" not in log.read_text(), log.read_text()


def certify(folder, name):
    """Puts a certificate in place as kubelet does: whole or not at all."""
    for suffix, to in (("pem", "tls.crt"), ("key", "tls.key")):
        shutil.copy(f"{CERTIFICATES}/{name}.{suffix}", folder / f"{to}.new")
        os.replace(folder / f"{to}.new", folder / to)


@contextlib.contextmanager
def injector():
    with running() as (place, _):
        yield Remote(place, f"{CERTIFICATES}/ca.pem")


def until(holds):
    """Asks again until it is so."""
    for _ in range(20_000):
        if holds():
            return
    raise AssertionError("it never became so")


def by_name(things):
    return {one["name"]: one for one in things}


def governed(pod, agents):
    """Holds a pod to what a gate means, without asking the injector; `agents`: its agents' names."""
    spec, ours = pod["spec"], profile()
    gate = spec["initContainers"][0]
    assert gate["name"] == "gate" and gate["image"] == PINNED and gate["restartPolicy"] == "Always", gate
    [wanted] = ours["pod"]["initContainers"]
    for key in ("command", "args", "env", "volumeMounts", "securityContext"):
        assert gate[key] == wanted[key], (key, gate[key])
    assert not gate.keys() & {"envFrom", "lifecycle", "ports", "volumeDevices"}, gate
    assert spec["automountServiceAccountToken"] is False
    assert not any(spec.get(one) for one in ("hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace")), spec
    for volume in spec["volumes"]:
        sources = volume.get("projected", {}).get("sources") or []
        assert not any("serviceAccountToken" in one for one in sources), volume
    mounts = by_name(ours["agent"]["volumeMounts"])
    for one in spec["initContainers"][1:] + spec["containers"]:
        context = one["securityContext"]
        assert context["runAsUser"] not in (0, GATE_UID) and context["allowPrivilegeEscalation"] is False, one
        assert not context.get("privileged") and not context.get("capabilities", {}).get("add"), one
        for mount in one.get("volumeMounts", []):
            allowed = one["name"] in agents and mounts.get(mount["name"]) == mount
            assert mount["name"] not in OURS or allowed, (one["name"], mount)
        values = [each.get("value") for each in one.get("env", []) if each["name"] == "WICKETGATE_SOCKET"]
        assert values == ["/run/wicketgate/agent.sock"] or one["name"] not in agents, one
        assert one["name"] not in agents or mounts.keys() <= {each["name"] for each in one["volumeMounts"]}, one


def rules():
    """The admission rules that stay when the injector is gone."""
    policies, params, _ = backstop.rules()
    return backstop.Judge(policies["pods"], params, Both())


def workloads():
    count, judge = 0, rules()
    [theirs] = [spec for one, spec in kustomize.pods(kustomize.overlays()["job"]) if one["kind"] == "Job"]
    with injector() as asked:
        api = ApiServer(asked)
        for kind in ("ReplicaSet", "Job", "CronJob", "StatefulSet"):
            pod = api.create(workload("Job" if kind == "CronJob" else kind))
            governed(pod, {"agent"})
            kubernetes_validate.validate({**pod, "apiVersion": "v1", "kind": "Pod"}, VERSION, strict=True)
            restricted_pod(kind, {**pod["spec"], "volumes": [one for one in pod["spec"]["volumes"] if one["name"] != "data"]})
            native_sidecar(pod["spec"], pod["spec"]["initContainers"][0])
            pod["metadata"]["namespace"] = "agents"
            assert not judge.refusals(pod), judge.refusals(pod)
            assert re.fullmatch("sha256:[0-9a-f]{64}", pod["metadata"]["annotations"]["wicketgate.dev/profile-digest"])
            # Asking again changes nothing, whatever the API server made of the answer.
            for again in (pod, with_defaults(pod)):
                for path in ("/mutate", "/validate"):
                    response = asked.asked(path, again)
                    assert response["allowed"] and "patch" not in response, (path, response)
            # The same pod as kustomize makes of the same agent, but for names that each chooses.
            same, other = (with_defaults({"metadata": {}, "spec": copy.deepcopy(one)})["spec"] for one in (pod["spec"], theirs))
            for volumes in (same["volumes"], other["volumes"]):
                by_name(volumes)["config"].pop("configMap")
            assert {name: one for name, one in by_name(same["volumes"]).items() if name != "data"} == by_name(other["volumes"])
            other["initContainers"][0]["image"] = PINNED
            assert same["initContainers"] == other["initContainers"], same["initContainers"]
            for key in ("securityContext", "automountServiceAccountToken", "enableServiceLinks", "terminationGracePeriodSeconds"):
                assert same[key] == other[key], key
            agent, its = same["containers"][0], other["containers"][0]
            assert by_name(agent["env"]) == by_name(its["env"]) and agent["securityContext"] == its["securityContext"], agent
            assert by_name(its["volumeMounts"]).items() <= by_name(agent["volumeMounts"]).items(), agent
            count += 1
        count += chosen(asked, api)
        untouched = ApiServer(asked).create(bare(), namespace={})
        assert "initContainers" not in untouched["spec"], "another namespace"
    print(f"{count} pods have their gate")


def chosen(asked, api):
    """Agents are named by the annotation; other containers get no way to the gate."""
    pod = bare()
    pod["metadata"]["annotations"]["wicketgate.dev/agents"] = "agent, early"
    user = {"runAsUser": 4711}
    pod["spec"]["initContainers"] = [{"name": "early", "image": "x"}, {"name": "migrate", "image": "x", "securityContext": user}]
    pod["spec"]["containers"].append({"name": "proxy", "image": "x", "securityContext": user})
    made = api.create(pod)
    governed(made, {"agent", "early"})
    assert [one["name"] for one in made["spec"]["initContainers"]] == ["gate", "early", "migrate"]
    for one in (made["spec"]["initContainers"][2], made["spec"]["containers"][1]):
        assert "env" not in one and "volumeMounts" not in one, one
        assert one["securityContext"] == {"runAsUser": 4711, "allowPrivilegeEscalation": False}, one
    assert by_name(made["spec"]["volumes"])["config"]["configMap"]["name"] == "reviewer-gate"
    # What the owner wrote is kept.
    pod = bare()
    pod["spec"]["securityContext"] = {"runAsUser": 2000, "fsGroup": 2000}
    pod["spec"]["terminationGracePeriodSeconds"] = 300
    pod["spec"]["containers"][0]["securityContext"] = {"readOnlyRootFilesystem": False}
    made = api.create(pod)
    governed(made, {"agent"})
    assert made["spec"]["securityContext"]["fsGroup"] == 2000 and made["spec"]["terminationGracePeriodSeconds"] == 300
    context = made["spec"]["containers"][0]["securityContext"]
    assert context["readOnlyRootFilesystem"] is False and context["runAsUser"] == 2000 and context["capabilities"] == {"drop": ["ALL"]}, context
    # A LimitRange of the namespace, and the plugin that always pulls.
    def limits(pod):
        for one in pod["spec"].get("initContainers", []) + pod["spec"]["containers"]:
            one["resources"].setdefault("limits", {}).setdefault("ephemeral-storage", "1Gi")
            one["imagePullPolicy"] = "Always"
        return pod
    governed(ApiServer(asked, [("zz-limits", limits, False)]).create(bare()), {"agent"})
    return 3


def agent(pod):
    return pod["spec"]["containers"][0]


def context(pod, **members):
    agent(pod).setdefault("securityContext", {}).update(members)


def mounted(pod, **mount):
    agent(pod).setdefault("volumeMounts", []).append(mount)


def volumes(pod, *all_of_them):
    pod["spec"].setdefault("volumes", []).extend(all_of_them)


def annotate(pod, **values):
    pod["metadata"]["annotations"] |= {f"wicketgate.dev/{name}": value for name, value in values.items()}


TOKEN = {"name": "istio-token", "projected": {"sources": [{"serviceAccountToken": {"path": "t", "audience": "istio-ca"}}]}}


def spoilt():
    """(what is done to a pod, the fields and words of its refusal)."""
    for name in ("hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace"):
        yield lambda pod, name=name: pod["spec"].update({name: True}), (f"spec.{name}:", "remove it")
    first = "spec.containers[0]"
    yield lambda pod: context(pod, privileged=True), (f"{first}.securityContext.privileged:", "remove it")
    yield lambda pod: context(pod, capabilities={"add": ["SYS_PTRACE"]}), (f"{first}.securityContext.capabilities.add:",)
    yield lambda pod: context(pod, allowPrivilegeEscalation=True), (f"{first}.securityContext.allowPrivilegeEscalation:", "set it to false")
    yield lambda pod: context(pod, procMount="Unmasked"), (f"{first}.securityContext.procMount:",)
    yield lambda pod: context(pod, windowsOptions={"hostProcess": True}), (f"{first}.securityContext.windowsOptions.hostProcess:",)
    yield lambda pod: context(pod, runAsUser=0), (f"{first}.securityContext.runAsUser:", "is root")
    yield lambda pod: context(pod, runAsUser=GATE_UID), (f"{first}.securityContext.runAsUser:", "the user of the gate")
    yield lambda pod: pod["spec"].update(securityContext={"runAsUser": GATE_UID}), (f"{first}.securityContext.runAsUser:", "the user of the gate")
    yield lambda pod: pod["spec"].update(initContainers=[{"name": "migrate", "image": "x"}]), ("spec.initContainers[1].securityContext.runAsUser:", "`migrate` names no user")
    yield lambda pod: pod["spec"].update(initContainers=[{"name": "gate", "image": "x"}]), ("spec.initContainers[0]:", "not the container of the profile `strict`")
    yield lambda pod: pod["spec"].update(initContainers=[{**profile()["pod"]["initContainers"][0], "image": "evil"}]), ("spec.initContainers[0]:",)
    yield lambda pod: pod["spec"].update(initContainers=[{**profile()["pod"]["initContainers"][0], "envFrom": [{"configMapRef": {"name": "x"}}]}]), ("spec.initContainers[0]:",)
    yield lambda pod: pod["spec"]["containers"].append({"name": "gate", "image": "x"}), ("spec.containers[1].name:", "rename it")
    yield lambda pod: volumes(pod, {"name": "config", "emptyDir": {}}), ("spec.volumes[0]:", "rename it")
    yield lambda pod: volumes(pod, {"name": "state", "hostPath": {"path": "/"}}), ("spec.volumes[0]:",)
    yield lambda pod: volumes(pod, {"name": "node", "hostPath": {"path": "/"}}), ("spec.volumes[0].hostPath:", "directory of the node")
    yield lambda pod: volumes(pod, TOKEN), ("spec.volumes[0].projected:", "token of the service account")
    yield lambda pod: mounted(pod, name="state", mountPath="/x"), (f"{first}.volumeMounts[", "may not mount `state`")
    yield lambda pod: mounted(pod, name="socket", mountPath="/run/wicketgate"), (f"{first}.volumeMounts[0]:", "may not mount `socket`")
    yield lambda pod: agent(pod).update(volumeDevices=[{"name": "state", "devicePath": "/dev/x"}]), (f"{first}.volumeDevices[0]:",)
    yield lambda pod: volumes(pod, {"name": "own", "emptyDir": {}}) or mounted(pod, name="own", mountPath="/run/wicketgate/"), (f"{first}.volumeMounts[0]:", "mounts something else than `socket`")
    yield lambda pod: agent(pod)["env"].append({"name": "WICKETGATE_SOCKET", "value": "hush"}), (f"{first}.env[1]:", "another value of `WICKETGATE_SOCKET`")
    yield lambda pod: pod["metadata"]["labels"].update({"wicketgate.dev/gate": "loose"}), ("metadata.labels[wicketgate.dev/gate]:", "unknown profile `loose`; the profiles are `strict`")
    yield lambda pod: pod["metadata"]["labels"].update({"wicketgate.dev/sidecar": "false"}), ("metadata.labels[wicketgate.dev/sidecar]:", "`true`; remove it")
    yield lambda pod: pod["metadata"].update(annotations={}), ("metadata.annotations[wicketgate.dev/config]: missing",)
    yield lambda pod: annotate(pod, config="../x"), ("metadata.annotations[wicketgate.dev/config]:", "`../x` is no name")
    yield lambda pod: annotate(pod, agents="other") or context(pod, runAsUser=7), ("metadata.annotations[wicketgate.dev/agents]:", "`other` is no container")
    yield lambda pod: annotate(pod, agents="") or context(pod, runAsUser=7), ("metadata.annotations[wicketgate.dev/agents]:",)
    yield lambda pod: annotate(pod, agents="agent,gate"), ("`gate` is no container of the agent",)


def refused(asked, pod, path="/mutate", **more):
    """Why it is refused, as the API server and a person see it."""
    response = asked.asked(path, pod, **more)
    assert response["allowed"] is False and "patch" not in response, response
    status = response["status"]
    assert status["code"] == 403 and status["reason"] == "Forbidden", status
    return status["message"]


def refusals():
    count = 0
    with injector() as asked:
        everything = bare()
        for spoil, words in spoilt():
            pod = bare()
            spoil(pod)
            pod = with_token(with_defaults(pod))
            message = refused(asked, pod)
            assert all(word in message for word in words) and len(message.splitlines()) == 1, (words, message)
            # Values are the owner's secrets.
            assert "hush" not in message
            assert refused(asked, pod, "/validate") == message
            count += 1
        for name in ("hostNetwork", "hostPID"):
            everything["spec"][name] = True
        context(everything, privileged=True, runAsUser=0, capabilities={"add": ["NET_ADMIN"]})
        volumes(everything, TOKEN)
        message = refused(asked, with_defaults(everything))
        assert len(message.splitlines()) == 6, message
        secret_of_gate()
    print(f"{count} pods are refused")


def secret_of_gate():
    """What the gate's volumes name is the gate's, under whichever name another volume has it."""
    own = profile()
    [secrets] = [one for one in own["pod"]["volumes"] if one["name"] == "secrets"]
    secrets["projected"]["sources"] = [{"secret": {"name": "gate-own"}}]
    [state] = [one for one in own["pod"]["volumes"] if one["name"] == "state"]
    del state["emptyDir"]
    state["persistentVolumeClaim"] = {"claimName": "ledger"}
    with running(profiles={"strict": yaml.safe_dump(own)}) as (place, _):
        asked = Remote(place, f"{CERTIFICATES}/ca.pem")
        ApiServer(asked).create(bare())
        for spoil, word in (
            (lambda pod: volumes(pod, {"name": "v", "secret": {"secretName": "gate-own"}}), "`v` has a Secret of the gate"),
            (lambda pod: volumes(pod, {"name": "v", "projected": {"sources": [{"secret": {"name": "gate-own"}}]}}), "`v` has a Secret of the gate"),
            (lambda pod: volumes(pod, {"name": "v", "persistentVolumeClaim": {"claimName": "ledger"}}), "`v` is a claim of the gate"),
            (lambda pod: agent(pod).update(envFrom=[{"secretRef": {"name": "gate-own"}}]), "has a Secret of the gate in a variable"),
            (lambda pod: agent(pod)["env"].append({"name": "K", "valueFrom": {"secretKeyRef": {"name": "gate-own", "key": "k"}}}), "in a variable"),
        ):
            pod = bare()
            spoil(pod)
            assert word in refused(asked, with_defaults(pod))


def lessened():
    """What another webhook could do to a pod after the injector."""
    def gate(pod):
        return pod["spec"]["initContainers"][0]

    def moved(pod):
        pod["spec"]["initContainers"].insert(0, {"name": "early", "image": "x", "securityContext": {"runAsUser": 9, "allowPrivilegeEscalation": False}})
    yield moved
    yield lambda pod: pod["spec"].pop("initContainers")
    yield lambda pod: gate(pod).update(image="evil")
    yield lambda pod: gate(pod).pop("restartPolicy")
    yield lambda pod: gate(pod)["env"].append({"name": "LD_PRELOAD", "value": "/x"})
    yield lambda pod: gate(pod)["securityContext"].update(runAsUser=1)
    yield lambda pod: gate(pod)["volumeMounts"].append({"name": "tmp", "mountPath": "/x"})
    yield lambda pod: gate(pod)["args"].append("--accept-clock-step")
    yield lambda pod: agent(pod)["env"].pop()
    yield lambda pod: agent(pod)["volumeMounts"].pop(0)
    yield lambda pod: [one.pop("readOnly") for one in agent(pod)["volumeMounts"] if one["name"] == "socket"]
    yield lambda pod: agent(pod)["securityContext"].pop("runAsUser")
    yield lambda pod: agent(pod)["securityContext"].pop("capabilities")
    yield lambda pod: pod["spec"].update(automountServiceAccountToken=True)
    yield lambda pod: with_token({"spec": {**pod["spec"], "automountServiceAccountToken": True}}) and None
    yield lambda pod: pod["spec"].update(enableServiceLinks=True)
    yield lambda pod: pod["spec"].update(terminationGracePeriodSeconds=1)
    yield lambda pod: pod["spec"]["securityContext"].pop("fsGroup")
    yield lambda pod: pod["spec"]["volumes"].pop(0)
    yield lambda pod: pod["metadata"]["annotations"].update({"wicketgate.dev/profile-digest": "sha256:0"})
    yield lambda pod: pod["metadata"]["annotations"].update({"wicketgate.dev/config": "other"})
    yield lambda pod: pod["metadata"]["labels"].pop("wicketgate.dev/sidecar")
    yield lambda pod: pod["metadata"]["labels"].pop("wicketgate.dev/gate")
    yield lambda pod: pod["spec"]["containers"].append({"name": "late", "image": "x"})


def lessened_pods(asked):
    whole = ApiServer(asked).create(bare())
    for lessen in lessened():
        pod = copy.deepcopy(whole)
        lessen(pod)
        yield with_defaults(pod)


def is_governed(pod):
    try:
        governed(pod, {one["name"] for one in pod["spec"]["containers"]})
    except (AssertionError, LookupError):
        return False
    return True


def validation():
    count = 0
    with injector() as asked:
        whole = ApiServer(asked).create(bare())
        asked.validate(whole)
        for index, pod in enumerate(lessened_pods(asked)):
            assert pod != whole, index
            assert refused(asked, pod, "/validate"), index
            count += 1
        moved = copy.deepcopy(whole)
        next(lessened())(moved)
        assert "spec.initContainers: not what the profile `strict` gives" in refused(asked, with_defaults(moved), "/validate")

        # A pod that runs.
        def labels(pod):
            pod["metadata"]["labels"]["wicketgate.dev/gate"] = "none"

        def config(pod):
            pod["metadata"]["annotations"]["wicketgate.dev/config"] = "mine"
        for change, word in (
            (labels, "metadata.labels[wicketgate.dev/gate]"), (config, "metadata.annotations[wicketgate.dev/config]"),
            (lambda pod: pod["metadata"]["labels"].pop("wicketgate.dev/gate"), "metadata.labels[wicketgate.dev/gate]"),
            (lambda pod: pod["metadata"]["labels"].pop("wicketgate.dev/sidecar"), "metadata.labels[wicketgate.dev/sidecar]"),
            (lambda pod: pod["metadata"].pop("annotations"), "metadata.annotations[wicketgate.dev/profile-digest]"),
            (lambda pod: pod["spec"]["initContainers"][0].update(image="evil"), "the container `gate` cannot change"),
        ):
            pod = copy.deepcopy(whole)
            change(pod)
            for path in ("/mutate", "/validate"):
                assert word in refused(asked, pod, path, operation="UPDATE", old=whole), word
            count += 1
        pod = copy.deepcopy(whole)
        pod["metadata"] |= {"finalizers": ["x"], "labels": {**pod["metadata"]["labels"], "seen": "yes"}}
        for path in ("/mutate", "/validate"):
            response = asked.asked(path, pod, operation="UPDATE", old=whole)
            assert response["allowed"] and "patch" not in response, response
        # A pod of before the injector has nothing to lose.
        old = with_defaults(bare())
        del old["metadata"]["labels"]["wicketgate.dev/gate"]
        assert asked.asked("/validate", old, operation="UPDATE", old=old)["allowed"]
    print(f"{count} pods are found")


def reviews():
    """Bodies that are no review of a pod: 400, or a refusal where there is an id."""
    good, count = review(with_defaults(bare())), 0

    def changed(**members):
        return json.dumps({**good, "request": {**good["request"], **members}})
    nothing = [b"", b"{", b"[]", b"null", b"7", b'"x"', b"\xff\xfe", b"{}", b"[" * 100_000, b'{"request":' * 5_000,
               json.dumps({**good, "request": None}), changed(uid=None), changed(uid=""), changed(uid=7), changed(uid="x" * 300),
               json.dumps({"apiVersion": "admission.k8s.io/v1beta1", "kind": "AdmissionReview"}), yaml.safe_dump(good)]
    wrong = [json.dumps({**good, "apiVersion": "admission.k8s.io/v1beta1"}), json.dumps({**good, "kind": "Pod"}), json.dumps({"request": good["request"]}),
             changed(object=None), changed(object=[]), changed(object="x"), changed(kind={"group": "apps", "version": "v1", "kind": "Deployment"}),
             changed(kind=None), changed(subResource="status"), changed(subResource="ephemeralcontainers"), changed(operation="DELETE"), changed(operation="CONNECT"),
             changed(operation=None), changed(operation="UPDATE"), changed(operation="UPDATE", oldObject=[])]
    odd = [{}, {"metadata": {}}, {"metadata": [], "spec": {}}, {"metadata": {"labels": []}, "spec": {"containers": []}}]
    for member, value in (("containers", {}), ("containers", [1]), ("containers", [{}]), ("containers", None), ("initContainers", "x"), ("volumes", [{"name": ""}]),
                          ("volumes", {"a": 1}), ("ephemeralContainers", 7)):
        pod = with_defaults(bare())
        pod["spec"][member] = value
        odd.append(pod)
    pod = with_defaults(bare())
    pod["metadata"]["annotations"]["x"] = 7
    odd.append(pod)
    with injector() as asked:
        for path in ("/mutate", "/validate"):
            for body in nothing:
                status, said = asked.send("POST", path, body)
                assert status == 400 and json.loads(said)["detail"], (status, said, body[:80])
                count += 1
            for body in wrong:
                status, said = asked.send("POST", path, body)
                response = json.loads(said)["response"]
                assert status == 200 and response["allowed"] is False and response["status"]["code"] == 400, (said, body[:80])
                count += 1
            for pod in odd:
                refused(asked, pod, path)
                count += 1
            for method in ("GET", "PUT", "DELETE"):
                assert asked.send(method, path)[0] == 405
        assert asked.send("POST", "/other", json.dumps(good))[0] == 404
        # As large as two pods can be, and one byte more.
        large = json.dumps(good)
        large = large.replace('"reviewer-gate"', f'"reviewer-gate", "pad": "{"x" * (3 * 2**20 - len(large) - 11)}"')
        assert len(large) == 3 * 2**20, len(large)
        status, said = asked.send("POST", "/mutate", large)
        assert status == 200 and json.loads(said)["response"]["allowed"] is True
        assert asked.send("POST", "/mutate", large + " ")[0] == 413
        text = asked.send("GET", "/metrics")[1].decode()
        for line in ('wicketgate_injector_reviews_total{webhook="mutate",outcome="patched"} 1', 'outcome="malformed"', 'outcome="refused"',
                     "wicketgate_injector_certificate_end_seconds "):
            assert line in text, text
        assert "wicketgate_ready" not in text, "an injector is no gate"
        assert asked.send("GET", "/livez")[0] == 200 and asked.send("GET", "/readyz")[0] == 200
    print(f"{count} reviews are refused")


def first(pod):
    """A mesh that wants to be first, whatever is there."""
    mine = {"name": "mesh-init", "image": "x", "securityContext": {"runAsUser": 9, "allowPrivilegeEscalation": False}}
    others = [one for one in pod["spec"].get("initContainers", []) if one["name"] != "mesh-init"]
    pod["spec"]["initContainers"] = [mine, *others]
    return pod


def seen(pod):
    pod["metadata"]["labels"]["seen"] = "yes"
    return pod


def preloaded(pod):
    pod["spec"]["initContainers"][0]["env"].append({"name": "LD_PRELOAD", "value": "/x"})
    return pod


def late(pod):
    if "late" not in by_name(pod["spec"]["containers"]):
        pod["spec"]["containers"].append({"name": "late", "image": "x", "securityContext": {"runAsUser": 8}})
    return pod


@contextlib.contextmanager
def slow():
    """The address of a webhook that answers after its caller has given up, and the paths at which that happened."""
    gave_up = queue.Queue()

    class Slow(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            with contextlib.suppress(OSError):
                # Nothing more comes until the caller closes the connection.
                assert self.connection.recv(1) == b""
            gave_up.put(self.path)
            self.close_connection = True

        def log_message(self, *_):
            pass
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Slow)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(f"{CERTIFICATES}/injector.pem", f"{CERTIFICATES}/injector.key")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"https://127.0.0.1:{server.server_address[1]}", gave_up
    finally:
        server.shutdown()
        server.server_close()


def faults():
    count = 0

    def not_created(api):
        try:
            pod = api.create(bare())
        except Refused as why:
            return str(why)
        raise AssertionError(f"it was created: {pod}")
    with running() as (place, _):
        api = ApiServer(Remote(place, f"{CERTIFICATES}/ca.pem"))
        governed(api.create(bare()), {"agent"})
        assert "certificate verify failed" in not_created(ApiServer(Remote(place, f"{CERTIFICATES}/other-ca.pem")))
        count += 1
        # It is called after the injector, which is called again and is first again.
        pod = ApiServer(api.injector, [("zz-mesh", first, False)]).create(bare())
        governed(pod, {"agent"})
        assert [one["name"] for one in pod["spec"]["initContainers"]] == ["gate", "mesh-init"]
        # Before it, it changes nothing.
        governed(ApiServer(api.injector, [("aa-mesh", first, False)]).create(bare()), {"agent"})
        # One that is called last of all: the pod is refused.
        assert "spec.initContainers: not what the profile" in not_created(ApiServer(api.injector, [("kk-mesh", first, True), ("zz-seen", seen, False)]))
        # One that spoils the gate.
        assert "not the container of the profile" in not_created(ApiServer(api.injector, [("zz-env", preloaded, False)]))
        # A container that comes late is one of the agent's.
        governed(ApiServer(api.injector, [("zz-late", late, False)]).create(bare()), {"agent", "late"})
        count += 5
    # One that is slower than the API server waits, which is as long as the chart says: this takes five seconds.
    waits = {hook["timeoutSeconds"] for one in rendered(Helm())["injector"] for hook in one.get("webhooks", [])}
    assert waits == {TIMEOUT}, waits
    with slow() as (place, gave_up):
        assert "failed calling webhook: The read operation timed out" in not_created(ApiServer(Remote(place, f"{CERTIFICATES}/ca.pem")))
        assert gave_up.get(timeout=60) == f"/mutate?timeout={TIMEOUT}s"
    count += 1
    assert "failed calling webhook" in not_created(api), "it is gone"
    with running(cert="ended") as (place, _):
        assert "certificate has expired" in not_created(ApiServer(Remote(place, f"{CERTIFICATES}/ca.pem")))
    count += 2
    print(f"{count} faults leave no pod without its gate")


class Generator:
    """Pods as people and meshes write them, with everything that could come between an agent and its gate."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def maybe(self, chance):
        return self.random.random() < chance

    def pick(self, *choices):
        return self.random.choice(choices)

    def context(self):
        members = {"runAsUser": self.pick(1000, 1337, 2102, 4711, *([0, GATE_UID] if self.maybe(0.15) else []))} if self.maybe(0.7) else {}
        if self.maybe(0.2):
            members["allowPrivilegeEscalation"] = self.maybe(0.1)
        if self.maybe(0.03):
            members["privileged"] = True
        if self.maybe(0.3):
            members["capabilities"] = {"drop": ["ALL"], **({"add": ["NET_ADMIN"]} if self.maybe(0.1) else {})}
        if self.maybe(0.3):
            members["readOnlyRootFilesystem"] = self.maybe(0.5)
        return members

    def container(self, name, volumes):
        one = {"name": name, "image": "x"}
        if self.maybe(0.8):
            one["securityContext"] = self.context()
        env = [{"name": f"V{index}", "value": "x"} for index in range(self.random.randrange(3))]
        if self.maybe(0.1):
            env.append({"name": "WICKETGATE_SOCKET", "value": self.pick("/run/wicketgate/agent.sock", "/tmp/mine.sock")})
        one["env"] = env
        mounts = [{"name": volume["name"], "mountPath": f"/m/{index}"} for index, volume in enumerate(volumes) if self.maybe(0.5)]
        if self.maybe(0.04):
            mounts.append({"name": self.pick(*OURS), "mountPath": self.pick("/x", "/run/wicketgate", "/tmp")})
        if self.maybe(0.1) and not any(one["mountPath"] == "/run/wicketgate" for one in mounts):
            mounts.append({"name": "socket", "mountPath": "/run/wicketgate", "readOnly": True})
        one["volumeMounts"] = mounts
        if self.maybe(0.1):
            one["restartPolicy"] = "Always"
        return one

    def volume(self, index):
        return self.pick(
            {"name": f"v{index}", "emptyDir": {}}, {"name": f"v{index}", "secret": {"secretName": "s"}}, {"name": f"v{index}", "configMap": {"name": "c"}},
            *([{"name": f"v{index}", "hostPath": {"path": "/var"}}, {"name": f"v{index}", **{k: v for k, v in TOKEN.items() if k != "name"}},
               {"name": self.pick(*OURS), "emptyDir": {}}, {"name": f"kube-api-access-{index}", **{k: v for k, v in TOKEN.items() if k != "name"}}] if self.maybe(0.1) else []))

    def meshed(self, pod):
        """What istio, linkerd and vault add, once for each pod."""
        spec = pod["spec"]
        for member in ("initContainers", "volumes"):
            spec.setdefault(member, [])
        if self.maybe(0.15):
            spec["initContainers"].insert(0, {"name": "istio-init", "image": "istio", "securityContext": {"runAsUser": 0, "capabilities": {"add": ["NET_ADMIN", "NET_RAW"]}}}
                                          if self.maybe(0.3) else {"name": "istio-validation", "image": "istio", "securityContext": {"runAsUser": 1337}})
            spec["containers"].append({"name": "istio-proxy", "image": "istio", "securityContext": {"runAsUser": 1337, "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True}})
            if self.maybe(0.3):
                spec["volumes"].append(copy.deepcopy(TOKEN))
        if self.maybe(0.15):
            spec["initContainers"].insert(0, {"name": "linkerd-proxy", "image": "linkerd", "restartPolicy": "Always", "securityContext": {"runAsUser": 2102}})
        if self.maybe(0.15):
            spec["initContainers"].insert(0, {"name": "vault-agent-init", "image": "vault", "securityContext": {"runAsUser": 100}, "volumeMounts": [{"name": "vault", "mountPath": "/vault/secrets"}]})
            spec["volumes"].append({"name": "vault", "emptyDir": {"medium": "Memory"}})
            for one in spec["containers"]:
                one.setdefault("volumeMounts", []).append({"name": "vault", "mountPath": "/vault/secrets"})
        if self.maybe(0.2):
            spec["initContainers"].reverse()
        return pod

    def pod(self):
        pod = bare()
        spec = pod["spec"]
        spec["volumes"] = [self.volume(index) for index in range(self.random.randrange(3))]
        spec["containers"] = [self.container(f"c{index}", spec["volumes"]) for index in range(1 + self.random.randrange(2))]
        spec["initContainers"] = [self.container(f"i{index}", spec["volumes"]) for index in range(self.random.randrange(2))]
        if self.maybe(0.1):
            spec["initContainers"].insert(self.pick(0, len(spec["initContainers"])), copy.deepcopy(self.gate()))
        for name in ("hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace"):
            if self.maybe(0.02):
                spec[name] = True
        if self.maybe(0.3):
            spec["automountServiceAccountToken"] = self.maybe(0.5)
        if self.maybe(0.4):
            spec["securityContext"] = {"runAsUser": self.pick(3000, 3001), **({"fsGroup": 3000} if self.maybe(0.5) else {})}
        names = [one["name"] for one in spec["containers"] + spec["initContainers"]]
        if self.maybe(0.4):
            annotate(pod, agents=",".join(self.random.sample(names, 1 + self.random.randrange(len(names)))))
        return pod

    def gate(self):
        gate = copy.deepcopy(profile()["pod"]["initContainers"][0])
        if self.maybe(0.6):
            gate.update(self.pick({"image": "evil"}, {"command": ["/bin/sh"]}, {"envFrom": [{"secretRef": {"name": "x"}}]}, {"restartPolicy": "OnFailure"}, {"env": []}))
        return gate


def generated():
    """Seeds of this list are kept: each made a pod that told a mistake from its mend."""
    created, denied, judge = 0, 0, rules()
    with injector() as asked:
        # The check can fail: of what another webhook could take away, it finds what makes a pod less than governed.
        assert sum(not is_governed(pod) for pod in lessened_pods(asked)) >= 14
        for seed in range(320):
            generator = Generator(seed)
            pod = generator.pod()
            # A mesh comes before the injector, which then sees its containers, or after it.
            place = generator.pick("aa-mesh", "zz-mesh")
            try:
                made = ApiServer(asked, [(place, generator.meshed, False)]).create(pod)
            except Refused as why:
                assert "failed calling" not in str(why), f"{seed}: {why}"
                denied += 1
                continue
            named = pod["metadata"]["annotations"].get("wicketgate.dev/agents")
            agents = set(named.split(",")) if named else {one["name"] for one in made["spec"]["containers"]}
            try:
                governed(made, agents)
            except AssertionError as error:
                raise AssertionError(f"seed {seed}: {error}") from error
            response = asked.asked("/mutate", made)
            assert response["allowed"] and "patch" not in response, f"seed {seed}: {response}"
            made["metadata"]["namespace"] = "agents"
            assert not judge.refusals(made), f"seed {seed}: {judge.refusals(made)}"
            created += 1
    assert created > 100 and denied > 100, (created, denied)
    print(f"{created} created, {denied} refused: no pod is without its gate")


def files():
    with running() as (place, folder):
        asked = Remote(place, f"{CERTIFICATES}/ca.pem")

        def served():
            return ssl.get_server_certificate(("127.0.0.1", asked.at.port))

        def ready():
            status, body = asked.send("GET", "/readyz")
            return status, json.loads(body)
        before = served()
        certify(folder, "second")
        until(lambda: served() != before)
        api = ApiServer(asked)
        governed(api.create(bare()), {"agent"})
        # A file that is no certificate is refused, and the old one stays in use.
        second = served()
        (folder / "tls.crt").write_text("nonsense")
        until(lambda: ready()[1]["notes"])
        assert ready()[0] == 200 and "certificate was refused" in ready()[1]["notes"][0] and served() == second
        # One that ends within a day: not ready, but it still answers.
        certify(folder, "soon")
        until(lambda: ready()[0] == 503)
        assert "renew it" in ready()[1]["reasons"][0] and not ready()[1]["notes"], ready()
        governed(api.create(bare()), {"agent"})
        certify(folder, "second")
        until(lambda: ready()[0] == 200)

        # Profiles are swapped by one link, as kubelet does.
        kept = folder / "kept"
        (folder / "profiles").rename(kept)

        def published(name, **profiles):
            (folder / name).mkdir()
            for stem, text in profiles.items():
                (folder / name / f"{stem}.yaml").write_text(text)
            (folder / "link").symlink_to(folder / name)
            os.replace(folder / "link", folder / "profiles")
        loose = {**profile(), "profile": "loose"}
        published("one", strict=yaml.safe_dump(profile()), loose=yaml.safe_dump(loose))
        until(lambda: asked.asked("/mutate", with_defaults(bare(**{"wicketgate.dev/gate": "loose"})))["allowed"])
        digests = {name: json.loads(base64.b64decode(asked.asked("/mutate", with_defaults(bare(**{"wicketgate.dev/gate": name})))["patch"])) for name in ("strict", "loose")}
        digests = {name: by_path["/metadata/annotations"]["wicketgate.dev/profile-digest"]
                   for name, by_path in ((name, {one["path"]: one["value"] for one in patch}) for name, patch in digests.items())}
        assert digests["strict"] != digests["loose"], digests
        published("two", strict="profile: strict\nsurprise: true\n")
        until(lambda: ready()[1]["notes"])
        assert "strict.yaml" in ready()[1]["notes"][0] and ready()[0] == 200, ready()
        assert asked.asked("/mutate", with_defaults(bare(**{"wicketgate.dev/gate": "loose"})))["allowed"]
        published("three", strict=yaml.safe_dump(profile()))
        until(lambda: not ready()[1]["notes"])
        assert "unknown profile" in refused(asked, with_defaults(bare(**{"wicketgate.dev/gate": "loose"})))
        text = asked.send("GET", "/metrics")[1].decode()
        for line in ('certificates_read_total{passed="false"}', 'certificates_read_total{passed="true"}', 'profiles_read_total{passed="false"}', 'profiles_read_total{passed="true"}'):
            assert f"wicketgate_injector_{line}" in text, text
    print("files are followed")


def profiles():
    """(change of a profile, place and words of the refusal)."""
    def container(one):
        return one["pod"]["initContainers"][0]
    cases = [
        (lambda one: one.update(surprise=1), ("surprise",)),
        (lambda one: one["pod"].update(nodeName="x"), ("nodeName",)),
        (lambda one: one["agent"].update(image="x"), ("image",)),
        (lambda one: one["pod"].pop("initContainers"), ("initContainers",)),
        (lambda one: one.update(profile="other"), ("profile:", "`strict.yaml`")),
        (lambda one: one.update(profile="Strict_"), ("profile:", "must match")),
        (lambda one: container(one).update(name="sidecar"), ("pod.initContainers", "no container is named `gate`")),
        (lambda one: container(one).update(image="wicketgate:1"), ("pod.initContainers[0].image", "not pinned")),
        (lambda one: container(one).update(image="wicketgate@sha256:1"), ("not pinned",)),
        (lambda one: container(one).pop("restartPolicy"), ("restartPolicy: Always",)),
        (lambda one: container(one)["securityContext"].update(runAsUser=0), ("pod.initContainers[0].securityContext.runAsUser",)),
        (lambda one: container(one)["volumeMounts"].append({"name": "none", "mountPath": "/x"}), ("`none` is no volume",)),
        (lambda one: one["pod"].update(hostNetwork=True), ("pod.hostNetwork", "set it to false")),
        (lambda one: one["pod"].update(automountServiceAccountToken=True), ("pod.automountServiceAccountToken",)),
        (lambda one: one["pod"]["volumes"].append({"name": "tmp"}), ("`tmp` is there twice",)),
        (lambda one: one["agent"]["env"].append({"value": "x"}), ("agent.env[1]", "missing field `name`")),
        (lambda one: one["agent"]["volumeMounts"][0].pop("readOnly"), ("agent.volumeMounts[0]", "readOnly: true")),
        (lambda one: one["agent"]["volumeMounts"].append({"name": "state", "mountPath": "/s"}), ("the gate has this volume too",)),
        (lambda one: one["agent"]["securityContext"].update(runAsUser=GATE_UID), ("agent.securityContext.runAsUser",)),
        (lambda one: one.update(config={"volume": "state"}), ("config.volume", "`configMap`")),
        (lambda one: one["pod"]["volumes"].append(TOKEN) or one["agent"]["volumeMounts"].append({"name": "istio-token", "mountPath": "/t", "readOnly": True}), ("token of the service account",)),
    ]
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        certify(folder, "injector")

        def started():
            done = subprocess.run([PROGRAM, "injector", "serve", "--profiles", folder / "p", "--listen", "127.0.0.1:0", "--tls-cert", folder / "tls.crt", "--tls-key", folder / "tls.key"],
                                  capture_output=True, text=True, timeout=60)
            assert done.returncode == 78 and not done.stdout, (done.returncode, done.stdout, done.stderr)
            return done.stderr
        assert f"`{folder}/p`" in started(), "no such directory"
        (folder / "p").mkdir()
        assert "has no `<profile>.yaml`" in started()
        for change, words in cases:
            one = profile()
            change(one)
            (folder / "p" / "strict.yaml").write_text(yaml.safe_dump(one, sort_keys=False))
            said = started()
            assert re.search(r"strict\.yaml:\d+:\d+: ", said) and all(word in said for word in words), (words, said)
        (folder / "p" / "strict.yaml").write_text("a: [\n")
        assert "strict.yaml" in started()
    print(f"{len(cases) + 3} profiles are refused")


def doctor():
    """`config doctor injector` says what is right and what is not, and creates nothing."""
    count, namespace = 0, {"wicketgate.dev/inject": "enabled"}
    authorities = pathlib.Path(CERTIFICATES, "ca.pem").read_text()
    other = pathlib.Path(CERTIFICATES, "other-ca.pem").read_text()
    hooks = [f"/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations/injector" for kind in ("mutating", "validating")]
    secret = "/api/v1/namespaces/wicketgate-system/secrets/tls"

    def encoded(text):
        return base64.b64encode(text.encode()).decode()
    with running() as (place, folder), tempfile.TemporaryDirectory() as home:
        home = pathlib.Path(home)
        (home / "token").write_text("the-token-of-a-cluster-administrator")
        (home / "token").chmod(0o600)
        server = ApiServer(Remote(place, f"{CERTIFICATES}/ca.pem"))

        with Api(tls=authority(home), token="the-token-of-a-cluster-administrator", admit=lambda pod: server.create(pod, namespace)) as api:
            def configure(cert="injector", bundle=authorities, policy="Fail"):
                for path in hooks:
                    api.objects[path] = {"metadata": {"name": "injector"}, "webhooks": [
                        {"name": "injector.wicketgate.dev", "failurePolicy": policy, "clientConfig": {"caBundle": encoded(bundle)}}]}
                api.objects[secret] = {"metadata": {"name": "tls"}, "data": {"tls.crt": encoded(pathlib.Path(CERTIFICATES, f"{cert}.pem").read_text())}}

            def examined(exit, *words, profile="strict", **own):
                configure(**own)
                before = copy.deepcopy(api.objects)
                done = subprocess.run(
                    [PROGRAM, "doctor", "injector", "--webhook", "mutating/injector", "--webhook", "validating/injector", "--secret", "wicketgate-system/tls",
                     "--namespace", "agents", "--profile", profile, "--configmap", "reviewer-gate", "--api", api.place, "--ca-file", home / "api.crt",
                     "--token-file", home / "token"], capture_output=True, text=True)
                assert done.returncode == exit and all(word in done.stdout for word in words), (exit, words, done)
                assert api.objects == before, "it changed something"
                return done.stdout
            said = examined(0, "no answer means no pod", "its `caBundle` has the signer", f"it would get its gate first: {PINNED}")
            assert said.count(": authority ") == 2, said
            for words, own in (
                (["`caBundle` has no authority that is valid", "no authority of its `caBundle` signed", "wicketgate control injector certs"], {"bundle": ""}),
                (["no authority of its `caBundle` signed the certificate"], {"bundle": other}),
                (["`failurePolicy` is not `Fail`"], {"policy": "Ignore"}),
                (["it has ended: "], {"cert": "ended"}),
                (["it would be refused: ", "unheard-of"], {"profile": "unheard-of"}),
            ):
                examined(1, *words, **own)
                count += 1
            examined(0, "it ends within seven days", cert="soon")
            namespace.clear()
            examined(1, "it would be created without a gate in `agents`", "kubectl label namespace agents wicketgate.dev/inject=enabled")
            (home / "token").write_text("another-token-that-no-cluster-knows")
            examined(2, "the API server answers 401")
            count += 3
    print(f"the doctor finds {count} faults")


if __name__ == "__main__":
    PROGRAM, CERTIFICATES = f"{sys.argv[2]}/wicketgate", sys.argv[3]
    {"workloads": workloads, "refusals": refusals, "validation": validation, "reviews": reviews, "faults": faults, "generated": generated,
     "files": files, "profiles": profiles, "doctor": doctor}[sys.argv[1]]()
