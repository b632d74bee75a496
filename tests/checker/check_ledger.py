#!/usr/bin/env python3
"""An independent reader of a Wicketgate ledger: it shares no code with the product.

Reads a SQLite file, a PostgreSQL database (through `psql`) or entry bodies, one a line (`--jsonl`), and checks what the
format promises: canonical bytes, leaf hashes, links, gapless numbers, epochs, time, run sub-chains, the automaton of each
call, payload commitments, head, checkpoints (root and signature). Standard library only; signatures are checked if the
`cryptography` module is there, and said to be unchecked if not.

Prints one JSON summary. Exit status: 0 all holds, 1 something does not, 2 the ledger could not be read.
"""

import argparse
import base64
import hashlib
import hmac
import json
import re
import sqlite3
import struct
import subprocess
import sys
from dataclasses import dataclass, field

try:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
except ImportError:
    Ed25519PublicKey = None

BYTES_MAX = 65_535
INT_MAX = 2**53 - 1
DEPTH_MAX = 6
ARRAY_MAX = 256
REQUIRED = {"v", "chain", "epoch", "seq", "prev", "ts", "boot", "mono", "kind", "data"}
OPTIONAL = {"run", "run_seq", "run_prev", "call", "tool", "verdict", "rule", "policy", "commit"}
ROLES = {"args", "result", "policy_input", "approval", "message", "conversation", "offer", "instructions", "raw", "pre_image", "tools", "stream", "principal"}
KINDS_OF_NO_CALL = {
    "chain.genesis", "writer.started", "writer.stopped", "heartbeat", "clock.step", "key.rotated", "key.revoked",
    "config.changed", "policy.activated", "posture.observed", "manifest.bound", "manifest.refused", "signers.bound",
    "request.rejected", "alert.raised",
    "run.opened", "run.sealed", "taint.cleared", "violation", "payload.erased", "payload.viewed", "retention.pruned", "anchor.observed",
    "enforcement.tested", "writer.enrolled", "evidence.exported", "health.changed", "ledger.gap", "ledger.recovered", "chain.retired",
}
# State of a call, then the kind of its next entry, then the state after it.
AUTOMATON = {
    "new": {"call.denied": "denied", "call.authorized": "authorized", "call.held": "held"},
    "held": {
        "approval.granted": "approved", "approval.refused": "refused",
        "call.denied": "denied", "call.expired": "expired", "call.cancelled": "cancelled",
    },
    "approved": {
        "approval.granted": "approved", "approval.refused": "refused", "call.authorized": "authorized",
        "call.denied": "denied", "call.expired": "expired", "call.cancelled": "cancelled",
    },
    "refused": {"call.denied": "denied"},
    "authorized": {
        "call.progress": "authorized", "call.completed": "completed", "call.failed": "failed",
        "call.cancelled": "cancelled", "call.unknown": "unknown",
    },
}
CALL_KINDS = {kind for nexts in AUTOMATON.values() for kind in nexts}
TERMINAL = {"denied", "completed", "failed", "cancelled", "expired", "unknown"}
# What a break-glass order, named by the entry, lets run without an approval.
UNDER_GLASS = {("held", "call.authorized"): "authorized"}
VERDICTS = {"call.authorized": "allow", "call.denied": "deny", "call.held": "require_approval"}


@dataclass
class Row:
    """One entry as stored; what a source does not have is None."""

    body: bytes
    seq: int | None = None
    leaf: bytes | None = None
    prev: bytes | None = None
    kind: str | None = None
    run: str | None = None
    call: str | None = None


@dataclass
class Chain:
    """One chain as stored."""

    rows: list
    id: str | None = None
    head: dict | None = None
    checkpoints: list = field(default_factory=list)  # (size, epoch or None, note)
    payloads: list = field(default_factory=list)  # (commitment, salt, body)


# --- hashes ---


def leaf_hash(body):
    return hashlib.sha256(b"\x00" + body).digest()


def node_hash(left, right):
    return hashlib.sha256(b"\x01" + left + right).digest()


class Tree:
    """RFC 6962 over leaf hashes, by the definition: roots of perfect subtrees, largest first."""

    def __init__(self):
        self.size = 0
        self.peaks = []  # (height, hash)

    def push(self, leaf):
        self.peaks.append((0, leaf))
        while len(self.peaks) > 1 and self.peaks[-1][0] == self.peaks[-2][0]:
            height, right = self.peaks.pop()
            _, left = self.peaks.pop()
            self.peaks.append((height + 1, node_hash(left, right)))
        self.size += 1

    def root(self):
        if not self.peaks:
            return hashlib.sha256(b"").digest()
        node = self.peaks[-1][1]
        for _, left in reversed(self.peaks[:-1]):
            node = node_hash(left, node)
        return node


def commitment(salt, body):
    """commit/1: the payload as one piece."""
    return hashlib.sha256(b"wicketgate/commit/1\0" + salt + struct.pack(">Q", len(body)) + body).digest()


def member_commitment(salt, body):
    """commit/2: an object by its members, each salted on its own; None if the payload is no such object."""
    try:
        value = json.loads(body, object_pairs_hook=no_duplicates)
    except (ValueError, Bad):
        return None
    if not isinstance(value, dict) or not 1 <= len(value) <= 256:
        return None
    derived = lambda purpose: hmac.new(salt, purpose, hashlib.sha256).digest()
    plain = lambda raw: base64.urlsafe_b64encode(raw).rstrip(b"=")
    digests = []
    for name, member in value.items():
        own = plain(derived(b"member:" + name.encode())).decode()
        digests.append(hashlib.sha256(plain(jcs([own, name, member]))).digest())
    members = hashlib.sha256(b"wicketgate/members/2\0" + b"".join(sorted(digests))).digest()
    whole = b"wicketgate/whole/2\0" + derived(b"whole") + struct.pack(">Q", len(body)) + body
    return hashlib.sha256(b"wicketgate/commit/2\0" + hashlib.sha256(whole).digest() + members).digest()


def jcs(value):
    """RFC 8785 of any value: members by UTF-16 code units, numbers as ECMAScript writes them."""
    if isinstance(value, dict):
        names = sorted(value, key=lambda name: name.encode("utf-16-be"))
        return b"{" + b",".join(jcs(name) + b":" + jcs(value[name]) for name in names) + b"}"
    if isinstance(value, list):
        return b"[" + b",".join(map(jcs, value)) + b"]"
    if isinstance(value, float):
        return number(value).encode()
    return json.dumps(value, ensure_ascii=False).encode("utf-8")


def number(value):
    """ECMAScript Number::toString."""
    mantissa, exponent = repr(value).split("e") if "e" in repr(value) else (repr(value), "0")
    sign = "-" if mantissa.startswith("-") else ""
    whole, _, fraction = mantissa.lstrip("-").partition(".")
    digits = (whole + fraction).lstrip("0")
    point = len(whole) + int(exponent) - (len(whole + fraction) - len((whole + fraction).lstrip("0")))
    digits = digits.rstrip("0")
    if not digits:
        return "0"
    if len(digits) <= point <= 21:
        return sign + digits + "0" * (point - len(digits))
    if 0 < point <= 21:
        return sign + digits[:point] + "." + digits[point:]
    if -6 < point <= 0:
        return sign + "0." + "0" * -point + digits
    rest = "." + digits[1:] if len(digits) > 1 else ""
    return f"{sign}{digits[0]}{rest}e{point - 1:+d}"


# --- JSON ---


class Bad(Exception):
    """What does not hold: a stable code and a sentence."""

    def __init__(self, code, why):
        super().__init__(f"{code}: {why}")
        self.code = code


def no_duplicates(pairs):
    seen = {}
    for name, value in pairs:
        if name in seen:
            raise Bad("json", f"member {name!r} stands twice")
        seen[name] = value
    return seen


def no_float(text):
    raise Bad("json", f"{text} is no integer")


def read_json(body):
    try:
        return json.loads(
            body.decode("utf-8"), object_pairs_hook=no_duplicates, parse_float=no_float, parse_constant=no_float
        )
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise Bad("json", str(error)) from error


def profile(value, depth=1):
    """The profile of entries: integers in range, no null, plain names, bounded."""
    if depth > DEPTH_MAX:
        raise Bad("profile", f"deeper than {DEPTH_MAX}")
    if value is None:
        raise Bad("profile", "null")
    if isinstance(value, bool) or isinstance(value, str):
        return
    if isinstance(value, int):
        if abs(value) > INT_MAX:
            raise Bad("profile", f"{value} is out of range")
    elif isinstance(value, list):
        if len(value) > ARRAY_MAX:
            raise Bad("profile", f"an array of {len(value)}")
        for item in value:
            profile(item, depth + 1 if isinstance(item, (list, dict)) else depth)
    else:
        for name, item in value.items():
            if not re.fullmatch(r"[a-z0-9_]+", name):
                raise Bad("profile", f"a member named {name!r}")
            profile(item, depth + 1 if isinstance(item, (list, dict)) else depth)


def canonical(value):
    """RFC 8785 for this profile: names are ASCII and numbers are integers, so sorting and digits are plain."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode("utf-8")


def is_hex(text, digits):
    return isinstance(text, str) and re.fullmatch(r"[0-9a-f]{%d}" % digits, text) is not None


def parse_entry(body):
    if len(body) > BYTES_MAX:
        raise Bad("size", f"{len(body)} bytes")
    entry = read_json(body)
    if not isinstance(entry, dict):
        raise Bad("json", "not an object")
    profile(entry)
    if canonical(entry) != body:
        raise Bad("canonical", "the stored bytes are not the canonical form")
    missing, unknown = REQUIRED - entry.keys(), entry.keys() - REQUIRED - OPTIONAL
    if missing or unknown:
        raise Bad("members", f"missing {sorted(missing)}, unknown {sorted(unknown)}")
    whole = lambda value: isinstance(value, int) and not isinstance(value, bool)
    ts = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"
    uuid = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
    text = lambda name, pattern: isinstance(entry[name], str) and re.fullmatch(pattern, entry[name])
    forms = {
        "v": entry["v"] == "wicketgate/entry/1",
        "chain": is_hex(entry["chain"], 32),
        "epoch": whole(entry["epoch"]) and entry["epoch"] >= 1,
        "seq": whole(entry["seq"]) and entry["seq"] >= 0,
        "prev": is_hex(entry["prev"], 64),
        "ts": text("ts", ts),
        "boot": is_hex(entry["boot"], 8),
        "mono": text("mono", r"0|[1-9][0-9]*"),
        "kind": isinstance(entry["kind"], str),
        "data": isinstance(entry["data"], dict),
        "run": "run" not in entry or text("run", uuid),
        "run_seq": ("run_seq" in entry) == ("run" in entry) and whole(entry.get("run_seq", 0)),
        "run_prev": "run_prev" not in entry or ("run" in entry and is_hex(entry["run_prev"], 64)),
        "call": "call" not in entry or (isinstance(entry["call"], str) and "run" in entry),
        "policy": "policy" not in entry or text("policy", r"sha256:[0-9a-f]{64}"),
        "commit": isinstance(entry.get("commit", []), list),
    }
    for name, holds in forms.items():
        if not holds:
            raise Bad("members", f"`{name}` is malformed")
    for item in entry.get("commit", []):
        good = isinstance(item, dict) and item.keys() == {"c", "len", "role"}
        if not (good and is_hex(item["c"], 64) and whole(item["len"]) and item["role"] in ROLES):
            raise Bad("members", "`commit` is malformed")
    return entry


# --- notes ---


def parse_note(note):
    """Origin, size, root and signatures of a C2SP checkpoint."""
    body, found, block = note.partition("\n\n")
    lines = body.split("\n")
    if not found or len(lines) != 3 or not block.endswith("\n"):
        raise Bad("checkpoint", "not a checkpoint note of three lines")
    origin, size, root = lines
    if not origin or not re.fullmatch(r"0|[1-9][0-9]*", size):
        raise Bad("checkpoint", "origin or size is malformed")
    try:
        root = base64.b64decode(root, validate=True)
    except ValueError as error:
        raise Bad("checkpoint", "the root is not base64") from error
    signatures = []
    for line in block[:-1].split("\n"):
        match = re.fullmatch(r"\u2014 (\S+) ([A-Za-z0-9+/]+=*)", line)
        if not match:
            raise Bad("checkpoint", "a signature line is malformed")
        blob = base64.b64decode(match[2])
        signatures.append((match[1], blob[:4], blob[4:]))
    return origin, int(size), root, signatures, (body + "\n").encode("utf-8")


def key_hash(name, key):
    return hashlib.sha256(name.encode("utf-8") + b"\n\x01" + key).digest()[:4]


def read_key(text):
    """An Ed25519 key in any form a writer may name it: hex, base64, `ed25519:…`, a verifier key; None if in none."""
    if not isinstance(text, str):
        return None
    if re.fullmatch(r"[0-9a-f]{64}", text):
        return bytes.fromhex(text)
    try:
        # A verifier key is `name+hash+base64`, and base64 has plus signs of its own: cut from the left.
        parts = text.split("+", 2)
        last = parts[2] if len(parts) == 3 and is_hex(parts[1], 8) else text.split(":")[-1]
        if is_hex(last, 64):
            return bytes.fromhex(last)
        raw = base64.b64decode(last + "=" * (-len(last) % 4), validate=True)
    except ValueError:
        return None
    if len(raw) == 33 and raw[0] == 1:
        return raw[1:]
    return raw if len(raw) == 32 else None


def signature_holds(key, signature, message):
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, message)
        return True
    except (InvalidSignature, ValueError):
        return False


# --- the checks ---


class Checker:
    """Walks chains and collects what does not hold."""

    def __init__(self, allow_open=False, require_sealed=False):
        self.allow_open = allow_open
        self.require_sealed = require_sealed
        self.problems = []
        self.unverifiable = set()
        self.not_checked = set()
        self.counts = {}
        self.calls = {}  # (run, call) -> {"state", "tool"}
        self.runs = {}  # run -> {"next", "leaf", "sealed", "chain"}
        self.cause = {"seq": -1, "chain": "", "kind": ""}  # the newest entry that is no alert
        self.leaves = set()  # (chain, seq, leaf hex)
        counted = ("chains", "entries", "checkpoints", "signatures", "payloads", "payloads_orphaned", "unenforced")
        self.stats = dict.fromkeys(counted, 0)

    def bad(self, where, code, why):
        self.problems.append({"where": where, "code": code, "why": why})

    def count(self, kind):
        self.counts[kind] = self.counts.get(kind, 0) + 1

    def check(self, chains):
        for chain in chains:
            self.chain(chain)
        self.ends()

    def chain(self, chain):
        self.stats["chains"] += 1
        tree, roots, keys, epoch_at = Tree(), {0: Tree().root()}, {}, {}
        wanted = {size for size, _, _ in chain.checkpoints}
        committed, before, peaks = set(), None, b""
        for index, row in enumerate(chain.rows):
            where = f"{(chain.id or 'chain')[:8]}/{index}"
            leaf = leaf_hash(row.body)
            try:
                entry = parse_entry(row.body)
            except Bad as bad:
                self.bad(where, bad.code, str(bad))
                tree.push(leaf)
                before = None
                continue
            chain.id = chain.id or entry["chain"]
            self.stats["entries"] += 1
            self.count(entry["kind"])
            self.place(where, chain, index, entry, row, leaf, before)
            self.run_of(where, chain, entry, leaf)
            self.call_of(where, entry)
            self.alert_of(where, entry)
            if entry["kind"] == "writer.started":
                keys[entry["epoch"]] = read_key(entry["data"].get("writer_key"))
            committed |= {item["c"] for item in entry.get("commit", [])}
            self.leaves.add((entry["chain"], entry["seq"], leaf.hex()))
            tree.push(leaf)
            epoch_at[tree.size] = entry["epoch"]
            if tree.size in wanted:
                roots[tree.size] = tree.root()
            before = (entry, leaf)
        roots[tree.size] = tree.root()
        peaks = b"".join(node for _, node in tree.peaks)
        self.head(chain, tree, peaks)
        self.checkpoints(chain, roots, keys, epoch_at)
        self.payloads(chain, committed)

    def place(self, where, chain, index, entry, row, leaf, before):
        """Chain, number, links, epoch, time and the columns beside the body."""
        if entry["chain"] != chain.id:
            self.bad(where, "chain", "the entry names another chain")
        if entry["seq"] != index or row.seq not in (None, entry["seq"]):
            self.bad(where, "seq", f"seq is {entry['seq']}, stored as {row.seq}, place {index}")
        if row.leaf not in (None, leaf):
            self.bad(where, "leaf", "the stored leaf hash is not the hash of the stored bytes")
        if row.prev is not None and row.prev.hex() != entry["prev"]:
            self.bad(where, "shadow", "the prev column is not the entry's")
        if row.seq is not None:
            for name, column in (("kind", row.kind), ("run", row.run), ("call", row.call)):
                if column != entry.get(name):
                    self.bad(where, "shadow", f"the {name} column says {column!r}, the entry {entry.get(name)!r}")
        if index == 0:
            if entry["kind"] != "chain.genesis":
                self.bad(where, "genesis", "the first entry is no chain.genesis")
            if entry["prev"] != hashlib.sha256(bytes.fromhex(entry["chain"])).hexdigest():
                self.bad(where, "prev", "genesis does not link to the chain id")
            return
        if entry["kind"] == "chain.genesis":
            self.bad(where, "genesis", "a second chain.genesis")
        if before is None:
            return  # the entry before was unreadable and is a problem already
        last, last_leaf = before
        if entry["prev"] != last_leaf.hex():
            self.bad(where, "prev", "prev is not the leaf hash of the entry before")
        if entry["epoch"] < last["epoch"]:
            self.bad(where, "epoch", f"epoch {entry['epoch']} after {last['epoch']}")
        if entry["epoch"] > last["epoch"] and entry["kind"] != "writer.started":
            self.bad(where, "epoch", f"a new epoch begins with {entry['kind']}")
        if entry["ts"] < last["ts"]:
            self.bad(where, "ts", f"{entry['ts']} after {last['ts']}")
        if entry["boot"] == last["boot"] and int(entry["mono"]) < int(last["mono"]):
            self.bad(where, "mono", "monotonic time goes back inside one boot")

    def run_of(self, where, chain, entry, leaf):
        kind = entry["kind"]
        if "run" not in entry:
            if kind.startswith("run.") or kind in CALL_KINDS:
                self.bad(where, "run", f"{kind} without a run")
            return
        run = self.runs.get(entry["run"])
        if kind == "run.opened":
            if run is not None:
                self.bad(where, "run", "a run is opened twice")
            if entry["run_seq"] != 0 or "run_prev" in entry:
                self.bad(where, "run", "run.opened is not the start of its run")
            simulated = entry["data"].get("mode") == "simulate"
            origin = entry["data"].get("replay", {})
            named = {"replay": {"recording"}, "fork": {"recording", "run", "at"}}.get(origin.get("mode"), set())
            if origin.keys() & {"recording", "run", "at"} != named or origin.get("run") == entry["run"]:
                self.bad(where, "run", "run.opened does not say what the run comes from")
            self.runs[entry["run"]] = {
                "next": 1, "leaf": leaf, "sealed": False, "chain": chain.id, "simulated": simulated,
            }
            return
        if run is None:
            self.bad(where, "run", "an entry of a run that was not opened")
            self.runs[entry["run"]] = {"next": entry["run_seq"] + 1, "leaf": leaf, "sealed": False, "chain": chain.id}
            return
        if run["sealed"]:
            self.bad(where, "run", "an entry after run.sealed")
        if run["chain"] != chain.id:
            self.bad(where, "run", "a run in two chains")
        if entry["run_seq"] != run["next"]:
            self.bad(where, "run", f"run_seq {entry['run_seq']} where {run['next']} belongs")
        if entry.get("run_prev") != run["leaf"].hex():
            self.bad(where, "run", "run_prev is not the leaf hash of the run's entry before")
        if kind == "run.sealed":
            run["sealed"] = True
            if entry["data"].get("entries") != entry["run_seq"] + 1:
                self.bad(where, "run", f"run.sealed counts {entry['data'].get('entries')} entries of {entry['run_seq'] + 1}")
        run["next"], run["leaf"] = entry["run_seq"] + 1, leaf

    def alert_of(self, where, entry):
        """An alert stands right behind the entry that caused it; only alerts of the same cause stand between."""
        data = entry["data"]
        if entry["kind"] != "alert.raised":
            self.cause = entry
            return
        if "run" in entry or "call" in entry:
            self.bad(where, "alert", "an alert is no entry of a run")
        if not data["first"] <= data["last"] < entry["seq"]:
            self.bad(where, "alert", f"it counts the entries {data['first']} to {data['last']}")
        if "run" not in data:
            return
        cause = self.cause
        same = (cause["seq"], cause.get("run"), cause.get("call")) == (data["last"], data["run"], data.get("call"))
        if not same or cause["chain"] != entry["chain"] or cause["kind"] not in CALL_KINDS:
            self.bad(where, "alert", f"alert {data['alert']} does not follow on its cause, entry {data['last']}")
        if data["alert"] in ("burst_denial", "repeated_denial") and cause["kind"] != "call.denied":
            self.bad(where, "alert", f"alert {data['alert']} follows on {cause['kind']}")

    def call_of(self, where, entry):
        kind = entry["kind"]
        if kind not in CALL_KINDS:
            if kind not in KINDS_OF_NO_CALL:
                self.unverifiable.add(kind)
            return
        if "call" not in entry or "run" not in entry:
            self.bad(where, "call", f"{kind} without a call")
            return
        call = self.calls.setdefault((entry["run"], entry["call"]), {"state": "new", "tool": entry.get("tool")})
        following = AUTOMATON.get(call["state"], {}).get(kind)
        if following is None and "break_glass" in entry["data"]:
            following = UNDER_GLASS.get((call["state"], kind))
        if following is None:
            self.bad(where, "call", f"{kind} of call {entry['call']!r} which is {call['state']}")
            return
        self.proposer_of(where, entry, call)
        self.stream_of(where, entry, call)
        self.model_of(where, entry, call)
        call["state"] = following
        call["ran"] = call.get("ran") or following == "authorized"
        if entry.get("tool", call["tool"]) != call["tool"]:
            self.bad(where, "call", f"call {entry['call']!r} changes its tool")
        self.call_digest(where, entry)
        if kind in VERDICTS:
            self.verdict_of(where, entry)
        simulated = self.runs.get(entry["run"], {}).get("simulated")
        if simulated and (kind in ("call.completed", "call.progress") or entry["data"].get("started") is True):
            self.bad(where, "call", f"{kind} in a run that is only simulated")

    def proposer_of(self, where, entry, call):
        """Who wrote a call's arguments is never the one who lets it run: somebody else approves it."""
        kind, data = entry["kind"], entry["data"]
        if kind == "call.held":
            call["proposer"] = str(data.get("asked_by", {}).get("subject", "")).lower()
        proposer = call.get("proposer", "")
        if kind == "approval.granted" and proposer and str(data.get("subject", "")).lower() == proposer:
            self.bad(where, "call", f"{data.get('subject')!r} approves arguments of its own")
        if kind == "approval.granted":
            given, by = call.setdefault("given", {}), str(data.get("subject", "")).lower()
            passkey = data.get("key_kind") == "passkey"
            # A person is one approval: only another key of theirs takes the place of a passkey.
            if by in given and (passkey or not given[by]):
                self.bad(where, "call", f"{data.get('subject')!r} approves a second time")
            given[by] = passkey
        if kind == "call.authorized" and (proposer or "asked_by" in data) and call["state"] != "approved":
            self.bad(where, "call", "an approver wrote its arguments, and no other approver approved it")

    def stream_of(self, where, entry, call):
        """What left of an answer grows from progress to progress, and its end says no less."""
        kind, data, last = entry["kind"], entry["data"], call.get("left")
        left = lambda of: (of.get("bytes", 0), of.get("pieces", 0), of.get("sha256"))
        if kind == "call.progress":
            bytes_before, pieces_before, _ = last or (0, 0, None)
            if data.get("bytes", 0) <= bytes_before or data.get("pieces", 0) <= pieces_before:
                self.bad(where, "stream", f"progress of call {entry['call']!r} does not grow")
            call["left"] = left(data)
            return
        if "covered_bytes" in data and (last is None or data["covered_bytes"] != last[0]):
            self.bad(where, "stream", f"{data['covered_bytes']} bytes are not what the last progress covers")
        kept = [commitment["len"] for commitment in entry.get("commit", []) if commitment["role"] == "stream"]
        if kept and sum(kept) != data.get("observed", {}).get("stream", {}).get("bytes"):
            self.bad(where, "stream", f"{kind} commits to other events than left")
        if last is None or AUTOMATON["authorized"].get(kind) not in TERMINAL:
            return
        stream = data.get("observed", {}).get("stream")
        if stream is None:
            if kind != "call.unknown":
                self.bad(where, "stream", f"{kind} after progress, and nothing about the answer")
            return
        stream = left(stream)
        more = stream[0] > last[0] and stream[1] > last[1]
        same = stream[0] == last[0] and stream[1] >= last[1] and stream[2] == last[2]
        if not more and not same:
            self.bad(where, "stream", f"{kind} says of the answer what its progress contradicts")

    def model_of(self, where, entry, call):
        """A call that a model asked for names an earlier call of its run that was allowed; the gate saw its answer."""
        of = entry["data"].get("gate_of")  # the gate made it, and checks or takes back that call
        if of is not None and (of == entry["call"] or not self.calls.get((entry["run"], of), {}).get("ran")):
            self.bad(where, "gate", f"{of!r} is no earlier call of the run that was allowed")
        by = entry["data"].get("proposed_by")
        if entry["kind"] == "call.held":
            call["by"] = by
        if entry["kind"] == "call.authorized" and call["state"] != "new" and by != call.get("by"):
            self.bad(where, "proposed", f"proposed by {by!r}, and the held call by {call.get('by')!r}")
        if by is None:
            return
        if entry["data"].get("binding") != "observed":
            self.bad(where, "proposed", f"proposed by {by!r}, and the binding is {entry['data'].get('binding')!r}")
        if by == entry["call"] or not self.calls.get((entry["run"], by), {}).get("ran"):
            self.bad(where, "proposed", f"{by!r} is no earlier call of the run that was allowed")

    def verdict_of(self, where, entry):
        """What is enforced is as its kind says; what is not (observe mode) ran against the policy's word."""
        kind, verdict, data = entry["kind"], entry.get("verdict"), entry["data"]
        if data.get("enforced") is not False:
            if verdict != VERDICTS[kind]:
                self.bad(where, "call", f"{kind} with verdict {verdict!r}")
            return
        self.stats["unenforced"] += 1
        if kind != "call.authorized" or verdict not in ("deny", "require_approval"):
            self.bad(where, "call", f"{kind} with verdict {verdict!r}, not enforced")
        if data.get("tier") not in ("T0", "T1", "T2"):
            self.bad(where, "call", f"a tool of tier {data.get('tier')!r}, not enforced")
        for reason in data.get("reasons") or [{}]:
            rule, silent = reason.get("rule", ""), reason.get("detail") == "no_allow"
            observable = re.match(r"wicketgate\.(agent|team)\.(deny|require_approval)( |$)", rule)
            if not observable and not (silent and rule == "wicketgate.decision"):
                self.bad(where, "call", f"not enforced, and {rule!r} cannot observe")

    def call_digest(self, where, entry):
        """The call's name for approvals is made of the commitment to its arguments, never of the arguments."""
        stated = entry["data"].get("call_digest")
        args = [item["c"] for item in entry.get("commit", []) if item["role"] == "args"]
        if stated is None or not args:
            return
        named = {"run": entry["run"], "call": entry["call"], "tool": entry.get("tool"), "args_commitment": args[0]}
        digest = hashlib.sha256(b"wicketgate/call/1\0" + canonical(named)).hexdigest()
        if str(stated).removeprefix("sha256:") != digest:
            self.bad(where, "digest", "the call digest is not that of run, call, tool and commitment")

    def ends(self):
        for (run, call), seen in self.calls.items():
            if seen["state"] in TERMINAL:
                continue
            sealed = self.runs.get(run, {}).get("sealed")
            if sealed:
                self.bad(run, "open", f"call {call!r} is {seen['state']} in a sealed run")
            elif seen["state"] not in ("held", "approved", "refused") and not self.allow_open:
                self.bad(run, "open", f"call {call!r} is {seen['state']} and never ended")
        if self.require_sealed:
            for run, seen in self.runs.items():
                if not seen["sealed"]:
                    self.bad(run, "open", "the run is not sealed")

    def head(self, chain, tree, peaks):
        if chain.head is None:
            return
        where = f"{(chain.id or 'chain')[:8]}/head"
        last = leaf_hash(chain.rows[-1].body) if chain.rows else hashlib.sha256(bytes.fromhex(chain.id)).digest()
        if chain.head["size"] != len(chain.rows):
            self.bad(where, "head", f"the head counts {chain.head['size']} entries, there are {len(chain.rows)}")
        if chain.head["hash"] != last:
            self.bad(where, "head", "the head hash is not the last leaf hash")
        if chain.head.get("frontier") not in (None, peaks):
            self.bad(where, "head", "the frontier is not that of the entries")
        note = chain.head.get("checkpoint")
        if not chain.rows and not note:
            return
        try:
            _, size, root, _, _ = parse_note(note or "")
        except Bad as bad:
            self.bad(where, bad.code, str(bad))
            return
        if size != len(chain.rows) or root != tree.root():
            self.bad(where, "checkpoint", "the head's checkpoint is not of the entries")

    def checkpoints(self, chain, roots, keys, epoch_at):
        origins = set()
        for size, epoch, note in chain.checkpoints:
            where = f"{(chain.id or 'chain')[:8]}/checkpoint {size}"
            self.stats["checkpoints"] += 1
            try:
                origin, stated, root, signatures, body = parse_note(note)
            except Bad as bad:
                self.bad(where, bad.code, str(bad))
                continue
            origins.add(origin)
            if stated != size:
                self.bad(where, "checkpoint", f"the note is of size {stated}")
            elif size not in roots:
                self.bad(where, "checkpoint", "there are fewer entries than the note was signed for")
            elif roots[size] != root:
                self.bad(where, "checkpoint", "the root is not that of the entries")
            if epoch is not None and size in epoch_at and epoch != epoch_at[size]:
                self.bad(where, "checkpoint", f"epoch {epoch}, the last entry's is {epoch_at[size]}")
            self.signature(where, keys.get(epoch_at.get(size)), origin, signatures, body)
        if len(origins) > 1:
            self.bad(chain.id, "checkpoint", f"checkpoints of several origins {sorted(origins)}")

    def signature(self, where, key, origin, signatures, body):
        if key is None:
            self.not_checked.add("signatures of an epoch whose writer.started names no key this checker can read")
            return
        ours = [s for name, hashed, s in signatures if name == origin and hashed == key_hash(origin, key)]
        if len(ours) != 1:
            self.bad(where, "signature", f"{len(ours)} signatures by the key of the epoch")
        elif Ed25519PublicKey is None:
            self.not_checked.add("signatures: the `cryptography` module is not installed")
        elif signature_holds(key, ours[0], body):
            self.stats["signatures"] += 1
        else:
            self.bad(where, "signature", "the signature does not hold")

    def payloads(self, chain, committed):
        for c, salt, body in chain.payloads:
            self.stats["payloads"] += 1
            if c not in (commitment(salt, body), member_commitment(salt, body)):
                self.bad(c.hex()[:16], "payload", "salt and bytes do not open the commitment")
            if c.hex() not in committed:
                # A payload may be stored before its entry; a crash between the two leaves it behind.
                self.stats["payloads_orphaned"] += 1

    def counter(self, n, tool=None):
        """What a tool counted itself: everything completed ran, nothing ran that was not permitted."""
        states = [
            c["state"] for (run, _), c in self.calls.items()
            if tool in (None, c["tool"]) and not self.runs.get(run, {}).get("simulated")
        ]
        low = states.count("completed")
        high = low + sum(states.count(s) for s in ("failed", "unknown", "cancelled", "authorized"))
        if not low <= n <= high:
            self.bad(tool or "tools", "counter", f"the tool counted {n}: not within {low} (completed) and {high}")

    def acknowledged(self, receipts):
        """Receipts that were given out: {"chain", "seq", "leaf"} each."""
        for receipt in receipts:
            if (receipt["chain"], int(receipt["seq"]), receipt["leaf"]) not in self.leaves:
                self.bad(f"{receipt['chain'][:8]}/{receipt['seq']}", "acknowledged", "an acknowledged entry is not there")

    def summary(self):
        states = [c["state"] for c in self.calls.values()]
        return {
            "ok": not self.problems,
            **self.stats,
            "runs": len(self.runs),
            "runs_open": sum(not r["sealed"] for r in self.runs.values()),
            "calls": {state: states.count(state) for state in sorted(set(states))},
            "kinds": dict(sorted(self.counts.items())),
            "unverifiable": sorted(self.unverifiable),
            "not_checked": sorted(self.not_checked),
            "problems": self.problems,
        }


# --- sources ---


def as_bytes(value):
    """Bytes, from bytes or from hex as SQL tools print it."""
    return bytes.fromhex(value.removeprefix("\\x")) if isinstance(value, str) else bytes(value or b"")


def column(row, *names):
    """The first of these columns that the table has."""
    for name in names:
        if name in row:
            return row[name]
    raise KeyError(names[0])


def as_uuid(value):
    if value in (None, ""):
        return None
    digits = value.hex() if isinstance(value, bytes) else value.replace("-", "")
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def assemble(entries, heads, checkpoints, payloads):
    chains = {}
    for head in heads:
        chain = as_bytes(head["chain_id"]).hex()
        note = head.get("checkpoint")
        chains[chain] = Chain([], chain, {
            "size": int(head["size"]),
            "hash": as_bytes(column(head, "hash", "head_hash")),
            "frontier": as_bytes(head["frontier"]) if head.get("frontier") is not None else None,
            "checkpoint": note.decode("utf-8") if isinstance(note, bytes) else note,
        })
    for row in entries:
        chain = as_bytes(row["chain_id"]).hex()
        chains.setdefault(chain, Chain([], chain)).rows.append(Row(
            as_bytes(row["body"]), int(row["seq"]), as_bytes(column(row, "leaf", "leaf_hash")),
            as_bytes(column(row, "prev", "prev_hash")), row["kind"], as_uuid(row["run_id"]), row["call_id"] or None,
        ))
    for row in checkpoints:
        note = row["note"].decode("utf-8") if isinstance(row["note"], bytes) else row["note"]
        chain = as_bytes(row["chain_id"]).hex()
        epoch = int(row["epoch"]) if row.get("epoch") is not None else None
        chains.setdefault(chain, Chain([], chain)).checkpoints.append((int(row["size"]), epoch, note))
    for row in payloads:
        chain = as_bytes(row["chain_id"]).hex()
        chains.setdefault(chain, Chain([], chain)).payloads.append(
            (as_bytes(row["commitment"]), as_bytes(row["salt"]), as_bytes(row["body"]))
        )
    return [chains[chain] for chain in sorted(chains)]


def from_sqlite(path):
    # Not immutable: a WAL that was not checkpointed belongs to the ledger too.
    base = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    base.isolation_level = None
    base.row_factory = sqlite3.Row
    base.execute("BEGIN")

    def read(query):
        rows = [dict(row) for row in base.execute(query)]
        for row in rows:
            if isinstance(row.get("body"), str):
                row["body"] = row["body"].encode("utf-8")  # the bytes are what counts, whatever column type they have
        return rows

    try:
        return assemble(
            read("SELECT * FROM entry ORDER BY chain_id, seq"),
            read("SELECT * FROM head"),
            read("SELECT * FROM checkpoint ORDER BY chain_id, size"),
            read("SELECT * FROM payload"),
        )
    finally:
        base.close()


def from_postgres(dsn, psql):
    tables = ("entry ORDER BY chain_id, seq", "head", "checkpoint ORDER BY chain_id, size", "payload")
    # One snapshot for all four; one JSON document a line, so that there is no separator to guess inside values.
    command = [psql, "-X", "-q", "-At", "-v", "ON_ERROR_STOP=1", "-d", dsn]
    command += ["-c", "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", "-c", "SET LOCAL bytea_output = hex"]
    for number, table in enumerate(tables):
        query = f"SELECT json_build_array({number}, row_to_json(t)) FROM (SELECT * FROM ledger.{table}) t"
        command += ["-c", query]
    done = subprocess.run(
        command + ["-c", "COMMIT"], check=True, capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    found = [[] for _ in tables]
    for line in filter(None, done.stdout.split("\n")):
        number, row = json.loads(line)
        found[number].append(row)
    return assemble(*found)


def from_jsonl(path, note_path=None):
    chains = {}
    with open(path, "rb") as lines:
        for line in lines.read().split(b"\n"):
            if line:
                match = re.search(rb'"chain":"([0-9a-f]{32})"', line)
                name = match[1].decode() if match else None
                chains.setdefault(name, Chain([], name)).rows.append(Row(line))
    chains = list(chains.values())
    if note_path:
        with open(note_path, encoding="utf-8") as file:
            note = file.read()
        chains[0].checkpoints.append((parse_note(note)[1], None, note))
    return chains


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--sqlite", metavar="FILE")
    source.add_argument("--postgres", metavar="DSN")
    source.add_argument("--jsonl", metavar="FILE", help="entry bodies, one a line")
    parser.add_argument("--checkpoint", metavar="FILE", help="with --jsonl: the note over all of its entries")
    parser.add_argument("--psql", default="psql", metavar="PATH")
    parser.add_argument("--allow-open", action="store_true", help="calls may be under way")
    parser.add_argument("--sealed", action="store_true", help="every run must be sealed")
    parser.add_argument("--counter", type=int, metavar="N", help="what the tool counted itself")
    parser.add_argument("--tool", metavar="NAME", help="with --counter: count only this tool's calls")
    parser.add_argument("--acknowledged", metavar="FILE", help="receipts given out, JSON lines {chain, seq, leaf}")
    given = parser.parse_args(arguments)
    checker = Checker(given.allow_open, given.sealed)
    try:
        if given.sqlite:
            chains = from_sqlite(given.sqlite)
        elif given.postgres:
            chains = from_postgres(given.postgres, given.psql)
        else:
            chains = from_jsonl(given.jsonl, given.checkpoint)
        receipts = []
        if given.acknowledged:
            with open(given.acknowledged, encoding="utf-8") as file:
                receipts = [json.loads(line) for line in file if line.strip()]
    except (OSError, sqlite3.Error, subprocess.CalledProcessError, Bad, ValueError, KeyError) as error:
        said = getattr(error, "stderr", None)
        print(json.dumps({"ok": False, "unreadable": f"{error} {said or ''}".strip()}))
        return 2
    checker.check(chains)
    if not any(chain.rows for chain in chains):
        checker.bad("ledger", "empty", "there is no entry at all")
    if given.counter is not None:
        checker.counter(given.counter, given.tool)
    checker.acknowledged(receipts)
    print(json.dumps(checker.summary(), indent=1))
    return 1 if checker.problems else 0


if __name__ == "__main__":
    sys.exit(main())
