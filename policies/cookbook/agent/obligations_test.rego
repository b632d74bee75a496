package wicketgate.agent_test

import rego.v1

import data.wicketgate.agent

duties(name, tier) := found if {
	found := agent.obligations with input as {"tool": {"name": name, "tier": tier}}
}

small := {"type": "cap_bytes", "bytes": 65536}

test_answers_of_the_crm_are_masked_and_small if {
	duties("crm.search", "T0") == {small, {"type": "redact", "kinds": ["card", "email"]}}
}

test_mails_are_counted_by_the_minute_and_by_the_hour if {
	duties("mail.send", "T1") == {
		small,
		{"type": "rate_limit", "calls": 5, "seconds": 60},
		{"type": "rate_limit", "calls": 20, "seconds": 3600},
	}
}

test_a_ticket_needs_a_reason if {
	duties("tickets.create", "T1") == {small, {"type": "justify"}}
}

test_the_owner_hears_of_what_is_hard_to_undo if {
	duties("web.post", "T2") == {
		small,
		{"type": "notify", "to": "owner"},
		{"type": "enhanced_audit", "days": 400},
	}
}
