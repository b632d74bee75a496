# The agent gets records on its own. It makes five an hour, and none with personal data in it.
package wicketgate.agent

import rego.v1

allow if input.tool.name in {"api.get", "api.post"}

obligations contains {"type": "rate_limit", "calls": 5, "seconds": 3600} if input.tool.name == "api.post"

deny contains {
	"code": "personal",
	"message": sprintf("the arguments hold personal data (%s at `%s`)", [finding.kind, finding.path]),
} if {
	input.tool.name == "api.post"
	some finding in input.findings
	finding["class"] == "personal"
}
