#!/usr/bin/env python3
"""A gRPC client of `wicketgate.v1.Gate` that shares no code with the product: stubs are made from the proto at run time.

    gate_client.py TARGET open --model M [--instructions HEX]… [--tool NAME]… [--label K=V]… [--credential TOKEN]
    gate_client.py TARGET list
    gate_client.py TARGET call TOOL JSON [--call-id ID]
    gate_client.py TARGET get CALL_ID
    gate_client.py TARGET read CALL_ID [--offset N]
    gate_client.py TARGET seal

TARGET is `unix:PATH` or HOST:PORT, over TLS with `--ca FILE [--cert FILE --cert-key FILE]`. All but `open` need the run token: `--token`, or WICKETGATE_RUN_TOKEN in the environment.
Prints one JSON object. Exit status: 0 answered, 3 refused with a status (printed, with the reason of its ErrorInfo).
"""

import argparse
import base64
import importlib
import json
import os
import sys
import tempfile

import grpc
from google.protobuf.json_format import MessageToDict
from google.rpc import error_details_pb2
from grpc_status import rpc_status
from grpc_tools import protoc

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROTO = "wicketgate/v1/gate.proto"


def stubs():
    """The message and service modules, made into a folder under target/ that is gone when this returns."""
    scratch = os.path.join(TOP, "target", "tests")
    os.makedirs(scratch, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=scratch) as out:
        root = os.path.join(TOP, "proto")
        if protoc.main(["protoc", f"-I{root}", f"--python_out={out}", f"--grpc_python_out={out}", PROTO]) != 0:
            sys.exit("gate_client: the proto does not compile")
        sys.path.insert(0, out)
        sys.dont_write_bytecode = True
        try:
            return (
                importlib.import_module("wicketgate.v1.gate_pb2"),
                importlib.import_module("wicketgate.v1.gate_pb2_grpc"),
            )
        finally:
            sys.path.remove(out)


def as_text(raw):
    """Bytes as they are if they are JSON or text, else base64."""
    try:
        return json.loads(raw)
    except ValueError:
        pass
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(raw).decode("ascii")}


def plain(message):
    """A message as JSON: names as in the proto, 64-bit numbers as numbers, zeros said."""
    out = MessageToDict(message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True)

    def numbers(value):
        if isinstance(value, dict):
            return {
                name: int(item) if name in ("seq", "run_seq", "size", "offset", "entries") else numbers(item)
                for name, item in value.items()
            }
        return [numbers(item) for item in value] if isinstance(value, list) else value

    return numbers(out)


def answer(message):
    """ExecuteTool's and GetCall's answer, with the result's bytes read as JSON."""
    out = plain(message)
    if message.result.WhichOneof("body") == "inline":
        out["result"] = {"inline": as_text(message.result.inline), "bytes": len(message.result.inline)}
    return out


def refusal(error):
    """A status as JSON, with what its details say."""
    out = {"status": error.code().name, "message": error.details()}
    rich = rpc_status.from_call(error)
    for detail in rich.details if rich else []:
        name = detail.type_url.rpartition("/")[2]
        info = error_details_pb2.ErrorInfo()
        if detail.Is(info.DESCRIPTOR):
            detail.Unpack(info)
            out.update(domain=info.domain, reason=info.reason, metadata=dict(info.metadata))
            continue
        retry = error_details_pb2.RetryInfo()
        if detail.Is(retry.DESCRIPTOR):
            detail.Unpack(retry)
            out["retry_after"] = retry.retry_delay.seconds + retry.retry_delay.nanos / 1e9
            continue
        out.setdefault("details", []).append(name)
    return out


def read(stub, pb, given, options):
    """The whole result, checked to come in order and without gaps."""
    body, at, receipt, size = bytearray(), given.offset, None, None
    for piece in stub.ReadResult(pb.ReadResultRequest(call_id=given.call_id, offset=given.offset), **options):
        if piece.offset != at:
            sys.exit(f"gate_client: a piece at {piece.offset} where {at} belongs")
        if receipt is not None:
            sys.exit("gate_client: a piece after the one with the receipt")
        body += piece.data
        at, size = at + len(piece.data), piece.size
        receipt = plain(piece.receipt) if piece.HasField("receipt") else None
    return {"bytes": len(body), "size": size, "receipt": receipt, "data": as_text(bytes(body))}


def ask(stub, pb, given):
    options = {"timeout": given.timeout, "metadata": []}
    token = given.credential if given.command == "open" else given.token
    if token:
        options["metadata"].append(("authorization", f"Bearer {token}"))
    if given.traceparent:
        options["metadata"].append(("traceparent", given.traceparent))
    if given.command == "open":
        request = pb.OpenRunRequest(
            model=given.model, instructions_sha256=given.instructions, tools=given.tool, mode=given.mode,
            labels=dict(label.split("=", 1) for label in given.label),
        )
        return plain(stub.OpenRun(request, **options))
    if given.command == "list":
        found = stub.ListTools(pb.ListToolsRequest(), **options)
        return {"tools": [{**plain(t), "input_schema": as_text(t.input_schema)} for t in found.tools]}
    if given.command == "call":
        # The bytes as they were given: duplicate keys and bad numbers must arrive.
        arguments = sys.stdin.buffer.read() if given.arguments == "-" else given.arguments.encode("utf-8", "surrogateescape")
        request = pb.ExecuteToolRequest(tool=given.name, arguments=arguments, call_id=given.call_id)
        return answer(stub.ExecuteTool(request, **options))
    if given.command == "get":
        return answer(stub.GetCall(pb.GetCallRequest(call_id=given.call_id), **options))
    if given.command == "read":
        return read(stub, pb, given, options)
    return plain(stub.SealRun(pb.SealRunRequest(), **options))


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", help="unix:PATH or HOST:PORT")
    parser.add_argument("--token", default=os.environ.get("WICKETGATE_RUN_TOKEN", ""), help="the run token")
    parser.add_argument("--ca", help="PEM authorities: over TLS")
    parser.add_argument("--cert", help="PEM certificate of this client")
    parser.add_argument("--cert-key", help="its private key")
    parser.add_argument("--timeout", type=float, default=30.0, help="seconds")
    parser.add_argument("--traceparent", default="")
    commands = parser.add_subparsers(dest="command", required=True)
    opening = commands.add_parser("open")
    opening.add_argument("--model", required=True)
    opening.add_argument("--instructions", action="append", default=[])
    opening.add_argument("--tool", action="append", default=[])
    opening.add_argument("--label", action="append", default=[])
    opening.add_argument("--mode", default="")
    opening.add_argument("--credential", default="", help="the agent's own, on TCP")
    commands.add_parser("list")
    calling = commands.add_parser("call")
    calling.add_argument("name")
    calling.add_argument("arguments", help="JSON, or `-` to read it from standard input")
    calling.add_argument("--call-id", default="")
    getting = commands.add_parser("get")
    getting.add_argument("call_id")
    reading = commands.add_parser("read")
    reading.add_argument("call_id")
    reading.add_argument("--offset", type=int, default=0)
    commands.add_parser("seal")
    return parser.parse_args()


def channel(given, options):
    """In the clear, or over TLS, showing a certificate if there is one."""
    if not given.ca:
        return grpc.insecure_channel(given.target, options=options)
    files = []
    for name in (given.ca, given.cert_key, given.cert):
        if name:
            with open(name, "rb") as file:
                files.append(file.read())
    return grpc.secure_channel(given.target, grpc.ssl_channel_credentials(*files), options=options)


def main():
    given = arguments()
    pb, services = stubs()
    # 64 MiB: whether the gate keeps to its own limits is what a test wants to see.
    options = [("grpc.max_receive_message_length", 64 << 20), ("grpc.enable_http_proxy", 0)]
    # For a socket gRPC's C core would send its path, which HTTP/2 accepts as no authority.
    options.append(("grpc.default_authority", "localhost"))
    with channel(given, options) as opened:
        try:
            print(json.dumps({"ok": ask(services.GateStub(opened), pb, given)}, sort_keys=True))
            return 0
        except grpc.RpcError as error:
            print(json.dumps({"error": refusal(error)}, sort_keys=True))
            return 3


if __name__ == "__main__":
    sys.exit(main())
