# A run that has read untrusted content (a web page, a mail) writes only after a person has looked.
package wicketgate.agent

import rego.v1

require_approval contains {
	"code": "flow",
	"message": "the run has read untrusted content: a write waits for a person",
} if {
	"untrusted" in input.taint.labels
	not input.tool.read_only == true
}

# Without labels nothing is known of what the run has read.
deny contains {"code": "flow.unknown", "message": "it is not known what the run has read"} if {
	not labels_are_known
}

labels_are_known if is_array(input.taint.labels)
