# The agent asks the database, and card numbers are masked in what it gets.
package wicketgate.agent

import rego.v1

allow if {
	input.tool.name == "db.ask"
	input.effect.statement == "select"
}

obligations contains {"type": "redact", "kinds": ["card"]} if input.tool.name == "db.ask"
