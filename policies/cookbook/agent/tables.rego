# SQL touches listed relations only; it changes `orders` alone, and what deletes waits for a person.
package wicketgate.agent

import rego.v1

deny contains {
	"code": "table",
	"message": sprintf("`%s` is not a relation for this agent", [relation]),
} if {
	input.effect.kind == "sql"
	some relation in input.effect.relations
	not relation in {"main.customers", "main.orders"}
}

deny contains {
	"code": "table.write",
	"message": sprintf("this agent changes `main.orders`, not `%s`", [relation]),
} if {
	input.effect.kind == "sql"
	not input.effect.statement == "select"
	some relation in input.effect.relations
	relation != "main.orders"
}

deny contains {"code": "table.unknown", "message": "it is not known what the statement touches"} if {
	input.effect.kind == "sql"
	not relations_are_known
}

relations_are_known if is_array(input.effect.relations)

require_approval contains {"code": "table.delete", "message": "a DELETE or MERGE waits for a person"} if {
	input.effect.kind == "sql"
	not statement_keeps_rows
}

statement_keeps_rows if input.effect.statement in {"insert", "select", "update"}
