"""Opens runs at the gate, one after the other, and prints what came of each. In an opened one a call is made.

    opens.py '[{"mode": "replay", "recording": "sha256:…"}, …]'      # each is an OpenRunRequest; $X is put in from the environment

`tool` and `arguments` beside it say which call. One that is held is waited for; that it is stands on standard error.
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
    return error.code().name, ""


options = [("grpc.default_authority", "localhost")]
with grpc.insecure_channel("unix:" + os.environ["WICKETGATE_SOCKET"], options=options) as channel:
    gate = services.GateStub(channel)
    for asked in json.loads(sys.argv[1]):
        tool, arguments = asked.pop("tool", "look.up"), json.dumps(asked.pop("arguments", {"name": "ada"}))
        asked = {name: os.path.expandvars(value) for name, value in asked.items()}
        try:
            run, call = gate.OpenRun.with_call(pb.OpenRunRequest(model="any", **asked))
        except grpc.RpcError as error:
            print("refused", *detail(error))
            continue
        metadata = dict(call.initial_metadata())
        print("opened", run.run_id, run.seed or "-", run.clock or "-", metadata.get("x-wicketgate-seed", "-"))
        token = [("authorization", "Bearer " + run.run_token)]
        request = pb.ExecuteToolRequest(tool=tool, arguments=arguments.encode(), call_id="the-call")
        try:
            answer = gate.ExecuteTool(request, metadata=token)
        except grpc.RpcError as error:
            if detail(error)[0] != "call.held":
                print("call", *detail(error))
                gate.SealRun(pb.SealRunRequest(), metadata=token)
                continue
            print("held", run.run_id, file=sys.stderr, flush=True)
            answer = gate.GetCall(pb.GetCallRequest(call_id="the-call", wait_ms=60000), metadata=token)
        print(answer.call_id, answer.result.inline.decode())
        gate.SealRun(pb.SealRunRequest(), metadata=token)
