package wicketgate.agent_test

import rego.v1

import data.wicketgate.agent

run(labels, more) := object.union(
	{
		"tool": {"name": "t", "read_only": true},
		"taint": {"labels": labels, "egress": "outside", "since": {"private": "c1", "untrusted": "c2"}},
		"history": {"denied": 0},
	},
	more,
)

budgets(operation) := {duty.calls |
	some duty in agent.obligations with input as run([], {"effect": {"kind": "file", "operation": operation}})
}

codes(document) := {item.code | some item in agent.deny with input as document}

test_a_run_that_has_read_nothing_may_read_and_write if {
	codes(run([], {})) == set()
	codes(run([], {"tool": {"name": "t", "read_only": false}})) == set()
}

test_private_data_never_leaves if {
	codes(run(["private"], {})) == {"flow.private"}
	codes(run(["private"], {"taint": {"egress": "inside"}})) == set()
}

test_untrusted_content_may_be_followed_by_reading_and_not_by_writing if {
	codes(run(["untrusted"], {})) == set()
	codes(run(["untrusted"], {"tool": {"name": "t", "read_only": false}})) == {"flow.untrusted"}
}

test_a_host_that_is_not_listed_is_denied if {
	codes(run([], {"effect": {"kind": "http", "host": "evilexample.com"}})) == {"flow.host"}
	codes(run([], {"effect": {"kind": "http", "host": "docs.example.com"}})) == set()
}

test_deletions_have_a_budget_and_other_writes_have_none if {
	budgets("delete") == {20}
	budgets("replace") == set()
}

test_what_is_not_known_is_denied if {
	codes({"tool": {"name": "t", "read_only": true}, "history": {"denied": 0}}) == {"flow.unknown"}
}
