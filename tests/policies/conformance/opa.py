"""Stock OPA, asked over pipes: one JSON job a line in, one JSON answer a line out."""
import json
import pathlib
import sys

import opa_bindings
from opa_bindings import OpaEngine, OpaError


def capabilities():
    """Name and number of arguments of every builtin of every release of OPA that the library carries."""
    library = pathlib.Path(opa_bindings.__file__).with_name("libopabridge.so").read_bytes()
    found, at = {}, library.find(b'"builtins": [')
    while at != -1:
        start = library.rfind(b"{", 0, at)
        text = library[start : start + (1 << 20)].decode("utf-8", "replace")
        try:
            listed, _ = json.JSONDecoder().raw_decode(text)
        except ValueError:
            listed = {"builtins": []}
        for builtin in listed["builtins"]:
            found[builtin["name"]] = len(builtin["decl"].get("args", []))
        at = library.find(b'"builtins": [', at + 1)
    return found


def answered(engine, path, given):
    try:
        return {"value": engine.eval_document(path, given)}
    except OpaError as error:
        return {"undefined": True} if error.code == "undefined" else {"error": str(error)}


def evaluated(job):
    engine = OpaEngine()
    for name, text in job["modules"].items():
        engine.add_policy(name, text)
    engine.add_data(job["data"])
    return [[answered(engine, path, given) for path in job["paths"]] for given in job["inputs"]]


for line in sys.stdin:
    job = json.loads(line)
    answer = capabilities() if job == "capabilities" else evaluated(job)
    print(json.dumps(answer), flush=True)
