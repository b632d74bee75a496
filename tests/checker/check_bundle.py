"""Checks a Wicketgate bundle of one run: python3 check_bundle.py TRUST_FILE BUNDLE. Written from VERIFY.md alone."""
import base64, hashlib, hmac, json, os, sys
H, B64 = lambda *parts: hashlib.sha256(b"".join(parts)).digest(), base64.b64decode
P, L = 2**255 - 19, 2**252 + 27742317777372353535851937790883648493; D = -121665 * pow(121666, -1, P) % P  # RFC 8032
def need(holds, what):
    if not holds: raise ValueError(what)
def add(p, q):
    t = D * p[0] * q[0] * p[1] * q[1]
    return (p[0] * q[1] + q[0] * p[1]) * pow(1 + t, -1, P) % P, (p[1] * q[1] + p[0] * q[0]) * pow(1 - t, -1, P) % P
def times(n, p): return (0, 1) if n == 0 else add(times(n // 2, add(p, p)), p if n & 1 else (0, 1))
def point(raw):
    y, sign = int.from_bytes(raw, "little") % 2**255, raw[31] >> 7
    xx = (y * y - 1) * pow(D * y * y + 1, -1, P); x = pow(xx, (P + 3) // 8, P)
    if (x * x - xx) % P: x = x * pow(2, (P - 1) // 4, P) % P
    need(y < P and (x * x - xx) % P == 0 and len(raw) == 32, "a key or signature is no point of the curve")
    return (P - x if x % 2 != sign else x), y
def signed(key, text, sig):
    k, s = (int.from_bytes(b, "little") for b in (hashlib.sha512(sig[:32] + key + text).digest(), sig[32:]))
    return len(sig) == 64 and s < L and times(s, point(b"X" + b"f" * 31)) == add(point(sig[:32]), times(k % L, point(key)))
def pae(kind, body): return b"DSSEv1 %d %s %d " % (len(kind), kind.encode(), len(body)) + body
def climb(fn, sn, a, b, proof):  # RFC 9162, 2.1.3.2 and 2.1.4.2
    for c in proof:
        need(sn > 0, "a proof is too long")
        a, b = (H(b"\1", c, a), H(b"\1", c, b)) if fn & 1 or fn == sn else (a, H(b"\1", b, c))
        while fn and not fn & 1 and fn == sn: fn, sn = fn >> 1, sn >> 1
        fn, sn = fn >> 1, sn >> 1
    return need(sn == 0, "a proof is too short") or (a, b)
def grew(old, old_root, size, root, proof):
    fn, sn, proof = old - 1, size - 1, proof if old & (old - 1) else [old_root] + proof
    while fn & 1: fn, sn = fn >> 1, sn >> 1
    return old_root == root if old == size else 0 < old < size and climb(fn, sn, proof[0], proof[0], proof[1:]) == (old_root, root)
def check(trust_file, bundle):
    words, here = [l.split() for l in open(trust_file) if l.strip() and l[0] != "#"], os.path.dirname(trust_file)
    trusted = lambda word: [w[1:] for w in words if w[0] == word]
    pems = lambda word: [B64("".join(l for l in open(os.path.join(here, n)) if "-----" not in l))[-32:] for n, in trusted(word)]
    names = (os.path.join(d, n) for d, _, ns in os.walk(bundle) for n in ns); read = lambda name: open(name, "rb").read()
    files = {os.path.relpath(n, bundle): read(n) for n in names}; texts = b"".join(b for n, b in files.items() if n[-5:] == ".yaml")
    envelope = json.loads(files.pop("manifest.dsse.json")); listed = B64(envelope["payload"])
    said, by = pae("application/vnd.in-toto+json", listed), [B64(s["sig"]) for s in envelope["signatures"]]
    need(any(signed(k, said, s) for k in pems("evidence-key") for s in by), "the list of files is signed by nobody trusted")
    subjects = {s["name"]: s["digest"]["sha256"] for s in json.loads(listed)["subject"]}
    need(files.pop("manifest.json") == listed and subjects == {n: H(b).hex() for n, b in files.items()}, "a file was changed")
    lines = files["ledger/entries.jsonl"].split(b"\n")[:-1]; leaves = [H(b"\0", l) for l in lines]
    entries = [json.loads(l, parse_float=complex) for l in lines]  # a fraction cannot be written again
    form = dict(sort_keys=True, separators=(",", ":"), ensure_ascii=False)  # RFC 8785, for names in ASCII and whole numbers
    need([json.dumps(e, **form).encode() for e in entries] == lines, "an entry is not in canonical form")
    head, signatures = files["ledger/checkpoint.txt"].decode().split("\n\n"); origin, size, root = head.split("\n")
    size, root, nothing = int(size), B64(root), '{"proofs":[]}'
    proofs = lambda name, at: {p[at]: list(map(bytes.fromhex, p["path"])) for p in json.loads(files.get(name, nothing))["proofs"]}
    paths, older = proofs("ledger/inclusion.json", "seq"), proofs("ledger/consistency.json", "old")
    for e, leaf in zip(entries, leaves):
        need(climb(e["seq"], size - 1, leaf, leaf, paths[e["seq"]])[1] == root, "an entry is not in the log")
    enrolment = [k for k in pems("enrolment-key") if k == B64(entries[0]["data"]["enrolment_key"])]; writers = {}
    need(entries[0]["seq"] == 0 and entries[0]["data"]["origin"] == origin and enrolment, "nobody trusted enrolled this log")
    for e in (e for e in entries if e["kind"] == "writer.started"):
        c = e["data"]["certificate"]; body = pae("application/vnd.wicketgate.writer-certificate.v1+json", B64(c["body"]))
        need(signed(enrolment[0], body, B64(c["sig"])), "a writer's certificate does not hold")
        writers[e["epoch"]] = B64(json.loads(B64(c["body"]))["key"])
    blobs = [B64(l.split(" ")[2])[4:] for l in signatures.strip().split("\n") if l.split(" ")[1] == origin]
    need(any(signed(k, (head + "\n").encode(), b) for k in writers.values() for b in blobs), "no writer signed the head")
    for n, r in ((int(n), bytes.fromhex(r)) for o, n, r in trusted("head") if o == origin):
        need(grew(n, r, size, root, older.get(n, [])), "the log does not extend a head that was noted before")
    run = [(e, l) for e, l in zip(entries, leaves) if "run" in e]; past = [None] + [l.hex() for _, l in run]
    for n, (e, _) in enumerate(run):
        need(e["run"] == run[0][0]["run"] and e["run_seq"] == n and e.get("run_prev") == past[n], "an entry of the run is missing")
    need(run[-1][0]["kind"] == "run.sealed" and run[-1][0]["data"]["entries"] == len(run), "the run is not sealed and complete")
    index, said = json.loads(files["payloads/index.json"]), {c["c"] for e, _ in run for c in e.get("commit", [])}
    need(set(index) == said, "a payload is not spoken of")
    for c, o in ((c, o) for c, o in index.items() if "salt" in o):
        body, salt = files["payloads/%s.bin" % c], bytes.fromhex(o["salt"]); framed = len(body).to_bytes(8, "big") + body
        whole = H(b"wicketgate/whole/2\0", hmac.digest(salt, b"whole", "sha256"), framed)
        v2 = o.get("v") == 2 and H(b"wicketgate/commit/2\0", whole, bytes.fromhex(o["members"]))
        need((v2 or H(b"wicketgate/commit/1\0", salt, framed)).hex() == c, "a payload is not the one that was committed to")
    used = {e["policy"] for e, _ in run if "verdict" in e} - {"sha256:" + H().hex()}  # refused before any policy was asked
    there, own = {"sha256:" + subjects[n] for n in files if n[:7] == "policy/"}, [n for n in files if n[:16] == "agent/templates/"]
    need(all(n[16:-4] == subjects[n] and n[16:-4].encode() in texts for n in own), "a template is not one that a manifest names")
    need(used <= there and used <= {w for w, in trusted("policy")}, "a policy is not here or not approved")
    return "%d files, %d entries of %s, run %s" % (len(files), len(entries), origin, run[0][0]["run"])
try: print("accepted:", check(*sys.argv[1:]))
except (ArithmeticError, LookupError, OSError, TypeError, ValueError) as why: sys.exit("refused: %r" % why)
