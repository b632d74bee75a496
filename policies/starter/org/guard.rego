# What no agent reaches for through any server, whatever the other layers say: files that hold secrets,
# and the addresses at which machines tell who they are. The org layer is always enforced.
package wicketgate.org

import rego.v1

deny contains {
	"code": "protected_file",
	"message": "an argument names a file that holds secrets",
} if {
	some place in places
	some pattern in secret_files
	regex.match(pattern, place)
}

deny contains {
	"code": "repository_internals",
	"message": "an argument reaches into a `.git` directory",
} if {
	some place in places
	regex.match(`(?i)(^|[^a-z0-9_.-])(\.|%2e)git([/\\%\s"':;,]|$)`, place)
}

deny contains {
	"code": "metadata_address",
	"message": "an argument names an address at which a cloud machine gives out its credentials",
} if {
	some place in places
	regex.match(metadata, place)
}

deny contains {
	"code": "unchecked_argument",
	"message": "an argument is too long or too deeply nested to be checked for protected names",
} if {
	unchecked
}

secret_files := {
	# .env and its variants; .env.example and the like are not meant
	`(?i)(^|[^a-z0-9_.-])(\.|%2e)env(\.(local|dev|development|test|staging|prod|production))*($|[^a-z0-9_.-])`,
	# keys and what unlocks them
	`(?i)(^|[^a-z0-9_.-])(\.|%2e)(ssh|gnupg|aws|kube)([/\\%\s"':;,]|$)`,
	`(?i)(^|[^a-z0-9_.-])id_(rsa|dsa|ecdsa|ed25519)(_sk)?($|[^a-z0-9_.-])`,
	`(?i)(^|[^a-z0-9_.-])(\.|%2e|_)(netrc|npmrc|pypirc|pgpass|git-credentials|vault-token)($|[^a-z0-9_.-])`,
	`(?i)(\.|%2e)docker[/\\]config\.json`,
	# the machine's own
	`(?i)/etc/(shadow|gshadow|sudoers)|/proc/[a-z0-9]+/(environ|mem)`,
}

# The address of AWS, Azure, Google and others in its spellings; ECS tasks; Alibaba; Azure's wire server.
metadata := `(?i)169\.254\.169\.254|169\.254\.170\.2|metadata\.google\.internal|100\.100\.100\.200|168\.63\.129\.16|fd00:ec2::254|a9fe:a9fe|\b2852039166\b|0xa9fea9fe|0251\.0376\.0251\.0376`

# Every text among the arguments that can say where. Members that hold what is written are not looked
# into: a text about `.env` is not a way to it.
places contains text if {
	some level in [first, second, third, fourth]
	some field in level
	text := field[1]
	is_string(text)
	count(text) <= 65536
	suspicious(text)
}

# Most texts hold nothing of the kind; the patterns above are for the rest.
suspicious(text) if {
	some trace in traces
	contains(lower(text), trace)
}

traces := {
	".env", ".git", ".ssh", ".gnupg", ".aws", ".kube", ".docker", "%2e", "id_", "netrc", "npmrc", "pypirc", "pgpass",
	"vault-token", "/etc/", "/proc/", "169.254", "metadata.google", "100.100.100.200", "168.63.129.16", "fd00:ec2",
	"a9fe:a9fe", "2852039166", "0xa9fea9fe", "0251.0376",
}

unchecked if {
	some level in [first, second, third, fourth]
	some field in level
	is_string(field[1])
	count(field[1]) > 65536
}

unchecked if {
	some field in fourth
	is_object(field[1])
	count(field[1]) > 0
}

unchecked if {
	some field in fourth
	is_array(field[1])
	count(field[1]) > 0
}

first contains [name, value] if {
	some name, value in input.args
	not written(name)
}

second contains field if some field in inside(first)

third contains field if some field in inside(second)

fourth contains field if some field in inside(third)

# The members of objects under their names, the items of lists under the name of the list.
inside(level) := {[name, value] |
	some field in level
	is_object(field[1])
	some name, value in field[1]
	not written(name)
} | {[field[0], value] |
	some field in level
	is_array(field[1])
	some value in field[1]
}

written(name) if {
	lower(name) in {
		"body", "content", "contents", "description", "message", "new_str", "new_string", "newtext",
		"old_str", "old_string", "oldtext", "text", "thought",
	}
}
