"""Two engines for CEL that were written apart: cel-python, and @bufbuild/cel in Node. An expression counts if both say the same.

Neither is the API server's: they check no types before they evaluate, know no limit of cost and none of its own functions (`split`, `quantity`,
`lists.range`), and neither reads optional fields (`object.?x`). What they agree on is the language itself. Where they differ from each other,
`DIFFERENT` says how; our expressions keep away from that."""

import json
import os
import re
import shutil
import subprocess
import sys

import celpy
import celpy.adapter

from rendering import BIN

PACKAGES = BIN.parent / "cel"
NODE = f"{os.environ.get('WICKETGATE_TEST_MCP', '')}/python-1/bin/node"
# Neither engine knows the type in which a MutatingAdmissionPolicy answers: it becomes a map of the same members.
PATCH = re.compile(r'JSONPatch\{op: ("\w+"), path: (.*?), value: ')

# (expression, what cel-python says, what @bufbuild/cel says), of an object with n = 5; None is an error.
DIFFERENT = [
    # Numbers of two types: the language compares them by value.
    ("object.n == 5.0", None, True),
    ("object.n < 5.5", None, True),
    # The sum of two texts is no text of CEL any more, and has no methods: `string(…)` makes it one.
    ("('a' + 'b').contains('b')", None, True),
    ("string('a' + 'b').contains('b')", True, True),
    # Whole numbers are exact inside of both, and end where an int ends. What Node prints as JSON is exact up to 2^53.
    ("object.n / 2 == 2 && object.n % 2 == 1", True, True),
    ("9223372036854775807 + 1", None, None),
    ("9007199254740993 - 9007199254740992", 1, 1),
    # Functions of the API server, and of libraries that have to be asked for.
    ("'a b'.split(' ')", None, None),
    ("quantity('1Gi')", None, None),
    ("optional.of(1)", None, None),
]


def plainly(expression):
    """The same expression without types of the API server."""
    return PATCH.sub(r"{'op': dyn(\1), 'path': dyn(\2), 'value': ", expression)


def decoded(value):
    """A value of cel-python as JSON has it: its own encoder writes booleans inside of others as numbers, and errors as text."""
    if isinstance(value, celpy.CELEvalError):
        raise value
    if isinstance(value, dict):
        return {str(key): decoded(one) for key, one in value.items()}
    if isinstance(value, list):
        return [decoded(one) for one in value]
    for kind, to in ((celpy.celtypes.BoolType, bool), (int, int), (float, float)):
        if isinstance(value, kind) and not isinstance(value, bool):
            return to(value)
    return value if value is None or isinstance(value, bool) else str(value)


class Python:
    """cel-python."""

    def __init__(self):
        self.env, self.programs = celpy.Environment(), {}

    def program(self, expression):
        if expression not in self.programs:
            self.programs[expression] = self.env.program(self.env.compile(expression))
        return self.programs[expression]

    def answer(self, conditions, variables, expressions, given):
        given = {name: celpy.adapter.json_to_cel(value) for name, value in given.items()}
        if not all(self.program(one).evaluate(given) for one in conditions):
            return False, []
        found = celpy.celtypes.MapType()
        for name, expression in variables:
            found[celpy.celtypes.StringType(name)] = self.program(expression).evaluate({**given, "variables": found})
        values = []
        for expression in expressions:
            try:
                value = self.program(expression).evaluate({**given, "variables": found})
                values.append({"value": decoded(value)})
            except celpy.CELEvalError as error:
                values.append({"error": str(error)})
        return True, values


class Node:
    """@bufbuild/cel, in a process of its own for as long as the test lasts."""

    def __init__(self):
        node = NODE if os.path.exists(NODE) else shutil.which("node")
        script = os.path.join(os.path.dirname(__file__), "cel", "engine.js")
        self.process = subprocess.Popen([node, script, str(PACKAGES)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def answer(self, conditions, variables, expressions, given):
        asked = {"conditions": conditions, "variables": variables, "expressions": expressions, "given": given}
        self.process.stdin.write(json.dumps(asked) + "\n")
        self.process.stdin.flush()
        said = json.loads(self.process.stdout.readline())
        return said["matches"], said["values"]


class Both:
    """Asks both, and holds them to one answer."""

    def __init__(self):
        self.first, self.second, self.asked = Python(), Node(), 0

    def answer(self, conditions, variables, expressions, given):
        """Whether the conditions hold, and a value or an error for each expression."""
        words = conditions, [(name, plainly(one)) for name, one in variables], [plainly(one) for one in expressions]
        (matches, values), (also, others) = self.first.answer(*words, given), self.second.answer(*words, given)
        assert matches == also, f"{conditions}: {matches}, {also}: {given}"
        assert len(values) == len(others) == (len(expressions) if matches else 0), (values, others)
        for expression, value, other in zip(expressions, values, others):
            # Each has its own words for an error.
            assert value == other or ("error" in value and "error" in other), f"{expression}: {value}, {other}: {given}"
        self.asked += 1
        return matches, values


def differ():
    first, second = Python(), Node()
    for expression, *said in DIFFERENT:
        answers = [engine.answer([], [], [expression], {"object": {"n": 5}})[1][0].get("value") for engine in (first, second)]
        assert answers == said, f"{expression}: {answers}"
    print(f"{len(DIFFERENT)} expressions are answered as written here")


if __name__ == "__main__":
    {"differ": differ}[sys.argv[1]]()
