# Five rules.
package wicketgate.agent

import rego.v1

allow if {
	input.agent.id == "bench-agent"
	input.tool.name in tools
	known_method
	early
}

deny contains {"code": "budget", "message": "the run asked too often"} if {
	input.run.calls > 1000000
}

known_method if input.effect.method in {"GET", "POST"}

early if startswith(input.effect.path, "/")

tools := {"small", "large", "orders.read", "orders.write"}
