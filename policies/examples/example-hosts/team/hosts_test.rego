package wicketgate.team_test

import rego.v1

import data.wicketgate.team

to(host) := {"effect": {"kind": "http", "scheme": "https", "host": host}}

test_the_domain_and_what_is_under_it_is_allowed if {
	every host in ["example.com", "api.example.com", "a.b.example.com"] {
		team.allow with input as to(host)
		count(team.deny) == 0 with input as to(host)
	}
}

test_what_only_looks_like_it_is_denied if {
	every host in ["evilexample.com", "example.com.evil.net", "example.org", "", "10.0.0.1"] {
		not team.allow with input as to(host)
		count(team.deny) == 1 with input as to(host)
	}
}

test_plain_http_is_not_allowed if {
	not team.allow with input as {"effect": {"kind": "http", "scheme": "http", "host": "example.com"}}
}
