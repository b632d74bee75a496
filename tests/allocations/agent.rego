package wicketgate.agent

import rego.v1

allow if {
	input.tool.name in tools
	small
}

small if input.args.n >= 0

tools := {"t", "t2", "repeats"}
