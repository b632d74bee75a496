# The tool `git.run` runs git with one of four subcommands, and with no flag but three.
package wicketgate.agent

import rego.v1

deny contains {
	"code": "program",
	"message": "only `git diff`, `log`, `show` and `status`, with --cached, --oneline and --stat",
} if {
	input.tool.name == "git.run"
	not git_reads
}

git_reads if {
	input.effect.argv[0] in {"diff", "log", "show", "status"}
	every argument in array.slice(input.effect.argv, 1, count(input.effect.argv)) {
		git_argument(argument)
	}
}

# Flags by name: `--output=FILE` writes a file, and `--ext-diff` starts another program.
git_argument(argument) if argument in {"--cached", "--oneline", "--stat"}

git_argument(argument) if not startswith(argument, "-")
