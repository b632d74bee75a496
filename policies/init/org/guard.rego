# What no team and no agent can lift.
package wicketgate.org

import rego.v1

deny contains {
	"code": "personal_data",
	"message": sprintf("the arguments hold personal data (%s)", [finding.kind]),
} if {
	some finding in input.findings
	finding.kind in data.tools.personal
}
