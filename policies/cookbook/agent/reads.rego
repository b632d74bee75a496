# What only reads runs. What may change something runs if its name is in data/tools.json.
package wicketgate.agent

import rego.v1

# `read_only` is the operator's word, in wicketgate.yaml.
allow if input.tool.read_only == true

allow if input.tool.name in data.tools.reviewed
