package wicketgate.agent

import rego.v1

allow if input.tool.kind == "model"

allow if input.tool.name in {"handbook.list", "handbook.read"}

allow if {
	input.tool.name == "shop.ask"
	input.effect.statement == "select"
}

# The assistant answers about orders, not about people.
deny contains {"code": "people", "message": "the assistant does not read customers"} if {
	input.effect.kind == "sql"
	"customers" in input.effect.relations
}
