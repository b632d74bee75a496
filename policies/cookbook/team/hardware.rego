# A rollout counts approvals of hardware keys and passkeys only: a key in a file can be copied.
package wicketgate.team

import rego.v1

require_approval contains {
	"code": "hardware_key",
	"message": "a rollout needs an approval with a hardware key or a passkey",
} if {
	input.tool.name == "deploy.rollout"
	not approved_by_hardware
}

# A layer that reads `input.approvals` counts for itself; the other layers are not changed by that.
approved_by_hardware if {
	some approval in input.approvals
	approval.key_kind in {"hardware", "passkey"}
}
