"""The gate's protocol for the agents of these tests: messages, services, and the code of an error."""

import os
import sys
import tempfile

from google.rpc import error_details_pb2
from grpc_status import rpc_status
from grpc_tools import protoc

PROTO = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "proto")

with tempfile.TemporaryDirectory() as out:
    protoc.main(["", f"-I{PROTO}", f"--python_out={out}", f"--grpc_python_out={out}", "wicketgate/v1/gate.proto"])
    sys.path.insert(0, out)
    from wicketgate.v1 import gate_pb2 as pb
    from wicketgate.v1 import gate_pb2_grpc as services

# What gRPC's C core sends over a Unix socket otherwise is no valid authority.
OPTIONS = [("grpc.default_authority", "localhost")]


def detail(error):
    status = rpc_status.from_call(error)
    for one in status.details if status else []:
        info = error_details_pb2.ErrorInfo()
        if one.Unpack(info):
            return info.reason, info.metadata.get("detail", "")
    return error.code().name, ""


__all__ = ["OPTIONS", "detail", "pb", "services"]
