"""As much of an API server as kubectl and our own programs ask without a cluster: what kinds there are, and objects as they were sent.

It admits everything and validates nothing: what kubectl itself has against a manifest is what a test sees."""

import http.server
import json
import pathlib
import ssl
import subprocess
import tempfile
import threading

# {group version: {kind: (plural, namespaced)}}
KINDS = {
    "v1": {"Namespace": ("namespaces", False), "ConfigMap": ("configmaps", True), "Service": ("services", True),
           "ServiceAccount": ("serviceaccounts", True), "Secret": ("secrets", True), "PersistentVolumeClaim": ("persistentvolumeclaims", True)},
    "apps/v1": {"Deployment": ("deployments", True), "StatefulSet": ("statefulsets", True)},
    "batch/v1": {"Job": ("jobs", True), "CronJob": ("cronjobs", True)},
    "policy/v1": {"PodDisruptionBudget": ("poddisruptionbudgets", True)},
    "networking.k8s.io/v1": {"NetworkPolicy": ("networkpolicies", True), "Ingress": ("ingresses", True)},
    "rbac.authorization.k8s.io/v1": {"ClusterRole": ("clusterroles", False), "ClusterRoleBinding": ("clusterrolebindings", False), "Role": ("roles", True),
                                     "RoleBinding": ("rolebindings", True)},
    "admissionregistration.k8s.io/v1": {"MutatingWebhookConfiguration": ("mutatingwebhookconfigurations", False),
                                        "ValidatingWebhookConfiguration": ("validatingwebhookconfigurations", False)},
    "monitoring.coreos.com/v1": {"PodMonitor": ("podmonitors", True), "ServiceMonitor": ("servicemonitors", True),
                                 "PrometheusRule": ("prometheusrules", True)},
    "postgresql.cnpg.io/v1": {"Cluster": ("clusters", True)},
}


def discovered(path):
    """The answer to a question about kinds; none if the path asks for something else."""
    groups = [one for one in KINDS if "/" in one]
    if path == "/version":
        return {"major": "1", "minor": "31", "gitVersion": "v1.31.0"}
    if path == "/api":
        return {"kind": "APIVersions", "versions": ["v1"]}
    if path == "/apis":
        def version(one):
            return {"groupVersion": one, "version": one.split("/")[1]}
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [
            {"name": one.split("/")[0], "versions": [version(one)], "preferredVersion": version(one)} for one in groups]}
    name = path.removeprefix("/apis/").removeprefix("/api/")
    if name not in KINDS:
        return None
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": name, "resources": [
        {"name": plural, "singularName": kind.lower(), "namespaced": namespaced, "kind": kind,
         "verbs": ["create", "get", "list"]} for kind, (plural, namespaced) in KINDS[name].items()]}


def patched(one, operations):
    """Changes an object (RFC 6902, as far as `test` and `add` go); whether every `test` holds."""
    for operation in operations:
        *way, last = [part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:]]
        at = one
        for part in way:
            at = at[int(part)] if isinstance(at, list) else at[part]
        if operation["op"] == "test":
            if at.get(last) != operation["value"]:
                return False
        elif isinstance(at, list):
            at.insert(int(last), operation["value"])
        else:
            assert operation["op"] == "add", operation
            at[last] = operation["value"]
    return True


def openssl(*words, text=""):
    done = subprocess.run(["openssl", *map(str, words)], input=text, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def authority(home):
    """(certificate, key) of an API server at 127.0.0.1, which is its own authority."""
    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30", "-subj", "/CN=api",
            "-addext", "subjectAltName=IP:127.0.0.1", "-addext", "basicConstraints=critical,CA:FALSE", "-keyout", home / "api.key", "-out", home / "api.crt")
    return home / "api.crt", home / "api.key"


class Api:
    """One server, for as long as the `with` lasts: `kubeconfig` leads to it, `objects` is what it was sent, `asked` what it was asked, and at the
    paths in `taken` another writer is always faster.

    With `tls`, (certificate, key), it speaks TLS alone, and knows only the client with `token`. `admit` makes of an object what is created,
    or raises why it is not."""

    def __init__(self, tls=None, token=None, admit=lambda one: one):
        self.tls, self.token, self.admit = tls, token, admit

    def __enter__(self):
        objects, asked, taken, token = self.objects, self.asked, self.taken, self.token = {}, [], set(), self.token
        api = self

        class Answers(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self, status, body):
                text = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def sent(self):
                return json.loads(self.rfile.read(int(self.headers["Content-Length"])))

            def version(self, one):
                one["metadata"]["resourceVersion"] = str(int(one["metadata"].get("resourceVersion", "0")) + 1)
                self.answer(200, one)

            def parse_request(self):
                if not super().parse_request():
                    return False
                asked.append((self.command, self.path))
                known = token is None or self.headers.get("Authorization") == f"Bearer {token}"
                if not known:
                    self.answer(401, {"kind": "Status", "code": 401, "message": "Unauthorized"})
                return known

            def do_PUT(self):
                one, there = self.sent(), objects.get(self.path)
                if self.path in taken or there is None or there["metadata"].get("resourceVersion") != one["metadata"].get("resourceVersion"):
                    return self.answer(409, {"kind": "Status", "code": 409, "message": "the object has been modified"})
                objects[self.path] = one
                self.version(one)

            def do_PATCH(self):
                there = json.loads(json.dumps(objects[self.path]))
                if not patched(there, self.sent()):
                    return self.answer(422, {"kind": "Status", "code": 422, "message": "the server rejected our request due to an error in our request"})
                objects[self.path] = there
                self.version(there)

            def do_GET(self):
                path = self.path.split("?")[0]
                known = discovered(path) or objects.get(path)
                missing = {"kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404, "message": path}
                self.answer(200 if known else 404, known or missing)

            def do_POST(self):
                try:
                    one = api.admit(self.sent())
                except Exception as why:
                    return self.answer(403, {"kind": "Status", "code": 403, "message": str(why)})
                if "dryRun=All" not in self.path:
                    objects[f"{self.path.split('?')[0]}/{one['metadata']['name']}"] = one
                self.answer(201, one)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers)
        if self.tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*self.tls)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.folder = tempfile.TemporaryDirectory()
        self.kubeconfig = str(pathlib.Path(self.folder.name) / "config")
        place = self.place = f"http{'s' * bool(self.tls)}://127.0.0.1:{self.server.server_address[1]}"
        pathlib.Path(self.kubeconfig).write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "clusters": [{"name": "test", "cluster": {"server": place}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": ""}}]}))
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()
        self.folder.cleanup()
