# Only hosts under example.com, over https.
package wicketgate.team

import rego.v1

allow if {
	input.effect.kind == "http"
	input.effect.scheme == "https"
	under_a_domain
}

deny contains {
	"code": "host",
	"message": sprintf("host `%s` is not under an allowed domain", [input.effect.host]),
} if {
	input.effect.kind == "http"
	not under_a_domain
}

# The host is parsed and lowercase. `evilexample.com` ends with `example.com`; the dot is what counts.
under_a_domain if input.effect.host in data.hosts.domains

under_a_domain if {
	some domain in data.hosts.domains
	endswith(input.effect.host, sprintf(".%s", [domain]))
}
