"""python -m wicketgate init MODULE | describe MODULE [--for tools|manifest|mcp] | serve MODULE"""

from __future__ import annotations

import argparse
import sys


def main(argv: list[str] | None = None) -> int:
    """Runs a command; its exit code."""
    parser = argparse.ArgumentParser(prog="wicketgate-sdk", description="Functions as tools behind a gate.")
    commands = parser.add_subparsers(dest="command", required=True)
    serve = commands.add_parser("serve", help="serve the functions of a module over MCP; the gate starts this")
    describe = commands.add_parser("describe", help="print what the files of a gate say of a module's functions")
    init = commands.add_parser("init", help="make a gate for the functions of a module, with `wicketgate init`")
    for command in (serve, describe, init):
        command.add_argument("module", help="the module, as `import` names it")
        command.add_argument("--server", help="which server's functions, if the module declares several")
    describe.add_argument(
        "--for",
        dest="form",
        choices=("tools", "manifest", "mcp"),
        default="tools",
        help="wicketgate.yaml (the default), agent.yaml, or `wicketgate init --from`",
    )
    describe.add_argument("--signer", default="KEYID", help="the key that signs the lock, for --for manifest")
    init.add_argument("--dir", default="gate", help="the directory to write; it must not exist (default: gate)")
    args, extra = parser.parse_known_args(argv)
    if extra and args.command != "init":
        parser.error(f"unrecognized arguments: {' '.join(extra)}")
    try:
        if args.command == "serve":
            from .serve import serve as run

            return run(args.module, args.server)
        if args.command == "init":
            from .init import init as make

            # What else is given is for `wicketgate init`.
            return make(args.module, args.server, args.dir, extra)
        from .describe import describe as write

        sys.stdout.write(write(args.module, args.server, args.form, args.signer))
        return 0
    except (ImportError, LookupError, TypeError, ValueError) as why:
        print(f"wicketgate-sdk: error: {why}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
