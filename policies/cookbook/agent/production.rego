# In production a write waits for an engineer on call. A gate that does not say where it runs is in production.
package wicketgate.agent

import rego.v1

require_approval contains {
	"code": "production",
	"message": "a write in production waits for an engineer on call",
	"role": "on-call",
} if {
	not input.tool.read_only == true
	not elsewhere
}

# `attested` is from the gate's configuration. `claimed` is from the agent, and no rule should trust it.
elsewhere if input.context.attested.environment in {"development", "staging"}
