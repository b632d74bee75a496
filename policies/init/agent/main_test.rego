package wicketgate.agent_test

import rego.v1

import data.wicketgate.agent

call(name, args) := {"tool": {"name": name, "read_only": false}, "args": args}

tools := {"allowed": ["payments.refund"], "paying": ["payments.refund"], "amount_max": 100}

test_what_reads_is_allowed if {
	agent.allow with input as {"tool": {"name": "any", "read_only": true}, "args": {}} with data.tools as tools
}

test_a_named_tool_is_allowed if {
	agent.allow with input as call("payments.refund", {"amount": 5}) with data.tools as tools
}

test_another_tool_is_not_allowed if {
	not agent.allow with input as call("payments.transfer", {"amount": 5}) with data.tools as tools
}

test_a_large_amount_needs_somebody if {
	some item in agent.require_approval with input as call("payments.refund", {"amount": 101}) with data.tools as tools
	item.code == "amount"
}

test_an_amount_is_a_number if {
	every amount in ["5", null, true, [5], 0, -5] {
		count(agent.deny) == 1 with input as call("payments.refund", {"amount": amount}) with data.tools as tools
	}
}
