package wicketgate.org

import rego.v1

deny contains {"code": "errors", "message": "too many errors"} if input.history.errors > 50

deny contains {"code": "night", "message": "no writes at night"} if {
	input.tool.read_only == false
	input.time.hour > 24
}

deny contains {"code": "large", "message": "the text is too long"} if count(input.args.text) > 100000
