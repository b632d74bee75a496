# What a run has read decides what it may do: private data never leaves, and a run that has read untrusted
# content reads on and writes nothing.
package wicketgate.agent

import rego.v1

allow if input.tool.kind in {"fetch", "file.list", "file.read", "file.write", "http", "mcp", "sql"}

deny contains {
	"code": "flow.host",
	"message": sprintf("host `%s` is not under an allowed domain", [input.effect.host]),
} if {
	input.effect.kind == "http"
	not under_a_domain
}

deny contains {
	"code": "flow.private",
	"message": "the run has read private data, and this call leads outside",
} if {
	"private" in input.taint.labels
	input.taint.egress == "outside"
}

deny contains {
	"code": "flow.untrusted",
	"message": "the run has read untrusted content: it may read and not write",
} if {
	"untrusted" in input.taint.labels
	not input.tool.read_only
}

deny contains {
	"code": "flow.denials",
	"message": "ten calls of this run were denied: an operator has to look at it",
} if {
	input.history.denied >= 10
}

# What cannot be taken back has a budget: for one run and tool, in a day, over restarts too.
obligations contains {"type": "rate_limit", "calls": 20, "seconds": 86400} if {
	input.effect.kind == "file"
	input.effect.operation == "delete"
}

# No labels means that it is not known what the run has read.
deny contains {
	"code": "flow.unknown",
	"message": "it is not known what the run has read",
} if {
	not labelled
}

labelled if is_array(input.taint.labels)

# The host is parsed and lowercase. `evilexample.com` ends with `example.com`; the dot is what counts.
under_a_domain if input.effect.host in data.hosts.domains

under_a_domain if {
	some domain in data.hosts.domains
	endswith(input.effect.host, sprintf(".%s", [domain]))
}
