# Five rules.
package wicketgate.team

import rego.v1

deny contains {"code": "team", "message": "the agent is of another team"} if {
	input.agent.labels.team == "other"
}

deny contains {"code": "secret", "message": "a message names a secret"} if {
	some message in input.args.messages
	is_string(message.content)
	regex.match(`(?i)password\s*=`, message.content)
}

deny contains {"code": "size", "message": "the request is too long"} if {
	input.effect.body_bytes > 8000000
}

deny contains {"code": "images", "message": "no images for models"} if {
	input.effect.images > 0
}

require_approval contains {"code": "amount", "message": "large amounts wait for a person"} if {
	input.args.amount > 1000
}
