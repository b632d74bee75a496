"""Where the files of a release come from: an in-toto statement with SLSA provenance (v1), in a DSSE envelope signed with an ed25519 key."""

import base64
import hashlib
import json
import pathlib
import subprocess
import tempfile

TYPE = "application/vnd.in-toto+json"
FILE = "provenance.intoto.jsonl"


def statement(sums, version, target, sources):
    """sums: {file: SHA-256}; sources: {what: SHA-256} of what was built."""
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": name, "digest": {"sha256": digest}} for name, digest in sorted(sums.items())],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": "https://wicketgate.dev/release/1",
                "externalParameters": {"version": version, "target": target},
                "resolvedDependencies": [{"uri": uri, "digest": digest} for uri, digest in sorted(sources.items())],
            },
            "runDetails": {"builder": {"id": "https://wicketgate.dev/release/1#deploy/release.py"}},
        },
    }


def encoded(payload):
    """What is signed: the pre-authentication encoding of DSSE 1.0."""
    return b"DSSEv1 %d %s %d %s" % (len(TYPE), TYPE.encode(), len(payload), payload)


def openssl(*args, message):
    with tempfile.NamedTemporaryFile() as file:
        file.write(message)
        file.flush()
        return subprocess.run(["openssl", "pkeyutl", "-rawin", "-in", file.name, *args], check=False, capture_output=True)


def key_id(public):
    """SHA-256 of the key's DER bytes."""
    body = "".join(line for line in public.splitlines() if "-----" not in line)
    return hashlib.sha256(base64.b64decode(body)).hexdigest()


def signed(made, key):
    """The envelope, signed with this secret key (PKCS#8 PEM)."""
    payload = json.dumps(made, sort_keys=True, separators=(",", ":")).encode()
    done = openssl("-sign", "-inkey", key, message=encoded(payload))
    if done.returncode != 0:
        raise SystemExit(f"deploy/release.py: openssl does not sign with {key}: {done.stderr.decode().strip()}")
    public = subprocess.run(["openssl", "pkey", "-in", key, "-pubout"], check=True, capture_output=True, text=True).stdout
    envelope = {"payloadType": TYPE, "payload": base64.b64encode(payload).decode(),
                "signatures": [{"keyid": key_id(public), "sig": base64.b64encode(done.stdout).decode()}]}
    return (json.dumps(envelope, sort_keys=True) + "\n").encode()


def verify(folder, public):
    """What is wrong with a release that this public key (PEM) should have signed: a list of sentences."""
    try:
        envelope = json.loads((folder / FILE).read_text())
        payload = base64.b64decode(envelope["payload"])
        signatures = [base64.b64decode(one["sig"]) for one in envelope["signatures"]]
    except (OSError, ValueError, KeyError) as why:
        return [f"{FILE} cannot be read: {why}"]
    if envelope.get("payloadType") != TYPE or not any(holds(payload, one, public) for one in signatures):
        return [f"{FILE} is not signed by {public}"]
    named = {one["name"]: one["digest"]["sha256"] for one in json.loads(payload)["subject"]}
    wrong = []
    for path in sorted(pathlib.Path(folder).iterdir()):
        if path.name != FILE and path.name not in named:
            wrong.append(f"{path.name} is not named in {FILE}")
    for name, digest in sorted(named.items()):
        path = folder / name
        if not path.is_file():
            wrong.append(f"{name} is missing")
        elif hashlib.sha256(path.read_bytes()).hexdigest() != digest:
            wrong.append(f"{name} has other bytes than {FILE} names")
    return wrong


def holds(payload, signature, public):
    with tempfile.NamedTemporaryFile() as file:
        file.write(signature)
        file.flush()
        done = openssl("-verify", "-pubin", "-inkey", public, "-sigfile", file.name, message=encoded(payload))
    return done.returncode == 0
