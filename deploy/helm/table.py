#!/usr/bin/env python3
"""Makes the table of values in the chart's README: deploy/helm/table.py.

The schema describes each value, and values.yaml has its default. Needs Python with PyYAML. A test looks whether the table is current."""

import json
import pathlib

import yaml

CHART = pathlib.Path(__file__).resolve().parent / "wicketgate"
README = CHART / "README.md"
BEGIN, END = "<!-- values: made by deploy/helm/table.py -->\n", "<!-- end of the values -->\n"


def kind(schema):
    if "enum" in schema:
        return ", ".join(f"`{one}`" if one else "empty" for one in schema["enum"])
    return {"object": "mapping", "array": "list", "string": "text", "integer": "whole number", "boolean": "`true` or `false`"}[schema["type"]]


def rows(schema, values, path=""):
    """(path, type, default, meaning) of each value; groups of values have no row of their own."""
    for name, inner in schema["properties"].items():
        at, default = path + name, (values or {}).get(name)
        if name != "resources" and inner.get("properties"):
            yield from rows(inner, default, at + ".")
            continue
        shown = "" if default is None else f"`{json.dumps(default, ensure_ascii=False)}`"
        meaning = inner.get("description", "").replace("|", "\\|")
        assert meaning, f"values.schema.json does not describe {at}"
        yield at, kind(inner), shown, meaning


def made():
    """The README with its table as the schema and the values say it."""
    schema, values = json.loads((CHART / "values.schema.json").read_text()), yaml.safe_load((CHART / "values.yaml").read_text())
    lines = ["| Value | Type | Default | Meaning |", "|---|---|---|---|"]
    lines += [f"| `{at}` | {of} | {default} | {meaning} |" for at, of, default, meaning in rows(schema, values)]
    before, rest = README.read_text().split(BEGIN)
    return before + BEGIN + "\n".join(lines) + "\n" + END + rest.split(END)[1]


def current():
    return README.read_text() == made()


if __name__ == "__main__":
    README.write_text(made())
