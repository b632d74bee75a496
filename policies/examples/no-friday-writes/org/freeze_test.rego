package wicketgate.org_test

import rego.v1

import data.wicketgate.org

call(weekday, read_only) := {
	"tool": {"kind": "sql", "read_only": read_only},
	"time": {"weekday": weekday},
}

test_a_write_on_friday_is_denied if {
	some item in org.deny with input as call("friday", false)
	item.code == "friday_freeze"
}

test_a_read_on_friday_is_not_denied if {
	count(org.deny) == 0 with input as call("friday", true)
}

test_a_write_on_thursday_is_not_denied if {
	count(org.deny) == 0 with input as call("thursday", false)
}

test_what_is_not_known_to_read_is_a_write if {
	count(org.deny) == 1 with input as {"tool": {"kind": "sql"}, "time": {"weekday": "friday"}}
}
