package wicketgate.agent_test

import rego.v1

import data.wicketgate.agent

call(name, read_only, effect) := {
	"agent": {"id": "code-review-agent"},
	"tool": {"name": name, "read_only": read_only},
	"effect": effect,
}

reading := {"kind": "file", "access": "read"}

writing := {"kind": "file", "access": "write"}

test_reading_a_file_is_allowed if {
	agent.allow with input as call("repo.read_file", true, reading)
	count(agent.deny) == 0 with input as call("repo.read_file", true, reading)
}

test_a_writing_tool_is_denied if {
	not agent.allow with input as call("repo.write_file", false, writing)
	count(agent.deny) == 1 with input as call("repo.write_file", false, writing)
}

test_a_tool_that_claims_to_read_and_writes_is_denied if {
	count(agent.deny) == 1 with input as call("repo.read_file", true, writing)
}

test_a_post_is_a_write if {
	count(agent.deny) == 1 with input as call("repo.get_diff", true, {"kind": "http", "method": "POST"})
}

test_another_agent_is_not_allowed if {
	other := object.union(call("repo.read_file", true, reading), {"agent": {"id": "other"}})
	not agent.allow with input as other
}
