#!/usr/bin/env python3
"""Prints who asked for each call of one run: the model and its instructions, as the gate saw them.

    asked.py BUNDLE [--instructions]

It reads `agent_run.json` of an evidence bundle and the inputs of the policy in it, so verify the bundle first. An
instruction is shown by the beginning of its SHA-256. With `--instructions` it prints what `spec.instructions` of a manifest
has to list for exactly these texts.
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


def entries(seen):
    """Entries of `spec.instructions`, in the order of their appearance."""
    texts = [(one["place"], one["sha256"]) for value in seen for one in value["effect"].get("instructions") or []]
    return [f"    - {{scope: block, place: {place}, sha256: {sha256}}}" for place, sha256 in dict.fromkeys(texts)]


def model_call(step, effect, verdict):
    model = effect.get("model") or (step.get("request") or {}).get("json", {}).get("model")
    print(f"{'model' if verdict == 'allowed' else verdict:8} {model}, call {short(step['call'])}")
    instructions = [f"{one['place']} {short(one['sha256'])}" for one in effect.get("instructions") or []]
    if instructions:
        print(f"         its instructions: {', '.join(instructions)}")


def main():
    bundle = pathlib.Path(sys.argv[1])
    run, seen = json.loads((bundle / "agent_run.json").read_bytes()), inputs(bundle)
    if "--instructions" in sys.argv:
        in_order = [seen[step["call"]] for step in run["steps"] if step["call"] in seen]
        print("\n".join(entries(in_order)))
        return
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
