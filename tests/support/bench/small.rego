package wicketgate.agent

import rego.v1

allow if input.agent.id == "bench-agent"
