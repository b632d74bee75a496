# An agent that opens a ticket says why: the reason is recorded and shown to approvers.
package wicketgate.agent

import rego.v1

obligations contains {"type": "justify"} if input.tool.name == "tickets.create"
