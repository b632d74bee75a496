# An amount over 1,000 needs two approvers.
package wicketgate.agent

import rego.v1

allow if input.tool.name == "payments.transfer"

require_approval contains {
	"code": "amount",
	"message": sprintf("an amount over %d needs two approvers, %d so far", [limit, count(approvers)]),
} if {
	input.tool.name == "payments.transfer"
	is_number(input.args.amount)
	input.args.amount > limit
	count(approvers) < 2
}

# `null > 1000` is false and `"9" > 1000` is true: an amount that is no number is no amount.
deny contains {"code": "amount_type", "message": "`amount` is not a number"} if {
	input.tool.name == "payments.transfer"
	not amount_known
}

# A rule of its own: OPA calls no builtin over what is not there, and then there is nothing to negate.
amount_known if is_number(input.args.amount)

deny contains {"code": "amount_range", "message": "`amount` is not positive"} if {
	is_number(input.args.amount)
	input.args.amount <= 0
}

approvers contains approval.approver if some approval in input.approvals

limit := 1000
