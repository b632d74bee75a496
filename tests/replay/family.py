"""Opens runs, calls tools and seals runs in the order it is told, and prints what came of each.

    family.py '[["open", "lead", {}], ["open", "kid", {"parent": "lead", "delegate": "sha256:…"}],
                ["call", "kid", "look.up", {"name": "ada"}], ["seal", "kid"], …]'

`parent` names a run that was opened before; `socket` says which variable has the socket of whoever opens it. The
other members are those of OpenRunRequest; $X in their texts is put in from the environment.
"""

import json
import os
import sys
import tempfile

import grpc
from google.rpc import error_details_pb2
from grpc_status import rpc_status
from grpc_tools import protoc

PROTO = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "proto")

with tempfile.TemporaryDirectory() as out:
    protoc.main(["", f"-I{PROTO}", f"--python_out={out}", f"--grpc_python_out={out}", "wicketgate/v1/gate.proto"])
    sys.path.insert(0, out)
    from wicketgate.v1 import gate_pb2 as pb
    from wicketgate.v1 import gate_pb2_grpc as services


def detail(error):
    status = rpc_status.from_call(error)
    for one in status.details if status else []:
        info = error_details_pb2.ErrorInfo()
        if one.Unpack(info):
            return info.reason, info.metadata.get("detail", "")
    return error.code().name, error.details()


def connect(variable):
    options = [("grpc.default_authority", "localhost")]
    return services.GateStub(grpc.insecure_channel("unix:" + os.environ[variable], options=options))


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
