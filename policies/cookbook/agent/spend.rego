# A run that has spent five US dollars waits for a person; at fifty it ends.
package wicketgate.agent

import rego.v1

# `cost` counts millionths of a US dollar, as far as the tools state what a call costs.
require_approval contains {
	"code": "spend",
	"message": sprintf("the run has spent %d micro-dollars", [input.run.cost]),
} if {
	input.run.cost >= 5 * 1000000
}

deny contains {"code": "spend.end", "message": "the run has spent 50 US dollars"} if {
	input.run.cost >= 50 * 1000000
}
