package wicketgate.agent_test

import rego.v1

import data.wicketgate.agent

test_what_reads_is_allowed if {
	agent.allow with input as {"tool": {"name": "fs.read", "read_only": true}}
}

test_what_was_reviewed_is_allowed if {
	call := {"tool": {"name": "fs.write", "read_only": false}}
	agent.allow with input as call with data.reviewed.tools as ["fs.write"]
	count(agent.deny) == 0 with input as call with data.reviewed.tools as ["fs.write"]
}

test_anything_else_is_denied if {
	call := {"tool": {"name": "fs.write", "read_only": false}}
	not agent.allow with input as call with data.reviewed.tools as []
	count(agent.deny) == 1 with input as call with data.reviewed.tools as []
}
