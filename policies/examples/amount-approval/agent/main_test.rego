package wicketgate.agent_test

import rego.v1

import data.wicketgate.agent

pay(amount, approvals) := {
	"tool": {"name": "payments.transfer"},
	"args": {"amount": amount},
	"approvals": approvals,
}

test_a_thousand_is_not_held if {
	count(agent.require_approval) == 0 with input as pay(1000, [])
}

test_more_is_held if {
	count(agent.require_approval) == 1 with input as pay(1000.5, [])
}

test_one_approver_twice_is_one_approver if {
	count(agent.require_approval) == 1 with input as pay(5000, [{"approver": "a"}, {"approver": "a"}])
}

test_two_approvers_are_enough if {
	count(agent.require_approval) == 0 with input as pay(5000, [{"approver": "a"}, {"approver": "b"}])
}

test_a_text_or_nothing_is_no_amount if {
	every amount in ["5", null, true, [5], {}] {
		count(agent.deny) == 1 with input as pay(amount, [])
	}
}

test_a_negative_amount_is_denied if {
	count(agent.deny) == 1 with input as pay(-5000, [])
}
