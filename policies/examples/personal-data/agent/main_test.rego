package wicketgate.agent_test

import rego.v1

import data.wicketgate.agent

test_an_address_in_the_arguments_is_denied if {
	some item in agent.deny with input as {"findings": [{"kind": "email", "path": "/to"}]}
	item.code == "personal_data"
	contains(item.message, "email at `/to`")
}

test_a_finding_of_another_kind_is_not_denied if {
	count(agent.deny) == 0 with input as {"findings": [{"kind": "hostname", "path": "/to"}]}
}

test_what_nobody_could_look_through_is_denied if {
	some item in agent.deny with input as {"findings": [{"kind": "unscanned", "path": "/file"}]}
	item.code == "not_scanned"
	contains(item.message, "at `/file`")
}

test_results_are_masked if {
	{"type": "redact", "kinds": ["card", "email", "iban", "us_ssn"]} in agent.obligations
}
