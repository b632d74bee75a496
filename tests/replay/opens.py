"""Opens runs at the gate, one after the other, and prints what came of each. In an opened one a call is made.

    opens.py '[{"mode": "replay", "recording": "sha256:…"}, …]'      # each is an OpenRunRequest; $X is put in from the environment

`tool` and `arguments` beside it say which call. One that is held is waited for; that it is stands on standard error.
"""

import json
import os
import sys

import grpc
from wire import OPTIONS, detail, pb, services

with grpc.insecure_channel("unix:" + os.environ["WICKETGATE_SOCKET"], options=OPTIONS) as channel:
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
