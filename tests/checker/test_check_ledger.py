"""The checker's own test: a good ledger passes, and every way of breaking it that we could think of does not."""

import base64
import contextlib
import copy
import hashlib
import io
import json
import os
import sqlite3
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import check_ledger as cl  # noqa: E402

CHAIN = "cec64784d02db0f8751e7fdad2d0e3be"
RUN = "6f0f8a52-9c55-4c2e-8a4e-0d2f0a1b2c3d"
ORIGIN = "wicketgate.dev/default/local/0/1"

try:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    KEY = Ed25519PrivateKey.from_private_bytes(b"\x07" * 32)
    PUBLIC = KEY.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
except ImportError:
    KEY, PUBLIC = None, b"\x01" * 32


def note(size, root):
    body = f"{ORIGIN}\n{size}\n{base64.b64encode(root).decode()}\n"
    signature = KEY.sign(body.encode()) if KEY else b"\x00" * 64
    blob = cl.key_hash(ORIGIN, PUBLIC) + signature
    return f"{body}\n\u2014 {ORIGIN} {base64.b64encode(blob).decode()}\n"


class Book:
    """Entries as plain dictionaries, to be edited and sealed into a chain."""

    def __init__(self):
        self.entries = []
        self.payloads = []
        self.run_seq = 0

    def add(self, kind, data=None, run=False, epoch=1, **members):
        entry = {
            "v": "wicketgate/entry/1", "chain": CHAIN, "epoch": epoch, "seq": len(self.entries),
            "ts": f"2026-11-21T20:05:{len(self.entries):02d}.000Z", "boot": f"{epoch:08x}", "mono": str(len(self.entries)),
            "kind": kind, "data": data or {}, **members,
        }
        if run:
            entry.update(run=RUN, run_seq=self.run_seq)
            self.run_seq += 1
        self.entries.append(entry)

    def commit(self, role, body, salt=b"\x05" * 32):
        c = cl.commitment(salt, body)
        self.payloads.append((c, salt, body))
        return [{"c": c.hex(), "len": len(body), "role": role}]

    def seal(self, relink=True, checkpoints=True):
        """Links the entries and stores them, as the writer would."""
        chain = cl.Chain([], CHAIN)
        tree, prev, run_prev = cl.Tree(), hashlib.sha256(bytes.fromhex(CHAIN)).digest(), None
        for entry in self.entries:
            if relink:
                entry["prev"] = prev.hex()
                if "run" in entry and run_prev is not None:
                    entry["run_prev"] = run_prev.hex()
            body = cl.canonical(entry)
            leaf = cl.leaf_hash(body)
            columns = (entry["kind"], entry.get("run"), entry.get("call"))
            chain.rows.append(cl.Row(body, entry["seq"], leaf, bytes.fromhex(entry["prev"]), *columns))
            tree.push(leaf)
            prev = leaf
            if "run" in entry:
                run_prev = leaf
            if checkpoints:
                chain.checkpoints.append((tree.size, entry["epoch"], note(tree.size, tree.root())))
        frontier = b"".join(peak for _, peak in tree.peaks)
        last = note(tree.size, tree.root())
        chain.head = {"size": tree.size, "hash": prev, "frontier": frontier, "checkpoint": last}
        chain.payloads = list(self.payloads)
        return chain


def good_book():
    book = Book()
    book.add("chain.genesis", {"origin": ORIGIN})
    book.add("writer.started", {"writer_key": base64.b64encode(PUBLIC).decode()})
    book.add("run.opened", {"agent": "a"}, run=True)
    args = book.commit("args", b'{"q":1}')
    named = {"run": RUN, "call": "c1", "tool": "t", "args_commitment": args[0]["c"]}
    digest = hashlib.sha256(b"wicketgate/call/1\0" + cl.canonical(named)).hexdigest()
    book.add("call.authorized", {"call_digest": f"sha256:{digest}"}, run=True, call="c1", tool="t", verdict="allow", commit=args)
    result = book.commit("result", b'{"ok":true}', b"\x06" * 32)
    book.add("call.completed", {"us": 5}, run=True, call="c1", tool="t", commit=result)
    book.add("call.denied", {}, run=True, call="c2", tool="t", verdict="deny", rule="r")
    book.add("call.held", {}, run=True, call="c3", tool="t", verdict="require_approval")
    book.add("writer.started", {"writer_key": PUBLIC.hex()}, epoch=2)
    book.add("call.authorized", {}, run=True, epoch=2, call="c4", tool="t", verdict="allow")
    book.add("call.unknown", {"cause": "crash"}, run=True, epoch=2, call="c4", tool="t")
    book.add("call.cancelled", {"reason": "seal"}, run=True, epoch=2, call="c3", tool="t")
    book.add("run.sealed", {"entries": book.run_seq + 1}, run=True, epoch=2)
    return book


def observed(verdict="deny", rule="wicketgate.agent.deny agent/a.rego:3", detail="x", tier="T1", kind="call.authorized"):
    """A good book in which the second call ran against the policy's word."""
    book = good_book()
    call = next(entry for entry in book.entries if entry["kind"] == "call.authorized" and entry["call"] == "c4")
    reasons = [{"code": "policy.denied", "detail": detail, "message": "m", "rule": rule}]
    call.update(kind=kind, verdict=verdict, data={"enforced": False, "tier": tier, "reasons": reasons})
    return book


def simulated(kind, data):
    """A run of one call that was decided and not run, or so it says."""
    book = Book()
    book.add("chain.genesis", {"origin": ORIGIN})
    book.add("writer.started", {"writer_key": base64.b64encode(PUBLIC).decode()})
    book.add("run.opened", {"agent": "a", "mode": "simulate"}, run=True)
    book.add("call.authorized", {}, run=True, call="c1", tool="t", verdict="allow")
    book.add(kind, data, run=True, call="c1", tool="t")
    book.add("run.sealed", {"entries": book.run_seq + 1}, run=True)
    return book


def streamed(*progress, end="call.completed", **ended):
    """A run of one call whose answer left while it ran."""
    book = Book()
    book.add("chain.genesis", {"origin": ORIGIN})
    book.add("writer.started", {"writer_key": base64.b64encode(PUBLIC).decode()})
    book.add("run.opened", {"agent": "a"}, run=True)
    book.add("call.authorized", {}, run=True, call="m", tool="llm.main", verdict="allow")
    for count in progress:
        book.add("call.progress", left(count), run=True, call="m", tool="llm.main")
    book.add(end, ended, run=True, call="m", tool="llm.main")
    book.add("run.sealed", {"entries": book.run_seq + 1}, run=True)
    return book


def left(count, pieces=None, of="a"):
    digest = hashlib.sha256((of * count).encode()).hexdigest()
    return {"bytes": count, "pieces": pieces or count, "sha256": digest}


def proposed(by="m", binding="observed", first="call.authorized", of=None):
    """A call to a model, and then one that its answer asked for."""
    book = streamed(end="call.unknown" if first == "call.authorized" else "call.completed", cause="x")
    seal = book.entries.pop()
    book.run_seq -= 1
    if first != "call.authorized":
        book.entries = book.entries[:3]
        book.run_seq = 1
        book.add(first, {}, run=True, call="m", tool="llm.main", verdict="deny")
    data = {"binding": binding, "proposed_by": by} | ({} if of is None else {"gate_of": of})
    book.add("call.authorized", data, run=True, call="c", tool="t", verdict="allow")
    book.add("call.completed", {"us": 5}, run=True, call="c", tool="t")
    book.add(seal["kind"], {"entries": book.run_seq + 1}, run=True)
    return book


def problems(chain, **options):
    checker = cl.Checker(**options)
    checker.check(chain if isinstance(chain, list) else [chain])
    return {problem["code"] for problem in checker.problems}


def rewrite(chain, index, edit):
    """Edits one stored body and repairs what stands beside it, but not what follows."""
    entry = json.loads(chain.rows[index].body)
    edit(entry)
    body = cl.canonical(entry)
    chain.rows[index].body, chain.rows[index].leaf = body, cl.leaf_hash(body)


class GoodLedger(unittest.TestCase):
    def test_a_good_ledger_holds(self):
        checker = cl.Checker(require_sealed=True)
        checker.check([good_book().seal()])
        self.assertEqual(checker.problems, [])
        summary = checker.summary()
        self.assertEqual(summary["calls"], {"cancelled": 1, "completed": 1, "denied": 1, "unknown": 1})
        self.assertEqual((summary["entries"], summary["checkpoints"], summary["payloads"]), (12, 12, 2))
        self.assertEqual(summary["signatures"], 12 if KEY else 0)

    def test_a_call_that_ran_against_the_policys_word_is_counted(self):
        checker = cl.Checker()
        checker.check([observed().seal()])
        self.assertEqual((checker.problems, checker.summary()["unenforced"]), ([], 1))
        hold = {"verdict": "require_approval", "rule": "wicketgate.team.require_approval team/a.rego:3"}
        self.assertEqual(problems(observed(**hold).seal()), set())
        self.assertEqual(problems(observed(rule="wicketgate.decision", detail="no_allow").seal()), set())

    def test_a_simulated_run_may_be_whole(self):
        self.assertEqual(problems(simulated("call.cancelled", {"reason": "simulated"}).seal()), set())
        self.assertEqual(problems(simulated("call.unknown", {"cause": "writer_lost"}).seal()), set())

    def test_an_answer_leaves_while_its_call_runs(self):
        for end in ("call.completed", "call.failed", "call.cancelled", "call.unknown"):
            book = streamed(3, 7, end=end, observed={"stream": left(9)})
            self.assertEqual(problems(book.seal()), set(), end)
        self.assertEqual(problems(streamed(3, observed={"stream": left(3, 4)}).seal()), set())
        self.assertEqual(problems(streamed(observed={"stream": left(9)}).seal()), set())
        lost = {"end": "call.unknown", "cause": "writer_lost"}
        self.assertEqual(problems(streamed(3, 7, **lost, covered_bytes=7).seal()), set())
        self.assertEqual(problems(streamed(3, 7, **lost).seal()), set())

    def test_events_that_are_kept_are_as_long_as_what_left(self):
        for length, found in ((9, set()), (8, {"stream"})):
            book = streamed(observed={"stream": left(9)})
            seal = book.entries.pop()
            end = book.entries.pop()
            book.run_seq -= 2
            kept = [{"c": "0" * 64, "len": length, "role": "stream"}]
            book.add("call.completed", end["data"], run=True, call="m", tool="llm.main", commit=kept)
            book.add("run.sealed", {"entries": book.run_seq + 1}, run=True)
            self.assertEqual(seal["kind"], "run.sealed")
            self.assertEqual(problems(book.seal()), found)

    def test_progress_grows_and_the_end_of_a_call_says_no_less(self):
        for book in (
            streamed(7, 7, observed={"stream": left(9)}),
            streamed(7, 3, observed={"stream": left(9)}),
            streamed(0, observed={"stream": left(9)}),
            streamed(7, observed={"stream": left(6)}),
            streamed(7, observed={"stream": left(9, 7)}),
            streamed(7, observed={"stream": left(7, of="b")}),
            streamed(7),
            streamed(7, end="call.failed"),
            streamed(3, 7, end="call.unknown", cause="writer_lost", covered_bytes=3),
            streamed(end="call.unknown", cause="writer_lost", covered_bytes=3),
        ):
            self.assertEqual(problems(book.seal()), {"stream"})

    def test_progress_stands_between_the_permit_of_a_call_and_its_end(self):
        for at in (3, 5):
            book = streamed(observed={"stream": left(9)})
            late = {**book.entries[3], "kind": "call.progress", "data": left(3)}
            del late["verdict"]
            book.entries.insert(at, late)
            for number, entry in enumerate(book.entries):
                entry.update(seq=number, ts=f"2026-11-21T20:05:{number:02d}.000Z", mono=str(number))
                if "run" in entry:
                    entry["run_seq"] = number - 2
            book.entries[-1]["data"]["entries"] += 1
            self.assertIn("call", problems(book.seal()))

    def test_a_call_is_proposed_by_an_earlier_one_that_was_allowed_and_is_observed(self):
        self.assertEqual(problems(proposed().seal()), set())
        for book in (
            proposed(by="c"), proposed(by="x"), proposed(binding="claimed"), proposed(first="call.denied"),
        ):
            self.assertEqual(problems(book.seal()), {"proposed"})

    def test_a_call_of_the_gate_names_an_earlier_one_that_was_allowed(self):
        self.assertEqual(problems(proposed(of="m").seal()), set())
        for of in ("c", "x"):
            self.assertEqual(problems(proposed(of=of).seal()), {"gate"})

    def test_a_run_says_all_of_where_it_goes_on_from_or_nothing(self):
        other = {"recording": "sha256:" + "ab" * 32, "run": "00000000-0000-4000-8000-000000000007", "at": 3}
        clock = "2026-11-21T20:05:03.123Z"

        def book(**replay):
            book = good_book()
            opened = next(entry for entry in book.entries if entry["kind"] == "run.opened")
            opened["data"]["replay"] = {"clock": clock} | replay
            return problems(book.seal())

        self.assertEqual(book(mode="fork", **other), set())
        self.assertEqual(book(mode="replay", recording=other["recording"]), set())
        self.assertEqual(book(mode="record"), set())
        for missing in other:
            self.assertEqual(book(mode="fork", **{k: v for k, v in other.items() if k != missing}), {"run"})
        self.assertEqual(book(mode="record", **other), {"run"})
        self.assertEqual(book(mode="replay"), {"run"})
        own = next(entry["run"] for entry in good_book().entries if entry["kind"] == "run.opened")
        self.assertEqual(book(mode="fork", **(other | {"run": own})), {"run"})

    def test_an_alert_stands_right_behind_its_cause(self):
        def book(kind="path_traversal", at=6, also=False, **changed):
            book = good_book()
            data = {"alert": kind, "severity": "high", "agent": "a", "run": RUN, "call": "c2", "count": 1,
                    "first": 5, "last": 5, "since": "2026-11-21T20:05:05.000Z"} | changed
            added = [book.entries[0] | {"kind": "alert.raised", "data": one} for one in [data] + [data] * also]
            book.entries[at:at] = added
            for seq, entry in enumerate(book.entries):
                entry.update(seq=seq, ts=f"2026-11-21T20:05:{seq:02d}.000Z", mono=str(seq))
                entry["epoch"] = max(entry["epoch"], book.entries[max(seq - 1, 0)]["epoch"])
                entry["boot"] = f"{entry['epoch']:08x}"
            return problems(book.seal())

        self.assertEqual(book(), set())
        self.assertEqual(book(also=True), set())
        self.assertEqual(book(kind="burst_denial"), set())
        self.assertEqual(book(at=7), {"alert"})
        self.assertEqual(book(call="c1"), {"alert"})
        self.assertEqual(book(last=4), {"alert"})
        self.assertEqual(book(first=6), {"alert"})
        self.assertEqual(book(run="00000000-0000-4000-8000-000000000007"), {"alert"})
        self.assertEqual(book(kind="burst_denial", at=7, first=6, last=6, call="c3"), {"alert"})

    def test_roots_are_those_of_the_definition(self):
        def by_definition(leaves):
            if len(leaves) == 1:
                return leaves[0]
            split = 1
            while split * 2 < len(leaves):
                split *= 2
            return cl.node_hash(by_definition(leaves[:split]), by_definition(leaves[split:]))

        tree, leaves = cl.Tree(), []
        for n in range(70):
            leaves.append(cl.leaf_hash(bytes([n])))
            tree.push(leaves[-1])
            self.assertEqual(tree.root(), by_definition(leaves))

    def test_the_counter_is_held_between_completed_and_permitted(self):
        for n, holds in ((0, False), (1, True), (2, True), (3, True), (4, False)):
            checker = cl.Checker()
            checker.check([good_book().seal()])
            checker.counter(n)
            self.assertEqual(not checker.problems, holds, n)

    def test_an_acknowledged_entry_must_be_there(self):
        chain = good_book().seal()
        receipt = {"chain": CHAIN, "seq": 3, "leaf": chain.rows[3].leaf.hex()}
        for leaf, holds in ((receipt["leaf"], True), ("00" * 32, False)):
            checker = cl.Checker()
            checker.check([copy.deepcopy(chain)])
            checker.acknowledged([{**receipt, "leaf": leaf}])
            self.assertEqual(not checker.problems, holds)

    def test_a_kind_it_does_not_know_is_said_and_not_judged(self):
        book = good_book()
        book.add("weather.observed", epoch=2)
        checker = cl.Checker()
        checker.check([book.seal()])
        self.assertEqual((checker.problems, checker.unverifiable), ([], {"weather.observed"}))

    def test_a_running_call_is_a_problem_unless_it_may_be_open(self):
        book = good_book()
        del book.entries[9:]
        self.assertEqual(problems(book.seal()), {"open"})
        self.assertEqual(problems(book.seal(), allow_open=True), set())

    def test_an_unsealed_run_is_a_problem_if_it_should_be_sealed(self):
        book = good_book()
        del book.entries[11:]
        self.assertEqual(problems(book.seal()), set())
        self.assertEqual(problems(book.seal(), require_sealed=True), {"open"})


class StoredBytes(unittest.TestCase):
    """Somebody edits the database."""

    def caught(self, code, break_it):
        chain = good_book().seal()
        break_it(chain)
        self.assertIn(code, problems(chain))

    def test_an_edited_body_is_caught_by_its_leaf_hash(self):
        def edit(chain):
            chain.rows[5].body = chain.rows[5].body.replace(b'"deny"', b'"fine"')

        self.caught("leaf", edit)

    def test_an_edited_body_with_its_hash_repaired_is_caught_by_the_next_link(self):
        self.caught("prev", lambda c: rewrite(c, 4, lambda e: e["data"].update(us=6)))

    def test_an_edited_last_body_is_caught_by_the_checkpoint(self):
        self.caught("checkpoint", lambda c: rewrite(c, 11, lambda e: e["data"].update(note="x")))

    def test_a_deleted_entry_is_caught(self):
        self.caught("seq", lambda c: c.rows.pop(5))

    def test_a_truncated_tail_is_caught_by_the_head(self):
        self.caught("head", lambda c: c.rows.pop())

    def test_a_truncated_tail_with_the_head_repaired_is_caught_by_the_checkpoint(self):
        def edit(chain):
            chain.rows.pop()
            chain.head = None

        self.caught("checkpoint", edit)

    def test_swapped_entries_are_caught(self):
        def edit(chain):
            chain.rows[4], chain.rows[5] = chain.rows[5], chain.rows[4]

        self.caught("seq", edit)

    def test_an_edited_kind_column_is_caught(self):
        self.caught("shadow", lambda c: setattr(c.rows[5], "kind", "call.completed"))

    def test_an_edited_call_column_is_caught(self):
        self.caught("shadow", lambda c: setattr(c.rows[5], "call", "c9"))

    def test_an_edited_prev_column_is_caught(self):
        self.caught("shadow", lambda c: setattr(c.rows[5], "prev", b"\x00" * 32))

    def test_an_edited_frontier_is_caught(self):
        self.caught("head", lambda c: c.head.update(frontier=c.head["frontier"][:-1] + b"\x00"))

    def test_a_checkpoint_of_another_root_is_caught(self):
        self.caught("checkpoint", lambda c: c.checkpoints.__setitem__(3, (4, 1, note(4, b"\x00" * 32))))

    def test_a_checkpoint_of_another_size_is_caught(self):
        self.caught("checkpoint", lambda c: c.checkpoints.__setitem__(3, (4, 1, c.checkpoints[4][2])))

    def test_a_checkpoint_of_another_epoch_is_caught(self):
        self.caught("checkpoint", lambda c: c.checkpoints.__setitem__(3, (4, 2, c.checkpoints[3][2])))

    def test_a_mangled_note_is_caught(self):
        self.caught("checkpoint", lambda c: c.checkpoints.__setitem__(3, (4, 1, c.checkpoints[3][2] + "extra")))

    @unittest.skipUnless(KEY, "needs the cryptography module")
    def test_a_signature_that_does_not_hold_is_caught(self):
        def edit(chain):
            body, _, line = chain.checkpoints[3][2].rpartition(" ")
            blob = bytearray(base64.b64decode(line))
            blob[20] ^= 1
            chain.checkpoints[3] = (4, 1, f"{body} {base64.b64encode(bytes(blob)).decode()}\n")

        self.caught("signature", edit)

    def test_a_signature_by_another_key_is_caught(self):
        def edit(chain):
            body, _, line = chain.checkpoints[3][2].rpartition(" ")
            blob = b"\x00\x00\x00\x00" + base64.b64decode(line)[4:]
            chain.checkpoints[3] = (4, 1, f"{body} {base64.b64encode(blob).decode()}\n")

        self.caught("signature", edit)

    def test_an_edited_payload_is_caught(self):
        def edit(chain):
            c, salt, body = chain.payloads[0]
            chain.payloads[0] = (c, salt, body + b" ")

        self.caught("payload", edit)

    def test_an_empty_ledger_is_no_good_ledger(self):
        with tempfile.NamedTemporaryFile(suffix=".jsonl") as file, contextlib.redirect_stdout(io.StringIO()) as out:
            self.assertEqual(cl.main(["--jsonl", file.name]), 1)
        self.assertIn("no entry at all", out.getvalue())


class Writer(unittest.TestCase):
    """The writer itself breaks a rule: everything is linked and signed, and still wrong."""

    def caught(self, code, edit):
        book = good_book()
        edit(book)
        self.assertIn(code, problems(book.seal()))

    def test_what_is_not_enforced_is_the_word_of_a_layer_that_may_observe(self):
        self.assertIn("call", problems(observed(verdict="allow").seal()))
        self.assertIn("call", problems(observed(tier="T3").seal()))
        self.assertIn("call", problems(observed(tier=None).seal()))
        for rule in ("wicketgate.org.deny org/a.rego:1", "wicketgate.decision", "limits", "", "wicketgate.agent.denyx"):
            self.assertIn("call", problems(observed(rule=rule).seal()), rule)
        denied = observed(kind="call.denied")
        denied.entries = [entry for entry in denied.entries if entry["kind"] != "call.unknown"]
        self.assertIn("call", problems(denied.seal()))

    def test_a_simulated_run_that_executed_something_is_caught(self):
        self.assertIn("call", problems(simulated("call.completed", {}).seal()))
        self.assertIn("call", problems(simulated("call.failed", {"started": True}).seal()))
        checker = cl.Checker()
        checker.check([simulated("call.cancelled", {"reason": "simulated"}).seal()])
        checker.counter(0)
        self.assertEqual(checker.problems, [])
        checker.counter(1)
        self.assertEqual([problem["code"] for problem in checker.problems], ["counter"])

    def drop(self, book, *indices):
        for index in sorted(indices, reverse=True):
            del book.entries[index]
        run_seq = 0
        for seq, entry in enumerate(book.entries):
            entry["seq"] = seq
            if "run" in entry:
                entry["run_seq"] = run_seq
                run_seq += 1
                if entry["kind"] == "run.sealed":
                    entry["data"]["entries"] = run_seq

    def test_a_completion_without_a_permit_is_caught(self):
        self.caught("call", lambda b: self.drop(b, 3))

    def test_a_sealed_run_with_a_call_open_is_caught(self):
        self.caught("open", lambda b: self.drop(b, 4))

    def test_a_held_call_that_survives_the_seal_is_caught(self):
        self.caught("open", lambda b: self.drop(b, 10))

    def test_two_ends_of_one_call_are_caught(self):
        self.caught("call", lambda b: b.entries[5].update(kind="call.failed", call="c1"))

    def test_an_end_after_a_denial_is_caught(self):
        self.caught("call", lambda b: b.entries[9].update(call="c2"))

    def test_a_permit_with_a_denying_verdict_is_caught(self):
        self.caught("call", lambda b: b.entries[3].update(verdict="deny"))

    def test_a_call_that_changes_its_tool_is_caught(self):
        self.caught("call", lambda b: b.entries[4].update(tool="other"))

    def test_a_call_digest_of_another_call_is_caught(self):
        self.caught("digest", lambda b: b.entries[3]["data"].update(call_digest="sha256:" + "00" * 32))

    def test_an_approved_call_walks_its_longer_way(self):
        book = good_book()
        book.entries[10].update(kind="approval.granted")
        book.entries.pop()
        book.run_seq -= 1
        book.add("call.authorized", {}, run=True, epoch=2, call="c3", tool="t", verdict="allow")
        book.add("call.failed", {"class": "timeout", "started": True}, run=True, epoch=2, call="c3", tool="t")
        self.assertEqual(problems(book.seal()), set())

    def test_a_person_is_one_approval_and_only_another_key_takes_the_place_of_a_passkey(self):
        for first, second, wrong in (
                (("ann", "file"), ("bob", "file"), False), (("ann", "passkey"), ("Ann", "file"), False),
                (("ann", "passkey"), ("ann", "passkey"), True), (("ann", "file"), ("Ann", "passkey"), True),
                (("ann", "file"), ("ann", "hardware"), True)):
            book = good_book()
            book.entries.pop()
            book.run_seq -= 1
            by = [{"subject": subject, "key_kind": kind} for subject, kind in (first, second)]
            book.entries[10].update(kind="approval.granted", data=by[0])
            book.add("approval.granted", by[1], run=True, epoch=2, call="c3", tool="t")
            book.add("call.authorized", {}, run=True, epoch=2, call="c3", tool="t", verdict="allow")
            book.add("call.failed", {"class": "timeout", "started": True}, run=True, epoch=2, call="c3", tool="t")
            self.assertEqual("call" in problems(book.seal()), wrong, (first, second))

    def test_a_proposer_never_approves_and_is_never_alone(self):
        by = {"asked_by": {"subject": "bob", "key": "k", "roles": []}}
        for granted, authorized, wrong in (
                ("alice", by, False), ("bob", by, True), ("Bob", by, True), (None, by, True),
                (None, {**by, "break_glass": {"nonce": "n"}}, True)):
            book = good_book()
            book.entries[6]["data"].update(by)
            book.entries.pop()
            book.run_seq -= 1
            if granted:
                book.entries[10].update(kind="approval.granted", data={"subject": granted})
            else:
                book.entries.pop()
                book.run_seq -= 1
            book.add("call.authorized", authorized, run=True, epoch=2, call="c3", tool="t", verdict="allow")
            book.add("call.failed", {"class": "timeout", "started": True}, run=True, epoch=2, call="c3", tool="t")
            self.assertEqual("call" in problems(book.seal()), wrong, (granted, authorized))

    def test_a_refused_approval_must_end_in_a_denial(self):
        self.caught("open", lambda b: b.entries[10].update(kind="approval.refused"))

    def test_an_entry_after_the_seal_is_caught(self):
        self.caught("run", lambda b: b.add("call.denied", {}, run=True, epoch=2, call="c9", verdict="deny"))

    def test_a_seal_that_miscounts_is_caught(self):
        self.caught("run", lambda b: b.entries[11]["data"].update(entries=3))

    def test_a_run_that_was_not_opened_is_caught(self):
        self.caught("run", lambda b: self.drop(b, 2))

    def test_a_gap_in_the_run_is_caught(self):
        self.caught("run", lambda b: b.entries[5].update(run_seq=9))

    def test_a_wrong_run_link_is_caught(self):
        book = good_book()
        book.seal()
        book.entries[4]["run_prev"] = "00" * 32
        self.assertIn("run", problems(book.seal(relink=False)))

    def test_a_call_without_a_run_is_caught(self):
        def edit(book):
            for name in ("run", "run_seq", "call"):
                del book.entries[5][name]

        self.caught("run", edit)

    def test_an_epoch_that_goes_back_is_caught(self):
        self.caught("epoch", lambda b: b.entries[9].update(epoch=1))

    def test_an_epoch_that_begins_without_its_writer_is_caught(self):
        self.caught("epoch", lambda b: b.entries[6].update(epoch=2))

    def test_time_that_goes_back_is_caught(self):
        self.caught("ts", lambda b: b.entries[6].update(ts="2026-11-21T20:00:00.000Z"))

    def test_monotonic_time_that_goes_back_is_caught(self):
        self.caught("mono", lambda b: b.entries[6].update(mono="1"))

    def test_a_chain_that_does_not_begin_with_genesis_is_caught(self):
        self.caught("genesis", lambda b: b.entries[0].update(kind="heartbeat"))

    def test_an_entry_of_another_chain_is_caught(self):
        self.caught("chain", lambda b: b.entries[6].update(chain="00" * 16))

    def test_a_run_in_two_chains_is_caught(self):
        first, second = good_book(), good_book()
        self.drop(first, 11)
        self.assertIn("run", problems([first.seal(), second.seal()]))


class Form(unittest.TestCase):
    """Bytes that are no entry."""

    def refused(self, code, body):
        with self.assertRaises(cl.Bad) as caught:
            cl.parse_entry(body)
        self.assertEqual(caught.exception.code, code)

    def setUp(self):
        self.body = good_book().seal().rows[3].body
        self.entry = json.loads(self.body)

    def test_the_body_itself_is_read(self):
        self.assertEqual(cl.parse_entry(self.body)["call"], "c1")

    def test_white_space_is_refused(self):
        self.refused("canonical", self.body.replace(b":", b": ", 1))

    def test_unsorted_members_are_refused(self):
        self.refused("canonical", json.dumps(dict(reversed(self.entry.items())), separators=(",", ":")).encode())

    def test_a_duplicate_member_is_refused(self):
        self.refused("json", self.body[:-1] + b',"v":"wicketgate/entry/1"}')

    def test_a_float_is_refused(self):
        self.refused("json", self.body.replace(b'"epoch":1', b'"epoch":1.0'))

    def test_null_is_refused(self):
        self.refused("profile", cl.canonical({**self.entry, "data": {"x": None}}))

    def test_a_number_out_of_range_is_refused(self):
        self.refused("profile", cl.canonical({**self.entry, "data": {"x": 2**53}}))

    def test_a_capital_in_a_name_is_refused(self):
        self.refused("profile", cl.canonical({**self.entry, "data": {"X": 1}}))

    def test_depth_is_bounded(self):
        deep = {}
        for _ in range(8):
            deep = {"x": deep}
        self.refused("profile", cl.canonical({**self.entry, "data": deep}))

    def test_an_unknown_member_is_refused(self):
        self.refused("members", cl.canonical({**self.entry, "extra": 1}))

    def test_a_missing_member_is_refused(self):
        self.refused("members", cl.canonical({k: v for k, v in self.entry.items() if k != "ts"}))

    def test_an_unknown_role_is_refused(self):
        self.refused("members", cl.canonical({**self.entry, "commit": [{"c": "00" * 32, "len": 1, "role": "x"}]}))

    def test_more_than_the_limit_is_refused(self):
        self.refused("size", b" " * 65_536)


class Sources(unittest.TestCase):
    def test_a_sqlite_file_is_read_and_an_edit_in_it_is_found(self):
        chain = good_book().seal()
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "ledger.db")
            base = sqlite3.connect(path)
            base.executescript(
                "CREATE TABLE head(chain_id BLOB, epoch INT, size INT, head_hash BLOB, frontier BLOB, checkpoint TEXT);"
                "CREATE TABLE entry(chain_id BLOB, seq INT, leaf_hash BLOB, prev_hash BLOB, run_id, call_id, kind, body BLOB);"
                "CREATE TABLE checkpoint(chain_id BLOB, size INT, epoch INT, note TEXT);"
                "CREATE TABLE payload(commitment BLOB, chain_id BLOB, salt BLOB, body BLOB);"
            )
            chain_id = bytes.fromhex(CHAIN)
            head = chain.head
            base.execute(
                "INSERT INTO head VALUES (?,?,?,?,?,?)",
                (chain_id, 2, head["size"], head["hash"], head["frontier"], head["checkpoint"]),
            )
            for row in chain.rows:
                run = bytes.fromhex(row.run.replace("-", "")) if row.run else None
                values = (chain_id, row.seq, row.leaf, row.prev, run, row.call, row.kind, row.body)
                base.execute("INSERT INTO entry VALUES (?,?,?,?,?,?,?,?)", values)
            base.executemany("INSERT INTO checkpoint VALUES (?,?,?,?)", [(chain_id, *c) for c in chain.checkpoints])
            base.executemany(
                "INSERT INTO payload VALUES (?,?,?,?)", [(c, chain_id, salt, body) for c, salt, body in chain.payloads]
            )
            base.commit()
            with contextlib.redirect_stdout(io.StringIO()) as out:
                self.assertEqual(cl.main(["--sqlite", path, "--sealed", "--counter", "2"]), 0, out.getvalue())
            base.execute("UPDATE entry SET body = replace(body, 'deny', 'fine') WHERE seq = 5")
            base.commit()
            base.close()
            with contextlib.redirect_stdout(io.StringIO()):
                self.assertEqual(cl.main(["--sqlite", path]), 1)

    def test_bytes_are_read_as_sql_tools_print_them(self):
        self.assertEqual(cl.as_bytes("\\x00ff"), b"\x00\xff")
        self.assertEqual(cl.as_bytes("00ff"), b"\x00\xff")
        self.assertEqual(cl.as_bytes(b"00"), b"00")

    def test_lines_with_a_note_are_read(self):
        chain = good_book().seal()
        with tempfile.TemporaryDirectory() as folder:
            lines, text = os.path.join(folder, "entries.jsonl"), os.path.join(folder, "checkpoint.txt")
            with open(lines, "wb") as file:
                file.writelines(row.body + b"\n" for row in chain.rows)
            with open(text, "w", encoding="utf-8") as file:
                file.write(chain.head["checkpoint"])
            with contextlib.redirect_stdout(io.StringIO()) as out:
                self.assertEqual(cl.main(["--jsonl", lines, "--checkpoint", text]), 0, out.getvalue())
            with open(lines, "ab") as file:
                file.write(b"{}\n")
            with contextlib.redirect_stdout(io.StringIO()):
                self.assertEqual(cl.main(["--jsonl", lines, "--checkpoint", text]), 1)

    def test_what_is_no_ledger_is_said_to_be_unreadable(self):
        with contextlib.redirect_stdout(io.StringIO()) as out:
            self.assertEqual(cl.main(["--sqlite", "/nonexistent/ledger.db"]), 2)
        self.assertIn("unreadable", out.getvalue())


class Commitments(unittest.TestCase):
    def test_the_golden_vectors_hold(self):
        path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "commit2.txt")
        with open(path, encoding="utf-8", newline="\n") as file:
            lines = [line.rstrip("\n") for line in file if not line.startswith("#")]
        self.assertGreaterEqual(len(lines), 10)
        for line in lines:
            c, version, payload = line.split(" ", 2)
            salt, body = b"\x07" * 32, payload.encode()
            made = {"1": cl.commitment, "2": cl.member_commitment}[version](salt, body)
            self.assertEqual(made.hex(), c, payload)
            self.assertEqual(cl.member_commitment(salt, body) is None, version == "1", payload)

    def test_numbers_are_written_as_ecmascript_writes_them(self):
        cases = {1e21: "1e+21", 1e20: "100000000000000000000", 1e-7: "1e-7", 0.000001: "0.000001", -2.5: "-2.5", 0.0: "0",
                 123456789.125: "123456789.125", 5e-324: "5e-324", 1.7976931348623157e308: "1.7976931348623157e+308"}
        for value, text in cases.items():
            self.assertEqual(cl.number(value), text)


if __name__ == "__main__":
    unittest.main()
