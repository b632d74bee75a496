# Requests to models: listed models, instructions of the manifest only, and no tool that the provider runs.
package wicketgate.agent

import rego.v1

deny contains {
	"code": "model",
	"message": "the model is not on the list",
} if {
	input.effect.kind == "model"
	not model_is_listed
}

model_is_listed if input.effect.model in data.models.allowed

deny contains {
	"code": "model.instructions",
	"message": sprintf("%d bytes of instructions are not of the manifest", [input.effect.loose_bytes]),
} if {
	input.effect.loose_bytes > 0
}

deny contains {
	"code": "model.hosted",
	"message": sprintf("tool `%s` would run at the provider, where no gate sees it", [offer.name]),
} if {
	some offer in input.effect.offered
	not offer.kind in {"client", "governed"}
}
