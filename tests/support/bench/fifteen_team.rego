# Five rules.
package wicketgate.team

import rego.v1

deny contains {"code": "team", "message": "the agent is of another team"} if {
	input.agent.labels.team == "other"
}

deny contains {"code": "secret", "message": "the text names a secret"} if {
	regex.match(`(?i)password\s*=`, input.args.text)
}

deny contains {"code": "size", "message": "the text is too long"} if {
	count(input.args.text) > 100000
}

require_approval contains {"code": "amount", "message": "large amounts wait for a person"} if {
	input.args.amount > 1000
}

writer if input.tool.read_only == false
