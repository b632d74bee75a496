# Personal data does not leave: no tool that reaches outside gets arguments in which the gate found some.
package wicketgate.agent

import rego.v1

deny contains {
	"code": "personal",
	"message": sprintf("the arguments hold personal data (%s at `%s`)", [finding.kind, finding.path]),
} if {
	input.taint.egress == "outside"
	some finding in input.findings
	finding["class"] == "personal"
}
