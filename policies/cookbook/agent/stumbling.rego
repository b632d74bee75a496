# An agent that was denied five times, or failed ten times, goes on only with a person.
package wicketgate.agent

import rego.v1

require_approval contains {
	"code": "stumbling",
	"message": sprintf("%d calls of this run were denied and %d failed", [input.history.denied, input.history.errors]),
} if {
	too_many
}

too_many if input.history.denied >= 5

too_many if input.history.errors >= 10
