#!/usr/bin/env python3
"""Prints who asked for each call of one run: the model and its instructions, as the gate saw them.

    asked.py BUNDLE

It reads `agent_run.json` of an evidence bundle and the inputs of the policy in it, so verify the bundle first. An
instruction is shown by the beginning of its SHA-256; `--long` shows all of it, as `spec.instructions` of a manifest has it.
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


def short(text, long):
    """The beginning of a digest, or of an id that ends in one."""
    at = text.find("-") + 1
    return text if long or len(text) < at + 32 else f"{text[: at + 8]}…"


def model_line(step, effect, long):
    instructions = [f"{one['place']} {short(one['sha256'], long)}" for one in effect.get("instructions") or []]
    print(f"model    {effect['model']}, call {short(step['call'], long)}")
    print(f"         its instructions: {', '.join(instructions) or 'none'}")


def main():
    bundle, long = pathlib.Path(sys.argv[1]), "--long" in sys.argv
    run, seen = json.loads((bundle / "agent_run.json").read_bytes()), inputs(bundle)
    for step in run["steps"]:
        verdict = VERDICTS[step["verdict"]]
        effect = (seen.get(step["call"]) or {}).get("effect") or {}
        if effect.get("kind") == "model" and verdict == "allowed":
            model_line(step, effect, long)
            continue
        arguments = (step.get("request") or {}).get("json")
        print(f"{verdict:8} {step['tool']} {json.dumps(arguments, ensure_ascii=False)}")
        if "proposed_by" in step:
            print(f"         the answer of call {short(step['proposed_by'], long)} asks for exactly this")
        elif effect.get("kind") != "model":
            print("         the gate saw no model of this manifest ask for it")
        if verdict != "allowed":
            print(f"         rule {step.get('rule')}; outcome {step['outcome']}")


if __name__ == "__main__":
    main()
