# Files are written below src/ and tests/ only, nothing is deleted, and hidden files are not touched at all.
package wicketgate.agent

import rego.v1

deny contains {
	"code": "path",
	"message": "the file is not below src/ or tests/",
} if {
	input.effect.kind == "file"
	not access_reads
	not path_is_writable
}

access_reads if input.effect.access in {"list", "read"}

deny contains {"code": "path.delete", "message": "this agent does not delete files"} if {
	input.effect.kind == "file"
	input.effect.operation == "delete"
}

deny contains {
	"code": "path.hidden",
	"message": sprintf("`%s` is hidden", [input.effect.path]),
} if {
	input.effect.kind == "file"
	some part in split(input.effect.path, "/")
	startswith(part, ".")
}

# The gate has resolved the path: it is relative to the root of the tool and has no `..` left.
path_is_writable if strings.any_prefix_match(input.effect.path, {"/src/", "/tests/", "src/", "tests/"})
