package wicketgate.agent
import rego.v1

allow if input.tool.name == "books.order"
allow if {
	input.tool.name in {"books.ask", "notes.ask"}
	input.effect.statement == "select"
}

# Personal data is joined to nothing.
deny contains "customers are not read together with orders" if {
	input.effect.kind == "sql"
	"public.customers" in input.effect.relations
	"public.orders" in input.effect.relations
}

require_approval contains "an order is taken" if input.tool.name == "books.add"
