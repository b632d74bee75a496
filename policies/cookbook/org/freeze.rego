# While a freeze of data/freeze.json lasts, nothing is written. No team and no agent can lift a rule of this layer.
package wicketgate.org

import rego.v1

deny contains {
	"code": "freeze",
	"message": sprintf("no writes until %s: %s", [window.until, window.why]),
} if {
	not input.tool.read_only == true
	some window in data.freeze.windows

	# Times of one form and one zone are in the order of their text.
	input.time.rfc3339 >= window.from
	input.time.rfc3339 < window.until
}
