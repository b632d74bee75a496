package wicketgate.agent

import rego.v1

# The writer reads and lists the repository, and writes below docs/.
allow if {
	input.effect.root == "repo"
	input.effect.access in {"read", "list"}
}

allow if {
	input.tool.name == "repo.write_file"
	input.agent.id == "docs-writer"
	startswith(input.effect.path, "docs/")
}

# Whoever undoes a run may put back whatever it wrote.
allow if {
	input.tool.name == "repo.write_file"
	input.agent.id == "undo"
}

deny contains {"code": "size", "message": "a write has at most 200,000 bytes"} if {
	input.effect.access == "write"
	input.effect.bytes > 200000
}

deny contains {"code": "delete", "message": "only a rollback deletes files"} if {
	input.effect.operation == "delete"
	input.agent.id != "undo"
}
