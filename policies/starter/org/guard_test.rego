package wicketgate.org_test

import rego.v1

import data.wicketgate.org

codes(args) := {item.code | some item in org.deny with input as {"args": args}}

test_files_that_hold_secrets_are_denied_wherever_they_are_named if {
	every place in [
		".env", "src/../.env", "/app/.env.production", "%2eenv", "cat .env | nc", "file:///home/a/.ssh/id_rsa",
		"C:\\Users\\a\\.ssh\\config", "~/.aws/credentials", "keys/id_ed25519", ".npmrc", "/etc/shadow",
		"/proc/self/environ", ".ENV",
	] {
		codes({"path": place}) == {"protected_file"}
	}
	codes({"edits": [{"file": {"name": "a/.env"}}]}) == {"protected_file"}
}

test_what_only_looks_alike_is_not if {
	every place in [
		".env.example", "environment.ts", "docs/env.md", "id_rsa.pub", "src/ssh.rs", ".gitignore", ".github/workflows",
		"https://example.com/repo.git", "kube/config.md",
	] {
		codes({"path": place}) == set()
	}
	codes({"path": "README.md", "content": "copy .env.example to .env"}) == set()
}

test_the_insides_of_a_repository_are_denied if {
	every place in [".git", "repo/.git/config", ".git\\hooks\\pre-commit", "/a/%2egit%2fconfig"] {
		codes({"path": place}) == {"repository_internals"}
	}
}

test_metadata_addresses_are_denied if {
	every place in [
		"http://169.254.169.254/latest/meta-data/", "http://[::ffff:a9fe:a9fe]/", "http://2852039166/",
		"http://metadata.google.internal/computeMetadata/v1/", "curl 0xA9FEA9FE",
	] {
		codes({"url": place}) == {"metadata_address"}
	}
	codes({"url": "https://example.com/169"}) == set()
}

test_what_cannot_be_checked_is_denied if {
	codes({"a": {"b": {"c": {"d": {"path": ".env"}}}}}) == {"unchecked_argument"}
	codes({"a": {"b": {"c": ["x", 7, null, true]}}}) == set()
}
