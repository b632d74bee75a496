"""The provider does what its script says: what no client of clients/ plays."""

import base64
import contextlib
import http.client
import json
import pathlib
import socket
import subprocess
import sys
import threading
import unittest

CHAT = {"model": "m", "messages": [{"role": "user", "content": "x"}], "stream": True}
MESSAGES = CHAT | {"max_tokens": 8}
PATHS = {"chat": "/v1/chat/completions", "responses": "/v1/responses", "messages": "/v1/messages"}


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        program = pathlib.Path(__file__).with_name("provider.py")
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        cls.process = subprocess.Popen([sys.executable, "-B", str(program)], **pipes)
        cls.port = json.loads(cls.process.stdout.readline())["port"]

    @classmethod
    def tearDownClass(cls):
        cls.process.stdin.close()
        assert cls.process.wait(10) == 0, "it does not end with its standard input"
        cls.process.stdout.close()

    def ask(self, method, path, value=None):
        """Status, headers and body; the body as far as it came, if it was cut."""
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)) as connection:
            connection.request(method, path, None if value is None else json.dumps(value))
            answer = connection.getresponse()
            try:
                body = answer.read()
            except http.client.IncompleteRead as cut:
                body = cut.partial
        return answer.status, answer.headers, body

    def kept(self):
        return json.loads(self.ask("GET", "/requests?least=1&done=1")[2])["requests"]

    def play(self, answer, request=CHAT, path=PATHS["chat"]):
        """What one answer of a script came to: (status, headers, body, what was kept)."""
        self.ask("POST", "/script", {"answers": [answer]})
        return *self.ask("POST", path, request), self.kept()[-1]

    def data(self, body):
        """The data of every event, in any framing."""
        lines = body.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n").split("\n\n")
        events = ["\n".join(line[6:] for line in event.split("\n") if line.startswith("data: ")) for event in lines]
        return [json.loads(event) for event in events if event and event != "[DONE]"]

    def text(self, body):
        choices = [choice for chunk in self.data(body) for choice in chunk["choices"]]
        return "".join(choice["delta"].get("content") or "" for choice in choices)

    def test_a_stream_is_the_same_in_every_framing(self):
        plain = {"text": "Hello, wörld 👩‍💻."}
        for wire in (
            {},
            {"newline": "crlf"},
            {"newline": "cr"},
            {"bom": True},
            {"comments": True},
            {"unknown_event": True},
            {"multiline": True},
            {"pieces": 1},
            {"newline": "crlf", "bom": True, "comments": True, "unknown_event": True, "multiline": True, "pieces": 3},
        ):
            _, _, body, kept = self.play(plain | {"wire": wire})
            self.assertEqual(self.text(body), plain["text"], wire)
            self.assertEqual((kept["ended"], kept["sent"]), ("whole", len(body)), wire)

    def test_a_stream_is_cut_at_the_frame_or_the_byte(self):
        whole = self.play({"text": "some text"})[2]
        for cut in ({"byte": 1}, {"byte": 300}, {"frame": 0}, {"frame": 2}):
            _, _, body, kept = self.play({"text": "some text", "wire": {"cut": cut}})
            self.assertTrue(whole.startswith(body) and body != whole, cut)
            self.assertEqual(kept["ended"], "cut")
            self.assertEqual(len(body), cut.get("byte", kept["sent"]))
            self.assertEqual(kept["frames"], cut.get("frame", kept["frames"]))
        with self.assertRaises(ConnectionResetError):
            self.play({"text": "some text", "wire": {"cut": {"byte": 300}, "reset": True}})

    def test_a_stream_without_its_end_ends_cleanly(self):
        for dialect, path in PATHS.items():
            _, _, body, kept = self.play({"text": "x", "wire": {"end": False}}, MESSAGES, path)
            for end in (b"[DONE]", b"message_stop", b"message_delta", b"response.completed", b'finish_reason":"'):
                self.assertNotIn(end, body, dialect)
            self.assertEqual(kept["ended"], "whole")

    def test_half_a_character_in_a_delta_is_an_escape(self):
        body = self.play({"deltas": ["\ud83d", "\ude00"]})[2]
        self.assertIn(b'"content":"\\ud83d"', body)
        self.assertEqual(self.play({"deltas": ["👩", "\u200d💻"]})[2].count("👩".encode()), 1)

    def test_a_client_that_leaves_is_noticed(self):
        for answer in ({"hang": True}, {"text": "some text", "wire": {"hang": 1}}):
            self.ask("POST", "/script", {"answers": [answer]})
            client = socket.create_connection(("127.0.0.1", self.port))
            body = json.dumps(CHAT).encode()
            client.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(body))
            client.sendall(body)
            self.ask("GET", "/requests?least=1")
            client.close()
            self.assertEqual(self.kept()[0]["ended"], "left", answer)

    def test_a_flood_sends_as_much_as_it_says(self):
        for how in ("deltas", "line", "body"):
            _, _, body, kept = self.play({"flood": 1 << 20, "as": how})
            self.assertGreaterEqual(len(body), 1 << 20)
            self.assertEqual(kept["sent"] // (1 << 20), 1, how)

    def test_what_is_no_answer_is_sent_as_it_is(self):
        status, headers, body, _ = self.play({"html": True})
        self.assertEqual((status, headers["content-type"], body[:9]), (200, "text/html", b"<!doctype"))
        status, headers, _, _ = self.play({"redirect": "http://127.0.0.1:1/"})
        self.assertEqual((status, headers["location"]), (307, "http://127.0.0.1:1/"))
        status, headers, body, _ = self.play({"status": 429, "headers": {"retry-after": 7}})
        self.assertEqual((status, headers["retry-after"]), (429, "7"))
        self.assertEqual(json.loads(body)["error"]["type"], "rate_limit_error")
        body = self.play({"raw": [["x", "no json"], [None, {"a": 1}]]})[2]
        self.assertEqual(body, b'event: x\ndata: no json\n\ndata: {"a":1}\n\n')

    def test_what_a_provider_runs_itself_is_a_block_of_the_answer(self):
        search = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "q"}}
        body = self.play({"blocks": [search], "text": "x"}, MESSAGES, PATHS["messages"])[2]
        self.assertIn(b'"type":"server_tool_use"', body)
        call = {"type": "web_search_call", "action": {"type": "search", "query": "q"}}
        body = self.play({"blocks": [call]}, CHAT, PATHS["responses"])[2]
        self.assertIn(b"event: response.web_search_call.completed", body)

    def test_rules_choose_by_what_the_request_holds(self):
        tool = {"role": "tool", "tool_call_id": "c", "content": "x"}
        rules = [
            {"when": {"last": "tool", "results": 1}, "answer": {"text": "one result"}},
            {"when": {"contains": "needle", "stream": False}, "times": 1, "answer": {"text": "found"}},
        ]
        self.ask("POST", "/script", {"rules": rules, "answers": [{"text": "next"}]})
        whole = CHAT | {"stream": False}

        def said(request):
            return json.loads(self.ask("POST", PATHS["chat"], request)[2])

        def text(request):
            return said(request)["choices"][0]["message"]["content"]

        self.assertEqual(text(whole | {"user": "needle"}), "found")
        self.assertEqual(text(whole | {"user": "needle"}), "next")
        self.assertEqual(text(whole | {"messages": [*CHAT["messages"], tool]}), "one result")
        self.assertEqual(said(whole)["error"]["code"], "script.exhausted")

    def test_requests_are_kept_byte_for_byte(self):
        self.ask("POST", "/script", {"answers": [{"text": "x"}]})
        raw = b'{"model" : "m",\n "messages":[],  "z":1, "a":1e2}'
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        connection.request("POST", "/any/prefix/v1/chat/completions?a=b", raw, {"X-Own": "Yes"})
        connection.getresponse().read()
        connection.close()
        kept = self.kept()[0]
        self.assertEqual(base64.b64decode(kept["body"]), raw)
        self.assertEqual(kept["path"], "/any/prefix/v1/chat/completions?a=b")
        self.assertIn(["X-Own", "Yes"], kept["headers"])

    def test_requests_at_a_time_are_answered_side_by_side(self):
        self.ask("POST", "/script", {"answers": [{"words": 4, "wire": {"gap_ms": 20}, "always": True}]})
        answers = []
        threads = [
            threading.Thread(target=lambda: answers.append(self.ask("POST", PATHS["chat"], CHAT)[0])) for _ in range(50)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(answers, [200] * 50)

    def test_it_is_a_proxy_to_nowhere(self):
        self.ask("POST", "/script", {})
        tunnel = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        tunnel.set_tunnel("example.com", 443)
        with self.assertRaises(OSError):
            tunnel.request("GET", "/")
        tunnel.close()
        self.assertEqual(self.ask("GET", "http://example.org/x")[0], 403)
        outside = json.loads(self.ask("GET", "/requests")[2])["outside"]
        self.assertEqual(outside, ["example.com:443", "example.org"])

    def test_counting_and_models_answer_by_themselves(self):
        self.ask("POST", "/script", {"models": ["a", "b"]})
        counted = json.loads(self.ask("POST", "/v1/messages/count_tokens", MESSAGES)[2])
        self.assertGreater(counted["input_tokens"], 0)
        listed = json.loads(self.ask("GET", "/v1/models")[2])
        self.assertEqual([model["id"] for model in listed["data"]], ["a", "b"])
        self.assertEqual(self.ask("GET", "/v1/models/c")[0], 404)


if __name__ == "__main__":
    unittest.main()
