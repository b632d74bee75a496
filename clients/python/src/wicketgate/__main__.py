"""python -m wicketgate serve MODULE | describe MODULE [--for tools|manifest|mcp]"""

from __future__ import annotations

import argparse
import sys


def main(argv: list[str] | None = None) -> int:
    """Runs a command; its exit code."""
    parser = argparse.ArgumentParser(prog="wicketgate-sdk", description="Functions as tools behind a gate.")
    commands = parser.add_subparsers(dest="command", required=True)
    serve = commands.add_parser("serve", help="serve the functions of a module over MCP; the gate starts this")
    describe = commands.add_parser("describe", help="print what the files of a gate say of a module's functions")
    for command in (serve, describe):
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
    args = parser.parse_args(argv)
    try:
        if args.command == "serve":
            from .serve import serve as run

            return run(args.module, args.server)
        from .describe import describe as write

        sys.stdout.write(write(args.module, args.server, args.form, args.signer))
        return 0
    except (ImportError, LookupError, TypeError, ValueError) as why:
        print(f"wicketgate-sdk: error: {why}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
