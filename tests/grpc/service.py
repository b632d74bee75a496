"""A gRPC service as stock grpcio serves it, which writes down what reaches it.

service.py DIR [CERT KEY]: compiles service.proto into DIR (descriptors in DIR/shop.pb), serves on a free port of
127.0.0.1, writes `port N` to standard output and one JSON object per event to DIR/seen.jsonl.
"form" answers the text of that number in DIR/forms.json.
"""

import json
import os
import sys
import threading
from concurrent import futures

import grpc
from google.protobuf import any_pb2, json_format
from grpc_tools import protoc

here = os.path.dirname(os.path.abspath(__file__))
out = sys.argv[1]
include = os.path.join(os.path.dirname(protoc.__file__), "_proto")
code = protoc.main(
    ["protoc", f"-I{here}", f"-I{include}", f"--python_out={out}", f"--grpc_python_out={out}",
     "--include_imports", f"--descriptor_set_out={out}/shop.pb", "service.proto"]
)
if code != 0:
    sys.exit("service.proto does not compile")
sys.path.insert(0, out)
import service_pb2  # noqa: E402
import service_pb2_grpc  # noqa: E402

seen = open(os.path.join(out, "seen.jsonl"), "a", encoding="utf-8")
lock = threading.Lock()


def note(**what):
    with lock:
        seen.write(json.dumps(what) + "\n")
        seen.flush()


def metadata(context):
    return {key: value if isinstance(value, str) else "<bytes>" for key, value in context.invocation_metadata()}


class Orders(service_pb2_grpc.OrdersServicer):
    def Echo(self, request, context):
        note(method="Echo", metadata=metadata(context), json=json_format.MessageToDict(request))
        return request

    def Open(self, request, context):
        note(method="Open", json=json_format.MessageToDict(request))
        return request

    def Change(self, request, context):
        return self.Act(request, context)

    def Act(self, request, context):
        note(method="Act", act=request.act, metadata=metadata(context), left=context.time_remaining())
        answer = service_pb2.Answer(text=request.message)
        if request.act == "status":
            context.abort(getattr(grpc.StatusCode, request.message.split(":")[0]), request.message.split(":", 1)[1])
        elif request.act == "raise":
            raise RuntimeError("inside the service")
        elif request.act == "large":
            answer.text = "x" * request.size
        elif request.act == "many":
            answer.numbers.extend([1] * request.size)
        elif request.act == "secret":
            answer.text = "you said " + metadata(context)["authorization"]
        elif request.act == "form":
            with open(os.path.join(out, "forms.json"), encoding="utf-8") as forms:
                answer.text = json.load(forms)[request.size]
        elif request.act == "secret_status":
            context.abort(grpc.StatusCode.NOT_FOUND, "you said " + metadata(context)["authorization"])
        elif request.act == "wait":
            gone = threading.Event()
            context.add_callback(gone.set)
            note(method="Act", act="inside")
            gone.wait(60)
            note(method="Act", act="gone", active=context.is_active())
        elif request.act == "die":
            os._exit(9)
        elif request.act == "unknown_type":
            answer.any.type_url = "type.googleapis.com/shop.v1.Nobody"
            answer.any.value = b"\x0a\x01x"
        elif request.act == "unknown_member":
            answer.colour = 99
        elif request.act == "deep":
            inner = any_pb2.Any()
            inner.Pack(service_pb2.Leaf(name="x"))
            for _ in range(request.size):
                outer = any_pb2.Any()
                outer.Pack(inner)
                inner = outer
            answer.any.CopyFrom(inner)
        return answer


server = grpc.server(
    futures.ThreadPoolExecutor(max_workers=16),
    options=[("grpc.max_receive_message_length", 16 << 20), ("grpc.max_send_message_length", 64 << 20)],
)
service_pb2_grpc.add_OrdersServicer_to_server(Orders(), server)
if len(sys.argv) > 2:
    with open(sys.argv[2], "rb") as cert, open(sys.argv[3], "rb") as key:
        credentials = grpc.ssl_server_credentials([(key.read(), cert.read())])
    port = server.add_secure_port("127.0.0.1:0", credentials)
else:
    port = server.add_insecure_port("127.0.0.1:0")
server.start()
print(f"port {port}", flush=True)
sys.stdin.read()
server.stop(0)
