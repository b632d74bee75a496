#!/usr/bin/env python3
"""A gRPC client of `wicketgate.v1.Approvals` and `.Control` that shares no code with the product: stubs are made from the proto at run time.

    operator_client.py HOST:PORT SERVICE METHOD JSON [--token-file FILE] [--ca FILE [--cert FILE --cert-key FILE]]

JSON is the request in protobuf's own JSON mapping (bytes are base64). Prints one JSON object. Exit status: 0 answered, 3 refused.
"""

import argparse
import importlib
import json
import os
import sys
import tempfile

import grpc
from google.protobuf.json_format import MessageToDict, ParseDict
from google.rpc import error_details_pb2
from grpc_status import rpc_status
from grpc_tools import protoc

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROTO = "wicketgate/v1/approvals.proto"


def stubs():
    """The message and service modules, made into a folder that is gone when this returns."""
    with tempfile.TemporaryDirectory() as out:
        root = os.path.join(TOP, "proto")
        if protoc.main(["protoc", f"-I{root}", f"--python_out={out}", f"--grpc_python_out={out}", PROTO]) != 0:
            sys.exit("operator_client: the proto does not compile")
        sys.path.insert(0, out)
        sys.dont_write_bytecode = True
        try:
            return (
                importlib.import_module("wicketgate.v1.approvals_pb2"),
                importlib.import_module("wicketgate.v1.approvals_pb2_grpc"),
            )
        finally:
            sys.path.remove(out)


def refusal(error):
    """A status as JSON, with what its details say."""
    out = {"status": error.code().name, "message": error.details()}
    rich = rpc_status.from_call(error)
    for detail in rich.details if rich else []:
        info = error_details_pb2.ErrorInfo()
        if detail.Is(info.DESCRIPTOR):
            detail.Unpack(info)
            out.update(domain=info.domain, reason=info.reason, metadata=dict(info.metadata))
    return out


def channel(given):
    """In the clear, or over TLS, showing a certificate if there is one."""
    options = [("grpc.enable_http_proxy", 0)]
    if not given.ca:
        return grpc.insecure_channel(given.target, options=options)
    files = []
    for name in (given.ca, given.cert_key, given.cert):
        if name:
            with open(name, "rb") as file:
                files.append(file.read())
    return grpc.secure_channel(given.target, grpc.ssl_channel_credentials(*files), options=options)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target")
    parser.add_argument("service")
    parser.add_argument("method")
    parser.add_argument("request")
    parser.add_argument("--token-file")
    parser.add_argument("--ca")
    parser.add_argument("--cert")
    parser.add_argument("--cert-key")
    given = parser.parse_args()
    pb, services = stubs()
    method = pb.DESCRIPTOR.services_by_name[given.service].methods_by_name[given.method]
    request = ParseDict(json.loads(given.request), getattr(pb, method.input_type.name)())
    metadata = []
    if given.token_file:
        with open(given.token_file, encoding="ascii") as file:
            metadata.append(("authorization", f"Bearer {file.read().strip()}"))
    with channel(given) as connection:
        stub = getattr(services, f"{given.service}Stub")(connection)
        try:
            answer = getattr(stub, given.method)(request, metadata=metadata, timeout=30)
            shown = MessageToDict(answer, preserving_proto_field_name=True, always_print_fields_with_no_presence=True)
            print(json.dumps({"ok": shown}, sort_keys=True))
            return 0
        except grpc.RpcError as error:
            print(json.dumps({"error": refusal(error)}, sort_keys=True))
            return 3


if __name__ == "__main__":
    sys.exit(main())
