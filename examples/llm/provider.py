#!/usr/bin/env python3
"""A provider of models to practise with: it answers by a script and needs no key.

    provider.py SCRIPT [--port N]

It serves the APIs of OpenAI (chat completions, responses) and Anthropic (messages) at http://127.0.0.1:7400/v1, that of
Google at http://127.0.0.1:7400/v1beta and that of Ollama at http://127.0.0.1:7400, until it is ended. It is the scripted provider of the tests; tests/agents/llm/provider.py describes scripts.
"""

import os
import pathlib
import subprocess
import sys

SCRIPTED = pathlib.Path(__file__).resolve().parents[2] / "tests/agents/llm/provider.py"


def main():
    script, *more = sys.argv[1:] or ["--help"]
    asked = [] if script == "--help" else ["--script", script, *(more or ["--port", "7400"])]
    # It ends with its standard input: with this process, however that ends.
    reader, _writer = os.pipe()
    command = [sys.executable, "-B", str(SCRIPTED), *(asked or [script])]
    raise SystemExit(subprocess.run(command, stdin=reader, check=False).returncode)


if __name__ == "__main__":
    main()
