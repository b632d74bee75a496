package wicketgate.team

import rego.v1

deny contains {"code": "team", "message": "the agent is of another team"} if input.agent.labels.team == "other"

deny contains {"code": "budget", "message": "the run asked too often"} if input.run.calls > 1000000

deny contains {"code": "found", "message": "personal data"} if {
	some finding in input.findings
	finding.kind == "card"
}
