#!/usr/bin/env python3
"""Prints who asked for each call of one run: the model and its instructions, as the gate saw them.

    asked.py BUNDLE

It reads `agent_run.json` of an evidence bundle and the inputs of the policy in it, so verify the bundle first. An
instruction is shown by its name in the manifest, or its place in the request, and the beginning of its SHA-256.
"""

import json
import pathlib
import sys

VERDICTS = {"allow": "allowed", "deny": "denied", "require_approval": "held"}


def inputs(bundle):
    """What the policy saw of each call, by the call's id."""
    index = json.loads((bundle / "payloads/index.json").read_bytes())
    files = [name for name, payload in index.items() if payload.get("role") == "policy_input"]
    seen = [json.loads((bundle / f"payloads/{name}.bin").read_bytes()) for name in files]
    return {one["call"]["id"]: one for one in seen}


def short(text):
    """The beginning of a digest, or of an id that begins with one."""
    at = text.find("-") + 1
    return text if len(text) < at + 32 else f"{text[: at + 8]}…"


def model_call(step, effect, verdict):
    model = effect.get("model") or (step.get("request") or {}).get("json", {}).get("model")
    print(f"{'model' if verdict == 'allowed' else verdict:8} {model}, call {short(step['call'])}")
    seen = effect.get("instructions") or []
    instructions = [f"{one.get('name') or one['place']} {short(one['sha256'])}" for one in seen]
    if instructions:
        print(f"         its instructions: {', '.join(instructions)}")


def main():
    bundle = pathlib.Path(sys.argv[1])
    run, seen = json.loads((bundle / "agent_run.json").read_bytes()), inputs(bundle)
    for step in run["steps"]:
        verdict = VERDICTS[step["verdict"]]
        effect = (seen.get(step["call"]) or {}).get("effect") or {}
        if "conversation" in step or effect.get("kind") == "model":
            model_call(step, effect, verdict)
        else:
            arguments = (step.get("request") or {}).get("json")
            print(f"{verdict:8} {step['tool']} {json.dumps(arguments, ensure_ascii=False)}")
            by = step.get("proposed_by")
            saw = f"the answer of call {short(by)} asks for exactly this" if by else "no observed model asked for it"
            print(f"         {saw}")
        if verdict != "allowed":
            print(f"         rule {step.get('rule')}; outcome {step['outcome']}")


if __name__ == "__main__":
    main()
