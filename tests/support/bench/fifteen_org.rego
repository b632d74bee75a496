# Five rules.
package wicketgate.org

import rego.v1

deny contains {"code": "kind", "message": "only known kinds of tools"} if {
	not input.tool.kind in {"http", "file.read"}
}

deny contains {"code": "host", "message": "the host is not on the list"} if {
	input.effect.kind == "http"
	not input.effect.host in {"127.0.0.1", "api.example.com", "internal.example.com"}
}

deny contains {"code": "errors", "message": "too many errors in a row"} if {
	input.history.errors > 50
}

deny contains {"code": "night", "message": "no writes at night"} if {
	input.tool.read_only == false
	input.time.hour > 24
}

obligations contains {"type": "cap_bytes", "bytes": 1048576} if {
	input.effect.kind == "http"
	input.effect.method == "POST"
}
