"""Calls admission webhooks as the API server does: selectors, defaults, failurePolicy, reinvocation, caBundle.

Between two calls a pod is what the API server would make of it: decoded, with its defaults, without what is empty."""

import base64
import copy
import http.client
import json
import ssl
import urllib.parse
import uuid

import jsonpatch

TIMEOUT = 5
EMPTY = (None, "", [], {})
# Members without a pointer in Go: their zero is not written.
FALSE = {"readOnly", "stdin", "stdinOnce", "tty", "hostNetwork", "hostPID", "hostIPC"}
SUFFIXES = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}


def quantity(text):
    """A quantity in the one form in which the API server writes it."""
    text = str(text)
    for suffix, factor in SUFFIXES.items():
        if text.endswith(suffix) and text[:-2].isdigit():
            amount = int(text[:-2]) * factor
            best = max((one for one in SUFFIXES if amount % SUFFIXES[one] == 0), key=SUFFIXES.get)
            return f"{amount // SUFFIXES[best]}{best}"
    if text.endswith("m") and text[:-1].isdigit() and int(text[:-1]) % 1000 == 0:
        return str(int(text[:-1]) // 1000)
    return text


def decoded(value, key=""):
    """What is left of a value after Go has read and written it."""
    if isinstance(value, list):
        return [decoded(one) for one in value]
    if not isinstance(value, dict):
        return value
    if key in ("labels", "annotations", "matchLabels"):
        return dict(value)
    kept = {}
    for name, one in value.items():
        if key in ("limits", "requests") or name == "sizeLimit":
            one = quantity(one)
        one = decoded(one, name)
        # An object behind a pointer stays, though it is empty.
        if one in EMPTY and not (one == {} and name not in ("resources", "labels", "annotations")) or one is False and name in FALSE:
            continue
        kept[name] = one
    return kept


def with_defaults(pod):
    """A pod as the API server decodes it."""
    pod = decoded(copy.deepcopy(pod))
    spec = pod["spec"]
    for name, value in {"restartPolicy": "Always", "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst", "enableServiceLinks": True,
                        "schedulerName": "default-scheduler", "securityContext": {}, "serviceAccountName": "default", "preemptionPolicy": "PreemptLowerPriority"}.items():
        spec.setdefault(name, value)
    for container in spec.get("initContainers", []) + spec["containers"]:
        container.setdefault("terminationMessagePath", "/dev/termination-log")
        container.setdefault("terminationMessagePolicy", "File")
        container.setdefault("imagePullPolicy", "IfNotPresent")
        resources = container.setdefault("resources", {})
        for name, amount in resources.get("limits", {}).items():
            resources.setdefault("requests", {}).setdefault(name, amount)
        for port in container.get("ports", []):
            port.setdefault("protocol", "TCP")
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            if probe in container:
                for name, value in {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}.items():
                    container[probe].setdefault(name, value)
        for one in container.get("env", []):
            if "fieldRef" in one.get("valueFrom", {}):
                one["valueFrom"]["fieldRef"].setdefault("apiVersion", "v1")
    for volume in spec.get("volumes", []):
        if volume.keys() == {"name"}:
            volume["emptyDir"] = {}
        for kind in ("secret", "configMap", "projected", "downwardAPI"):
            if kind in volume:
                volume[kind].setdefault("defaultMode", 420)
        for source in volume.get("projected", {}).get("sources") or []:
            if "serviceAccountToken" in source:
                source["serviceAccountToken"].setdefault("expirationSeconds", 3600)
    return pod


def with_token(pod):
    """What the ServiceAccount plugin adds before any webhook is called."""
    spec = pod["spec"]
    if spec.get("automountServiceAccountToken") is False:
        return pod
    name = f"kube-api-access-{uuid.UUID(int=len(json.dumps(pod))).hex[-5:]}"
    spec.setdefault("volumes", []).append({"name": name, "projected": {"defaultMode": 420, "sources": [
        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}]}}]}})
    for container in spec.get("initContainers", []) + spec["containers"]:
        container.setdefault("volumeMounts", []).append(
            {"name": name, "readOnly": True, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"})
    return pod


def selects(selector, labels):
    """Whether a label selector selects an object."""
    def holds(one):
        value = labels.get(one["key"])
        return {"Exists": value is not None, "DoesNotExist": value is None,
                "In": value in one.get("values", []), "NotIn": value not in one.get("values", [])}[one["operator"]]
    return (selector.get("matchLabels", {}).items() <= labels.items()
            and all(holds(one) for one in selector.get("matchExpressions", [])))


def review(pod, operation="CREATE", old=None):
    """The review of a pod."""
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": str(uuid.uuid4()), "kind": {"group": "", "version": "v1", "kind": "Pod"}, "resource": {"group": "", "version": "v1", "resource": "pods"},
        "requestKind": {"group": "", "version": "v1", "kind": "Pod"}, "requestResource": {"group": "", "version": "v1", "resource": "pods"},
        "namespace": "agents", "operation": operation, "userInfo": {"username": "system:serviceaccount:kube-system:replicaset-controller"},
        "object": pod, "oldObject": old, "dryRun": False, "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"}}}


class Refused(Exception):
    """Why a pod is not created."""


class Remote:
    """A webhook at an address, trusted by its bundle alone."""

    def __init__(self, place, bundle):
        self.at = urllib.parse.urlsplit(place)
        self.connection = http.client.HTTPSConnection(
            "127.0.0.1", self.at.port, timeout=TIMEOUT, context=ssl.create_default_context(cafile=bundle))

    def send(self, method, path, body=None):
        """(status, body) of one request. The connection is kept, and a new one is made once if the kept one ended meanwhile: the client of
        the API server does both."""
        kept = self.connection.sock is not None
        try:
            self.connection.request(method, path, body, {"Content-Type": "application/json"})
            answer = self.connection.getresponse()
            return answer.status, answer.read()
        except (OSError, http.client.HTTPException) as error:
            self.connection.close()
            if kept and not isinstance(error, TimeoutError):
                return self.send(method, path, body)
            raise

    def asked(self, path, pod, operation="CREATE", old=None):
        """The response of a review, checked as the API server checks it."""
        sent = review(pod, operation, old)
        try:
            status, body = self.send("POST", f"{path}?timeout={TIMEOUT}s", json.dumps(sent))
        except (OSError, http.client.HTTPException) as error:
            raise Refused(f"failed calling webhook: {error}") from error
        if status != 200:
            raise Refused(f"failed calling webhook: {status}: {body}")
        answer = json.loads(body)
        assert (answer["apiVersion"], answer["kind"]) == ("admission.k8s.io/v1", "AdmissionReview"), answer
        response = answer["response"]
        assert response["uid"] == sent["request"]["uid"], answer
        assert ("patch" in response) == ("patchType" in response) and response.get("patchType", "JSONPatch") == "JSONPatch", answer
        return response

    def mutate(self, pod, path="/mutate"):
        """The pod after this webhook."""
        response = self.asked(path, pod)
        if not response["allowed"]:
            raise Refused(response["status"]["message"])
        if "patch" not in response:
            return pod
        return jsonpatch.apply_patch(pod, json.loads(base64.b64decode(response["patch"])))

    def validate(self, pod, path="/validate"):
        response = self.asked(path, pod)
        assert "patch" not in response, response
        if not response["allowed"]:
            raise Refused(response["status"]["message"])


class ApiServer:
    """Creates pods. `others`: (name, webhook, whether it is called again if a later one changed the pod); they are called in the
    order of their names, and the injector's configuration is what the chart renders: IfNeeded, Fail."""

    NAMESPACE = {"matchLabels": {"wicketgate.dev/inject": "enabled"}}
    OBJECT = {"matchExpressions": [{"key": "wicketgate.dev/gate", "operator": "Exists"}]}

    def __init__(self, injector, others=()):
        self.injector, self.others = injector, list(others)

    def create(self, pod, namespace=None):
        """The pod as it is stored; `Refused` if it is not."""
        namespace = {"wicketgate.dev/inject": "enabled"} if namespace is None else namespace
        pod = with_token(with_defaults(pod))
        ours = selects(self.NAMESPACE, namespace) and selects(self.OBJECT, pod["metadata"].get("labels", {}))
        chain = [("injector.wicketgate.dev", self.injector.mutate, True)] if ours else []
        chain = sorted(chain + self.others, key=lambda one: one[0])
        again = set()
        for index, (_, webhook, _) in enumerate(chain):
            before = pod
            pod = with_defaults(webhook(copy.deepcopy(pod)))
            if pod != before:
                again |= {earlier for earlier in range(index) if chain[earlier][2]}
        for index in sorted(again):
            pod = with_defaults(chain[index][1](copy.deepcopy(pod)))
        if ours:
            self.injector.validate(pod)
        return pod
