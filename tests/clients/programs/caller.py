"""An agent that calls the functions of desk.py, which it imports as any module."""

import asyncio
import gc
import inspect
import json
import os
import types

import desk
import wicketgate
from wicketgate import Gate, ToolFailed
from wicketgate.functions import DECLARED


def bodies():
    """Whether anything in this process still has the body of a tool."""
    codes = [one for one in gc.get_objects() if isinstance(one, types.FunctionType)]
    return [one.__qualname__ for one in codes if one.__code__.co_filename == desk.__file__ and one.__module__ == "desk"]


def main():
    gc.collect()
    said = {"pid": os.getpid(), "bodies": bodies(), "kept": [one.name for one in DECLARED["desk"].values() if one.body]}
    # No variable turns the stub into the body.
    os.environ["WICKETGATE_SERVE"] = os.environ["WICKETGATE_SERVING"] = "1"
    with Gate.from_env().open() as run:
        said["result"] = desk.process("hello")
        said["count"] = asyncio.run(desk.count(desk.Letter("you", ["a b", "c"]), unit="words"))
        said["lines"] = asyncio.run(desk.count(letter=desk.Letter("you", ["a b", "c"]), unit="lines"))
        said["signature"] = str(inspect.signature(desk.count))
        try:
            said["fails"] = desk.fails("luck")
        except ToolFailed as why:
            said["fails"] = why.detail
        said["counts"] = run.info().counts.calls
    try:
        os.environ.pop("WICKETGATE_URL")
        desk.process("nowhere")
    except wicketgate.NotReached as why:
        said["without"] = why.code
    print(json.dumps(said))


main()
