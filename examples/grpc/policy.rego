package wicketgate.agent
import rego.v1

allow if {
	input.effect.kind == "grpc"
	input.effect.service == "shop.v1.Orders"
	input.effect.method in {"GetOrder", "Refund"}
}

# 64-bit integers are texts, as protobuf writes them in JSON; 32-bit ones are numbers.
require_approval contains "a refund of more than 100.00" if {
	input.tool.name == "orders.refund"
	input.args.cents > 10000
}
