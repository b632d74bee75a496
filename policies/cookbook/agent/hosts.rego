# HTTP tools reach the domains of data/hosts.json, over https and on port 443.
package wicketgate.agent

import rego.v1

deny contains {
	"code": "host",
	"message": "the host is not under a domain of the list",
} if {
	input.effect.kind == "http"
	not host_is_listed
}

deny contains {"code": "host.clear", "message": "only https on port 443"} if {
	input.effect.kind == "http"
	not https_on_443
}

https_on_443 if {
	input.effect.scheme == "https"
	input.effect.port == 443
}

host_is_listed if input.effect.host in data.hosts.domains

# The host is parsed and lower case. `evilexample.com` ends with `example.com`: the dot makes the difference.
host_is_listed if {
	some domain in data.hosts.domains
	endswith(input.effect.host, sprintf(".%s", [domain]))
}
