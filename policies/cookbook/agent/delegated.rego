# A run that another run has started only reads.
package wicketgate.agent

import rego.v1

deny contains {
	"code": "delegated",
	"message": sprintf("this run acts for `%s`: it reads and does not write", [input.agent.delegation[0].id]),
} if {
	count(input.agent.delegation) > 0
	not input.tool.read_only == true
}
