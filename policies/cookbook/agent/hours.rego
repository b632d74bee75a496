# Outside office hours (Monday to Friday, 8 to 18 UTC) a write waits for a person.
package wicketgate.agent

import rego.v1

require_approval contains {
	"code": "hours",
	"message": sprintf("it is %s, %d o'clock UTC: a write waits for a person", [input.time.weekday, input.time.hour]),
} if {
	not input.tool.read_only == true
	not in_office_hours
}

in_office_hours if {
	not input.time.weekday in {"saturday", "sunday"}
	input.time.hour >= 8
	input.time.hour < 18
}
