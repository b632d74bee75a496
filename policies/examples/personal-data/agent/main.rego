# Personal data in arguments is denied; in results it is masked.
package wicketgate.agent

import rego.v1

allow if input.tool.name in {"crm.search", "tickets.create"}

deny contains {
	"code": "personal_data",
	"message": sprintf("the arguments hold personal data (%s at `%s`)", [finding.kind, finding.path]),
} if {
	is_array(input.findings)
	some finding in input.findings
	finding.kind in kinds
}

deny contains {
	"code": "not_scanned",
	"message": sprintf("the arguments hold content that cannot be searched (at `%s`)", [finding.path]),
} if {
	is_array(input.findings)
	some finding in input.findings
	finding.kind == "unscanned"
}

# No list of findings means that the arguments were not searched.
deny contains {
	"code": "not_scanned",
	"message": "the arguments were not looked through for personal data",
} if {
	not looked_through
}

# A rule of its own: see the example `amount-approval`.
looked_through if is_array(input.findings)

obligations contains {"type": "redact", "kinds": kinds}

kinds := ["card", "email", "iban", "us_ssn"]
