package wicketgate.org_test

import rego.v1

import data.wicketgate.org

found(kind) := {"findings": [{"kind": kind, "path": "/text"}]}

test_a_card_number_is_denied if {
	some item in org.deny with input as found("card") with data.tools.personal as ["card"]
	item.code == "personal_data"
}

test_another_finding_is_not if {
	count(org.deny) == 0 with input as found("email") with data.tools.personal as ["card"]
}
