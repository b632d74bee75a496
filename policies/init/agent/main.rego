# What the agents of this bundle may do. A call that no rule allows is denied; `deny` wins over everything.
package wicketgate.agent

import rego.v1

# Tools that only read: `read_only` is the operator's word, in wicketgate.yaml.
allow if input.tool.read_only == true

# Tools that may be used as they are: names in data/tools.json.
allow if input.tool.name in data.tools.allowed

# Amounts above the limit need an approver.
require_approval contains {
	"code": "amount",
	"message": sprintf("an amount over %d needs an approval", [data.tools.amount_max]),
} if {
	is_number(input.args.amount)
	input.args.amount > data.tools.amount_max
}

# An amount that is missing or no number is no amount: `"9" > 1000` is true and `null > 1000` is false.
deny contains {"code": "amount_type", "message": "`amount` is not a positive number"} if {
	input.tool.name in data.tools.paying
	not valid_amount
}

valid_amount if {
	is_number(input.args.amount)
	input.args.amount > 0
}
