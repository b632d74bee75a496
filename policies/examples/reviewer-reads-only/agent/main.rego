# The code-review agent can read, not write.
package wicketgate.agent

import rego.v1

allow if {
	input.agent.id == "code-review-agent"
	input.tool.name in readers
	input.tool.read_only == true
}

deny contains {
	"code": "read_only_agent",
	"message": "the code-review agent reads; it does not write",
} if {
	not reading
}

reading if {
	input.tool.read_only == true
	not writes
}

writes if {
	input.effect.kind == "file"
	not read_access
}

writes if {
	input.effect.kind == "http"
	not read_method
}

# Rules of their own: `not … in …` would fail, and so deny nothing, where there is no `access`.
read_access if input.effect.access in {"read", "list"}

read_method if input.effect.method in {"GET", "HEAD"}

readers := {"repo.read_file", "repo.list_files", "repo.get_diff"}
