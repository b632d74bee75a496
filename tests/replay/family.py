"""Opens runs, calls tools and seals runs in the order it is told, and prints what came of each.

    family.py '[["open", "lead", {}], ["open", "kid", {"parent": "lead", "delegate": "sha256:…"}],
                ["call", "kid", "look.up", {"name": "ada"}], ["seal", "kid"], …]'

`parent` names a run that was opened before; `socket` says which variable has the socket of whoever opens it. The
other members are those of OpenRunRequest; $X in their texts is put in from the environment.
"""

import json
import os
import sys

import grpc
from wire import OPTIONS, detail, pb, services


def connect(variable):
    return services.GateStub(grpc.insecure_channel("unix:" + os.environ[variable], options=OPTIONS))


def main(orders):
    runs, calls = {}, {}
    for what, name, *rest in orders:
        try:
            if what == "open":
                asked = {key: os.path.expandvars(value) if isinstance(value, str) else value for key, value in rest[0].items()}
                gate = connect(asked.pop("socket", "WICKETGATE_SOCKET"))
                if "parent" in asked:
                    asked["parent_run"], asked["parent_token"] = runs[asked.pop("parent")][1:]
                run = gate.OpenRun(pb.OpenRunRequest(model="any", **asked))
                runs[name] = gate, run.run_id, run.run_token
                print("opened", name, run.run_id, run.seed or "-")
                continue
            gate, _, token = runs[name]
            shown = [("authorization", "Bearer " + token)]
            if what == "seal":
                gate.SealRun(pb.SealRunRequest(), metadata=shown)
                print("sealed", name)
                continue
            tool, arguments = rest
            calls[name] = calls.get(name, 0) + 1
            request = pb.ExecuteToolRequest(tool=tool, arguments=json.dumps(arguments).encode(), call_id=f"c{calls[name]}")
            print("called", name, tool, gate.ExecuteTool(request, metadata=shown).result.inline.decode())
        except grpc.RpcError as error:
            print("refused", what, name, *detail(error))


main(json.loads(sys.argv[1]))
