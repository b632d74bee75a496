# A refund over 100 needs one approver; one over 10,000 needs two of the treasury.
package wicketgate.agent

import rego.v1

require_approval contains {
	"code": "refund.amount",
	"message": "a refund over 100 needs an approver",
} if {
	input.tool.name == "payments.refund"
	is_number(input.args.amount)
	input.args.amount > 100
}

require_approval contains {
	"code": "refund.treasury",
	"message": "a refund over 10,000 needs two approvers of the treasury",
	"approvers": 2,
	"role": "treasury",
} if {
	input.tool.name == "payments.refund"
	is_number(input.args.amount)
	input.args.amount > 10000
}

# In Rego `"9" > 100` is true and `null > 100` is false: only a positive number is an amount.
deny contains {"code": "refund.no_amount", "message": "`amount` is not a positive number"} if {
	input.tool.name == "payments.refund"
	not amount_is_positive
}

amount_is_positive if {
	is_number(input.args.amount)
	input.args.amount > 0
}
