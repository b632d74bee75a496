"""Holds the alerts and the dashboard to promtool and to what a program exports: monitoring.py QUESTION [FILE]."""

import json
import pathlib
import re
import subprocess
import sys
import tempfile

import yaml

from rendering import BIN, CHART, TOP

RULES = CHART / "rules.yaml"
DASHBOARD = CHART / "dashboard.json"
TESTS = TOP / "tests" / "deploy" / "rules.test.yaml"
# Labels that Prometheus adds to what it scrapes.
ADDED = {"instance", "job", "le"}
WORDS = re.compile(r"\bwicketgate_\w+")


def promtool(*args):
    done = subprocess.run([str(BIN / "promtool"), *map(str, args)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def alerts():
    return {rule["alert"]: rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]}


def rules():
    """promtool finds nothing wrong, every alert has a series it fires on and one it is silent on, and both are so."""
    assert f"{len(alerts())} rules found" in promtool("check", "rules", "--lint=all", "--lint-fatal", RULES)
    promtool("test", "rules", TESTS)
    fires, silent = set(), set()
    for test in yaml.safe_load(TESTS.read_text())["tests"]:
        name = test["name"].split()[0]
        asked = [one for one in test["alert_rule_test"] if one["alertname"] == name]
        assert asked, test["name"]
        fired = any(one.get("exp_alerts") for one in asked)
        assert fired == (" fires " in test["name"]) and fired != (" is silent " in test["name"]), test["name"]
        (fires if fired else silent).add(name)
    assert fires == silent == set(alerts()), (fires ^ silent) | (fires ^ set(alerts()))
    print(f"{len(fires)} alerts fire and are silent")


def panels():
    """(title, expression, legend) of everything the dashboard asks."""
    found = []
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        found += [(panel["title"], one["expr"], one["legendFormat"]) for one in panel.get("targets", [])]
    return found


def plain(expression):
    """An expression of the dashboard as Prometheus gets it."""
    return expression.replace("$__rate_interval", "5m").replace("$instance", ".*")


def dashboard():
    """promtool can read every expression of the dashboard, and Grafana tell its panels apart."""
    asked = panels()
    made = {"groups": [{"name": "dashboard", "rules": [
        {"record": f"panel:{i}", "expr": plain(one)} for i, (_, one, _) in enumerate(asked)]}]}
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "rules.yaml"
        path.write_text(yaml.safe_dump(made))
        assert f"{len(asked)} rules found" in promtool("check", "rules", path)
    board = json.loads(DASHBOARD.read_text())
    ids = [panel["id"] for panel in board["panels"]]
    assert len(ids) == len(set(ids)), ids
    for one in board["panels"]:
        place = one["gridPos"]
        assert place["x"] + place["w"] <= 24, one["title"]
        for other in board["panels"]:
            at = other["gridPos"]
            apart = (place["x"] + place["w"] <= at["x"] or at["x"] + at["w"] <= place["x"]
                     or place["y"] + place["h"] <= at["y"] or at["y"] + at["h"] <= place["y"])
            assert one is other or apart, f"`{one['title']}` lies over `{other['title']}`"
    print(f"{len(asked)} expressions can be read")


def exported(text):
    """{name: labels} of a text in the format of OpenMetrics."""
    found = {}
    for line in text.splitlines():
        sample = re.match(r"(wicketgate_\w+)(?:\{(.*)\})? ", line)
        if sample and not line.startswith("#"):
            found.setdefault(sample[1], set()).update(re.findall(r'(\w+)="', sample[2] or ""))
    return found


def asks(at, expression, legend, known):
    """Whether the names and labels of an expression are known; the names."""
    names = set(WORDS.findall(expression))
    assert names, f"{at}: `{expression}` asks for nothing of ours"
    assert names <= set(known), f"{at}: {sorted(names - set(known))} are exported by nobody"
    labels = ADDED.union(*(known[name] for name in names))
    used = set(re.findall(r"(\w+)(?:=~|!=|!~|=)\"", expression)) | set(re.findall(r"\{\{\s*(\w+)\s*\}\}", legend))
    for listed in re.findall(r"\bby \(([^)]*)\)", expression):
        used |= {one.strip() for one in listed.split(",")}
    assert used <= labels, f"{at}: {sorted(used - labels)} are no labels of {sorted(names)}"
    return names


def named(path):
    """Every metric and label that an alert or a panel asks for is in this text."""
    known = exported(pathlib.Path(path).read_text())
    seen = set()
    for name, rule in alerts().items():
        said = " ".join(re.findall(r"\$labels\.(\w+)", json.dumps(rule["annotations"])))
        seen |= asks(name, rule["expr"], " ".join(f"{{{{{one}}}}}" for one in said.split()), known)
    for title, expression, legend in panels():
        seen |= asks(title, expression, legend, known)
    print(f"{len(seen)} names are exported")


if __name__ == "__main__":
    {"rules": rules, "dashboard": dashboard, "named": named}[sys.argv[1]](*sys.argv[2:])
