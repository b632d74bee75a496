# What the agent may use on its own: tools that only read, and reviewed tools. While this
# layer observes (bundle.json says until when), what it denies still runs and is recorded as such.
package wicketgate.agent

import rego.v1

# What only reads is the operator's word: `read_only` in wicketgate.yaml.
allow if input.tool.read_only == true

# Names of reviewed tools are in data/reviewed.json.
allow if input.tool.name in data.reviewed.tools

deny contains {
	"code": "not_reviewed",
	"message": "this tool may change something and has not been reviewed",
} if {
	not allow
}
