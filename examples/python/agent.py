#!/usr/bin/env python3
"""An agent in Python: opens a run at the gate, asks for some calls, seals the run.

    agent.py SOCKET INSTRUCTIONS [TOOL ARGUMENTS]...     # INSTRUCTIONS is a file, or - for none

    pip install grpcio grpcio-status grpcio-tools        # stubs are made from proto/ at run time
    wicketgate quickstart --dir demo --keep              # a gate to talk to, in another terminal
    python examples/python/agent.py demo/state/agent.sock demo/instructions.txt
"""

import hashlib
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


def why(error):
    """The stable code of a refusal and the rules that spoke, from google.rpc.ErrorInfo."""
    status = rpc_status.from_call(error)
    for detail in status.details if status else []:
        info = error_details_pb2.ErrorInfo()
        if detail.Unpack(info):
            rules = [reason["rule"] for reason in json.loads(info.metadata.get("reasons", "[]"))]
            return info.reason, rules
    return error.code().name, []


CALLS = [
    ("crm.search", '{"name": "Berg"}'),
    ("tickets.create", '{"title": "paid twice", "text": "tell anna.berg@customer.example"}'),
    ("payments.transfer", '{"customer": "C-1042", "amount": 2500}'),
]


def main(socket, instructions, *calls):
    digests = []
    if instructions != "-":
        with open(instructions, "rb") as file:
            digests = [hashlib.sha256(file.read()).hexdigest()]
    # gRPC's C core would send the socket's path as the authority, which is none in HTTP/2's eyes.
    options = [("grpc.default_authority", "localhost")]
    with grpc.insecure_channel("unix:" + os.path.abspath(socket), options=options) as channel:
        gate = services.GateStub(channel)
        run = gate.OpenRun(pb.OpenRunRequest(model="gpt-5-mini", instructions_sha256=digests))
        token = [("authorization", "Bearer " + run.run_token)]
        tools = gate.ListTools(pb.ListToolsRequest(), metadata=token).tools
        print("run", run.run_id, "may use", ", ".join(tool.name for tool in tools))
        for tool, arguments in zip(calls[::2], calls[1::2]) if calls else CALLS:
            request = pb.ExecuteToolRequest(tool=tool, arguments=arguments.encode())
            try:
                answer = gate.ExecuteTool(request, metadata=token)
                print(f"{tool}: {answer.result.inline.decode()} (entry {answer.receipt.seq})")
            except grpc.RpcError as error:
                code, rules = why(error)
                print(f"{tool}: refused: {code}: {error.details()} {rules}")
        print("sealed,", gate.SealRun(pb.SealRunRequest(), metadata=token).entries, "entries")


if __name__ == "__main__":
    main(*sys.argv[1:])
