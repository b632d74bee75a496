"""An object store for the tests: moto's S3 on the loopback, told what to do line by line.

Every request has to carry a signature that botocore computes too. Ends when its standard input does.
"""

import io
import json
import os
import sys
import threading
import urllib.parse

KEY, SECRET, REGION = "AKIATEST", "a secret of the tests", "eu-test-1"
os.environ.update(AWS_ACCESS_KEY_ID=KEY, AWS_SECRET_ACCESS_KEY=SECRET, AWS_DEFAULT_REGION=REGION)

import boto3
from botocore.auth import S3SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

ORDERS = {"puts_left": None, "hidden": set(), "silent": False}


def refusal(start, status, code, words):
    start(status, [("Content-Type", "application/xml")])
    return [f"<Error><Code>{code}</Code><Message>{words}</Message></Error>".encode()]


def signed(environ, query):
    """Whether botocore comes to the same signature, the headers of its list as they were sent."""
    query = dict(query)
    said = query.pop("X-Amz-Signature")
    url = f"http://{environ['HTTP_HOST']}{urllib.parse.quote(environ['PATH_INFO'])}"
    headers = {}
    for name in query["X-Amz-SignedHeaders"].split(";"):
        at = name.upper().replace("-", "_")
        headers[name] = environ.get(f"HTTP_{at}") or environ.get(at, "")
    request = AWSRequest(environ["REQUEST_METHOD"], url + "?" + urllib.parse.urlencode(query, quote_via=urllib.parse.quote), headers)
    auth = S3SigV4QueryAuth(Credentials(KEY, SECRET), "s3", REGION)
    request.context["timestamp"] = query["X-Amz-Date"]
    return auth.signature(auth.string_to_sign(request, auth.canonical_request(request)), request) == said


class Gate:
    def __init__(self, app):
        self.app = app

    def __call__(self, environ, start):
        query = dict(urllib.parse.parse_qsl(environ["QUERY_STRING"], keep_blank_values=True))
        if "X-Amz-Signature" in query:
            if query["X-Amz-Credential"].split("/")[0] != KEY:
                return refusal(start, "403 Forbidden", "InvalidAccessKeyId", "no such key")
            if not signed(environ, query):
                return refusal(start, "403 Forbidden", "SignatureDoesNotMatch", "another signature")
            if environ["REQUEST_METHOD"] == "PUT" and ORDERS["puts_left"] is not None:
                ORDERS["puts_left"] -= 1
                if ORDERS["puts_left"] < 0:
                    os._exit(1)
            name = environ["PATH_INFO"].split("/", 2)[-1]
            if environ["REQUEST_METHOD"] == "GET" and name in ORDERS["hidden"]:
                ORDERS["hidden"].discard(name)
                return refusal(start, "404 Not Found", "NoSuchKey", "hidden")
            # The signature is checked: moto is told who it is in the other way, which it does not check.
            rest = [(k, v) for k, v in query.items() if not k.startswith("X-Amz-")]
            environ["QUERY_STRING"] = urllib.parse.urlencode(rest)
            scope = query["X-Amz-Credential"]
            environ["HTTP_AUTHORIZATION"] = f"AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host, Signature=0"
        return self.app(environ, start)


def do(client, order):
    what, bucket, key = order["do"], order.get("bucket"), order.get("key")
    if what == "bucket":
        client.create_bucket(Bucket=bucket, ObjectLockEnabledForBucket=order["lock"],
                             CreateBucketConfiguration={"LocationConstraint": REGION})
    elif what == "keys":
        return [o["Key"] for o in client.list_objects_v2(Bucket=bucket).get("Contents", [])]
    elif what == "versions":
        found = client.list_object_versions(Bucket=bucket, Prefix=key)
        return len([v for v in found.get("Versions", []) if v["Key"] == key])
    elif what == "retention":
        kept = client.head_object(Bucket=bucket, Key=key)
        return {"mode": kept["ObjectLockMode"], "until": str(kept["ObjectLockRetainUntilDate"])}
    elif what == "get":
        return client.get_object(Bucket=bucket, Key=key)["Body"].read().hex()
    elif what == "put":
        client.put_object(Bucket=bucket, Key=key, Body=io.BytesIO(bytes.fromhex(order["hex"])))
    elif what == "hide":
        ORDERS["hidden"].add(key)
    elif what == "die":
        ORDERS["puts_left"] = order["after"]
    else:
        raise ValueError(what)
    return None


def main():
    server = make_server("127.0.0.1", 0, Gate(DomainDispatcherApplication(create_backend_app)), threaded=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    client = boto3.client("s3", endpoint_url=url, config=Config(s3={"addressing_style": "path"}))
    print(json.dumps({"url": url}), flush=True)
    for line in sys.stdin:
        try:
            answer = {"is": do(client, json.loads(line))}
        except Exception as error:  # told to the test, which decides
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


main()
