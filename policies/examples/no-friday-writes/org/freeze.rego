# No database writes on Fridays. In the org layer: no agent or team can lift it.
package wicketgate.org

import rego.v1

deny contains {
	"code": "friday_freeze",
	"message": sprintf("no database writes on a %s (UTC)", [input.time.weekday]),
} if {
	input.tool.kind in data.freeze.kinds
	not reads_only
	input.time.weekday in data.freeze.weekdays
}

# Anything but a plain `true` is a write.
reads_only if input.tool.read_only == true
