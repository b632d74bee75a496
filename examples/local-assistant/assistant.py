#!/usr/bin/env python3
"""An assistant on the openai library. The gate runs its tool loop: OPENAI_BASE_URL and OPENAI_API_KEY are all that it
takes from its environment, and it has no tools of its own.

    assistant.py INSTRUCTIONS QUESTION
"""

import pathlib
import sys

from openai import OpenAI


def main():
    instructions, question = pathlib.Path(sys.argv[1]).read_text(), sys.argv[2]
    messages = [{"role": "system", "content": instructions}, {"role": "user", "content": question}]
    answer = OpenAI().chat.completions.create(model="assistant", messages=messages)
    print("model  ", answer.choices[0].message.content)
    # The library keeps members that it does not know.
    trace = answer.model_extra["trace"]
    for used in trace["tools_used"]:
        print(f"{used['verdict']:7}", used["name"], used["code"] or used["status"])
    print("tables ", ", ".join(trace["tables_queried"]))
    print("entries", ", ".join(str(receipt["seq"]) for receipt in trace["receipts"]))


if __name__ == "__main__":
    main()
