# What the support agent may do on its own. What it must not do is said in the files beside this one.
package wicketgate.agent

import rego.v1

allow if {
	input.tool.name in {"handbook.read", "invoices.of", "text.count"}
	input.tool.read_only == true
}
