# Five rules.
package wicketgate.org

import rego.v1

deny contains {"code": "kind", "message": "only known kinds of tools"} if {
	not input.tool.kind in {"http", "model"}
}

deny contains {"code": "host", "message": "the host is not on the list"} if {
	some upstream in input.effect.upstreams
	not upstream.host in {"127.0.0.1", "api.example.com", "internal.example.com"}
}

deny contains {"code": "errors", "message": "too many errors in a row"} if {
	input.history.errors > 50
}

deny contains {"code": "personal", "message": "the text holds a card or an account"} if {
	some finding in input.findings
	finding.kind in {"card", "iban"}
}

deny contains {"code": "files", "message": "no files for models"} if {
	input.effect.files > 0
}
