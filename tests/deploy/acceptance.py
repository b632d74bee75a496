"""deploy/acceptance.sh without a cluster: acceptance.py FOLDER-OF-THE-PROGRAM.

`kubectl` and `helm` stand in for a cluster on which nothing holds, and for one that says yes to everything. What the script asks of a real one is
not shown by this, only that it asks each of its claims, tells the two apart and cleans up."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

from rendering import TOP

FAKE = """#!/usr/bin/env bash
echo "$(basename "$0") $*" >>"$ASKED"
case "$(basename "$0") $*" in
*"create namespace"*|*"label namespace"*|*"delete namespace"*) exit 0 ;;
*api-resources*) echo validatingadmissionpolicies.admissionregistration.k8s.io; exit 0 ;;
*"version -o json"*) echo '"gitVersion": "v1.36.0"'; exit 0 ;;
*) exit 1 ;;
esac
"""


def main(programs):
    expected = (TOP / "deploy" / "acceptance.expected").read_text().splitlines()
    claims = [line.removeprefix("holds    ") for line in expected]
    with tempfile.TemporaryDirectory() as made:
        home = pathlib.Path(made)
        for name in ("kubectl", "helm"):
            (home / name).write_text(FAKE)
            (home / name).chmod(0o755)
        asked = home / "asked"
        environment = {"PATH": f"{home}:{programs}:{os.environ['PATH']}", "HOME": made, "PATIENCE": "0", "ASKED": str(asked), "TMPDIR": made}
        done = subprocess.run([TOP / "deploy" / "acceptance.sh", "registry.example/wicketgate:0.1.0"], env=environment,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True)
        lines = [line for line in done.stdout.splitlines() if not line.startswith(" ")]
        # A command that fails shows no open network, so that one line is not a failure here.
        open_network = "the agent reaches nothing that no value opens"
        assert lines == [f"{'holds' if claim == open_network else 'FAILS'}    {claim}" for claim in claims], done.stdout + done.stderr
        assert done.returncode == 1, done
        calls = asked.read_text()
        assert "helm -n wicketgate-acceptance-" in calls and "uninstall demo" in calls and "delete namespace wicketgate-acceptance-" in calls, calls
        # A pod that Pod Security refuses shows nothing of what it is asked about.
        ran = [line for line in calls.splitlines() if " run " in line]
        assert len(ran) == 2, ran
        for line in ran:
            name = line.split(" run ")[1].split()[0]
            said, _ = json.JSONDecoder().raw_decode(line.split("--overrides=")[1])
            assert said["spec"]["containers"] == [{"name": name, "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}}], said
        assert [path.name for path in home.iterdir() if path.name.startswith("tmp.")] == []
    print(f"{len(claims)} claims were asked")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]).resolve())
