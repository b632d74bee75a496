"""Runs every command of deploy/README.md that needs no cluster, as it stands: readme.py FOLDER-OF-THE-PROGRAM."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from apiserver import Api
from injection import injected, profiles
from rendering import BIN, TOP, check, manifests, native_sidecar, pods, restricted_pod

README = TOP / "deploy" / "README.md"
# What is put in front of two programs: no cluster is asked to take a release, and none knows the schemas kubectl would look up.
SHIMS = {
    "helm": 'if [[ $1 == install ]]; then exec {real} "$@" --dry-run=client -o json >"$RELEASES/$2.json"; fi\nexec {real} "$@"',
    "kubectl": 'for word; do if [[ $word == apply ]]; then exec {real} "$@" --validate=false; fi; done\nexec {real} "$@"',
}


def blocks():
    """The commands that are run; every other block says that it is not."""
    text, run = README.read_text(), []
    for found in re.finditer(r"^```(\w*)\n(.*?)^```$", text, re.M | re.S):
        kind, commands = found.groups()
        if kind == "sh":
            run.append(commands)
        else:
            before = text[:found.start()].rstrip().rsplit("\n", 1)[-1]
            assert kind == "console" and before.startswith("*Not run on a cluster"), commands
    return run


def laid(manifest, volume, configs):
    """{path: text} as a pod sees it of its ConfigMap."""
    [source] = [one["configMap"] for one in manifest["volumes"] if one["name"] == volume]
    return {item["path"]: configs[source["name"]][item["key"]] for item in source["items"]}


def agent(all_of_it, gate):
    """What the gate of one rendering is given, after its pod was looked at."""
    configs = {one["metadata"]["name"]: one["data"] for one in all_of_it if one["kind"] == "ConfigMap"}
    [(one, spec)] = pods(all_of_it)
    assert one["kind"] == "Deployment", one
    native_sidecar(spec, spec["initContainers"][0])
    given = laid(spec, "config", configs)
    for path, text in given.items():
        assert (gate / path).read_text() == text, path
    return given


def hub(programs, gate, all_of_it):
    """Holds hub.yaml, with the variables of its pod and the files of its Secrets, to the program's own check."""
    [(_, spec)] = [(one, spec) for one, spec in pods(all_of_it) if one["kind"] == "Deployment"]
    [container] = spec["containers"]
    files = {"tls.crt": "hub.crt", "tls.key": "hub.key", "ca.crt": "ca.crt", "token": "ops.token", "operator.url": "hub.url", "reader.url": "eyes.url"}

    def laid(text):
        return re.sub(r"/run/secrets/[a-z]+/([a-z.]+)", lambda found: f"db/{files.get(found[1], found[1])}", text)
    for path in (gate / "db").iterdir():
        path.chmod(0o600)
    (gate / "laid.yaml").write_text(laid((gate / "hub.yaml").read_text()))
    own = {one["name"]: laid(one["value"]) for one in container["env"]} | {"WICKETGATE__STATE": str(gate / "hub-state")}
    checked = subprocess.run([programs / "wicketgate", "config", "check", "laid.yaml"], cwd=gate, env=own, capture_output=True, text=True)
    assert checked.returncode == 0 and "laid.yaml: ok" in checked.stdout, checked.stdout + checked.stderr


def main(programs):
    with Api() as api, tempfile.TemporaryDirectory() as made:
        home = pathlib.Path(made)
        for name in ("policies", "deploy"):
            shutil.copytree(TOP / name, home / name)
        (home / "tests" / "deploy").mkdir(parents=True)
        shutil.copy(TOP / "tests" / "deploy" / "rules.test.yaml", home / "tests" / "deploy")
        for folder in ("bin", "releases", "home"):
            (home / folder).mkdir()
        for name, text in SHIMS.items():
            shim = home / "bin" / name
            shim.write_text("#!/usr/bin/env bash\n" + text.format(real=BIN / name) + "\n")
            shim.chmod(0o755)
        (home / "bin" / "promtool").symlink_to(BIN / "promtool")
        environment = {"PATH": f"{home}/bin:{programs}:{os.environ['PATH']}", "HOME": f"{home}/home", "KUBECONFIG": api.kubeconfig,
                       "RELEASES": f"{home}/releases"}
        asked = blocks()
        done = subprocess.run(["bash", "-euo", "pipefail", "-c", "\n".join(asked)], cwd=home, env=environment,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        assert done.stdout.count("SUCCESS") == 2, done.stdout

        namespace = api.objects["/api/v1/namespaces/agents"]
        assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted", namespace
        sent = [one for path, one in api.objects.items() if path.count("/namespaces/agents/") == 1]
        asking = [one for one in sent if one["metadata"]["name"].startswith("summarizer")]
        ours = [one for one in sent if one not in asking and one["kind"] != "Secret" and one["metadata"].get("labels", {}).get("app.kubernetes.io/name") != "ledger"]
        assert {one["kind"] for one in ours} == {"Deployment", "ConfigMap", "NetworkPolicy", "Cluster"}, ours
        database = [one for one in sent if one["kind"] != "Secret" and one not in ours + asking]
        assert {one["kind"] for one in database} == {"ConfigMap", "ServiceAccount", "Service", "NetworkPolicy", "StatefulSet"}, database
        sets = {"kustomize": [one for one in ours if one["kind"] != "Cluster"], "database": database}
        for path in (home / "releases").glob("*.json"):
            release = json.loads(path.read_text())
            hooks = [hook["manifest"] for hook in release.get("hooks") or []]
            sets[path.stem] = manifests("\n---\n".join([release["manifest"], *hooks]))
        assert sets.keys() == {"kustomize", "database", "demo", "hub", "alone", "injector"}, sets.keys()
        for name, all_of_it in sets.items():
            for one in all_of_it:
                check(one, namespace="wicketgate-system" if name == "injector" else "agents")
        for one, spec in pods(sets["injector"]):
            restricted_pod(one["metadata"]["name"], spec)
        for all_of_it in (sets["demo"], sets["hub"], sets["alone"]):
            for one, spec in pods(all_of_it):
                restricted_pod(one["metadata"]["name"], spec)
        # Every Secret that a pod mounts was made before, but for those that cert-manager makes.
        made = {one["metadata"]["name"] for one in sent if one["kind"] == "Secret"}
        for name in ("database", "demo", "hub"):
            for _, spec in pods(sets[name]):
                for volume in spec["volumes"]:
                    sources = [one["secret"]["name"] for one in volume.get("projected", {}).get("sources") or [] if "secret" in one]
                    sources += [volume["secret"]["secretName"]] if "secret" in volume else []
                    assert set(sources) <= made, f"{name}: {sources}"
        hub(programs, home / "gate", sets["hub"])
        given = [agent(sets[name], home / "gate") for name in ("demo", "kustomize")]
        # What the injector makes of the pod that asks: the profile says what, and its ConfigMap has the files.
        [asks] = [one for one in asking if one["kind"] == "Deployment"]
        spec = injected(profiles(sets["injector"])["default"], asks["spec"]["template"])["spec"]
        given.append(agent([{**asks, "spec": {"template": {"spec": spec}}}, *(one for one in asking if one is not asks)], home / "gate"))
        assert given[0] == given[1] == given[2] and {"wicketgate.yaml", "repo/main.rs"} <= given[0].keys(), given
        [config] = [one["data"] for one in sets["alone"] if one["kind"] == "ConfigMap"]
        config = set(config.values()) - set(given[0].values())
        assert len(config) == 1 and "isolation: enforced" in min(config) and "callers: [{spiffe:" in min(config), config
        print(f"{len(asked)} blocks were run, {sum(map(len, sets.values()))} manifests came of them")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]).resolve())
