# The agent reads files and writes new ones. What replaces a file waits for a person; hidden files are not touched.
package wicketgate.agent

import rego.v1

allow if input.tool.name in {"files.list", "files.read", "files.write"}

require_approval contains {"code": "replace", "message": "this replaces or deletes a file"} if {
	input.tool.name == "files.write"
	not is_new
}

is_new if input.effect.operation == "create"

deny contains {"code": "hidden", "message": "hidden files are not for agents"} if {
	some part in split(input.effect.path, "/")
	startswith(part, ".")
}
