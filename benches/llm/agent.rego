# Five rules.
package wicketgate.agent

import rego.v1

allow if {
	input.agent.id == "bench-agent"
	input.tool.name in tools
	early
}

deny contains {"code": "budget", "message": "the run asked too often"} if {
	input.run.calls > 1000000
}

deny contains {"code": "answer", "message": "the answer may be too long"} if {
	input.effect.output_tokens_max > 1000000
}

early if input.run.calls >= 0

tools := {"llm.main", "small"}
