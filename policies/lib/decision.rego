# How the layers of a bundle become one decision. Compiled into the gate; part of every bundle's digest.
#
# 1. A deny of any layer wins.
# 2. Then a require_approval of the team or agent layer. One of the org layer, and the one that every
#    T3 tool gets, turn an allow into a wait; they never make callable what no rule allows.
# 3. Then an allow of the team or agent layer. Otherwise: deny.
#
# A require_approval stands until enough people have approved the call: `approvers` of its item, one if
# it has none, each with the `role` it names, if it names one. A layer whose rules look at
# `input.approvals` counts for itself (`input.quorum.by_hand`): what it still asks for still stands.
# Break-glass (`input.break_glass.open`) stands for everybody who would have to approve, and for nothing else.
#
# `decision` is what the layers say. `binding` is what of it holds while `input.observe` names layers in
# observe mode; the gate asks for it only then, and only when `decision` is no allow.
package wicketgate

import rego.v1

default decision := {
	"verdict": "deny",
	"reasons": [{
		"code": "no_allow",
		"message": "no rule allows this call",
		"rule": "wicketgate.decision",
	}],
	"obligations": [],
}

decision := {
	"verdict": "deny",
	"reasons": [r | some r in denials],
	"obligations": [],
} if {
	count(denials) > 0
} else := {
	"verdict": "require_approval",
	"reasons": [r | some r in holds],
	"obligations": [d | some d in duties],
} if {
	count(holds) > 0
} else := {
	"verdict": "allow",
	"reasons": [],
	"obligations": [d | some d in duties],
} if {
	allowed
}

# The same without the denials and holds of the layers that only observe; that none of their rules
# allows the call is no obstacle either. The org layer and the rules about T3 always bind.
default binding := {
	"verdict": "deny",
	"reasons": [{
		"code": "no_allow",
		"message": "no rule allows this call",
		"rule": "wicketgate.decision",
	}],
	"obligations": [],
}

binding := {
	"verdict": "deny",
	"reasons": [r | some r in binding_denials],
	"obligations": [],
} if {
	count(binding_denials) > 0
} else := {
	"verdict": "require_approval",
	"reasons": [r | some r in binding_holds],
	"obligations": [d | some d in binding_duties],
} if {
	count(binding_holds) > 0
} else := {
	"verdict": "allow",
	"reasons": [],
	"obligations": [d | some d in binding_duties],
} if {
	permitted
}

# Rules whose word is recorded and not enforced. No layer observes an irreversible call.
lenient contains rule if {
	reversible
	some layer in input.observe
	some rule in speaks[layer]
}

speaks := {
	"agent": {"wicketgate.agent.deny", "wicketgate.agent.require_approval"},
	"team": {"wicketgate.team.deny", "wicketgate.team.require_approval"},
}

permitted if allowed

permitted if count(lenient) > 0

binding_denials contains r if {
	some r in denials
	not r.rule in lenient
}

binding_holds contains r if {
	some r in holds
	not r.rule in lenient
}

binding_holds contains asked("org", item) if {
	permitted
	some item in data.wicketgate.org.require_approval
	not enough("org", item)
}

binding_duties contains item if some item in data.wicketgate.org.obligations

binding_duties contains item if {
	not "wicketgate.team.deny" in lenient
	some item in data.wicketgate.team.obligations
}

binding_duties contains item if {
	not "wicketgate.agent.deny" in lenient
	some item in data.wicketgate.agent.obligations
}

allowed if data.wicketgate.agent.allow == true

allowed if data.wicketgate.team.allow == true

denials contains worded("wicketgate.org.deny", item) if some item in data.wicketgate.org.deny

denials contains worded("wicketgate.team.deny", item) if some item in data.wicketgate.team.deny

denials contains worded("wicketgate.agent.deny", item) if some item in data.wicketgate.agent.deny

# Nothing irreversible with less known of the model than the manifest accepts (`spec.binding.tier3`).
denials contains {
	"code": "tier3_binding",
	"message": "an irreversible tool needs a binding that `spec.binding.tier3` of the manifest accepts",
	"rule": "wicketgate.decision",
} if {
	irreversible
	not bound
}

holds contains asked("team", item) if {
	some item in data.wicketgate.team.require_approval
	not enough("team", item)
}

holds contains asked("agent", item) if {
	some item in data.wicketgate.agent.require_approval
	not enough("agent", item)
}

holds contains asked("org", item) if {
	allowed
	some item in data.wicketgate.org.require_approval
	not enough("org", item)
}

holds contains {
	"code": "tier3",
	"message": "an irreversible tool waits for a person",
	"rule": "wicketgate.decision",
} if {
	allowed
	irreversible
	count(approvers("")) == 0
	not broken_glass
}

duties contains item if some item in data.wicketgate.org.obligations

duties contains item if some item in data.wicketgate.team.obligations

duties contains item if some item in data.wicketgate.agent.obligations

# A binding that is not known, or a demand that is not known, is never enough.
bound if ranks[input.agent.binding] >= ranks[demanded]

default demanded := "observed"

demanded := input.agent.tier3

ranks := {"unclaimed": 0, "claimed": 1, "observed": 2}

# A tier that is not known is the worst one.
irreversible if not reversible

reversible if input.tool.tier in {"T0", "T1", "T2"}

# Authors write a message, or a code with a message; anything else still counts, under its own code.
worded(rule, item) := {"code": "message", "message": item, "rule": rule} if {
	is_string(item)
} else := {"code": item.code, "message": item.message, "rule": rule} if {
	is_object(item)
	is_string(item.code)
	is_string(item.message)
	count(item) == 2
} else := {
	"code": "malformed",
	"message": "the rule gave neither a message nor an object of `code` and `message`",
	"rule": rule,
}

# Who approved, with this role if it is not empty: every person once.
approvers(role) := {a.approver |
	some a in object.get(input, "approvals", [])
	has_role(a, role)
}

has_role(_, role) if role == ""

has_role(approval, role) if {
	role != ""
	role in approval.roles
}

# Who does not say which layers count for themselves is told that all do.
by_hand := object.get(object.get(input, "quorum", {}), "by_hand", ["org", "team", "agent"])

enough(layer, item) if {
	not layer in by_hand
	quorum := needed(item)
	count(approvers(quorum.role)) >= quorum.approvers
}

enough(layer, item) if {
	not layer in by_hand
	broken_glass
	needed(item)
}

broken_glass if object.get(object.get(input, "break_glass", {}), "open", false) == true

# Undefined for an item that says it in another way: nobody can approve that.
needed(item) := {"approvers": 1, "role": ""} if is_string(item)

needed(item) := {"approvers": approvers, "role": role} if {
	well_formed(item)
	approvers := object.get(item, "approvers", 1)
	role := object.get(item, "role", "")
}

well_formed(item) if {
	is_object(item)
	is_string(item.code)
	is_string(item.message)
	object.keys(item) - {"code", "message", "approvers", "role"} == set()
	approvers := object.get(item, "approvers", 1)
	is_number(approvers)
	approvers == floor(approvers)
	approvers >= 1
	approvers <= 16
	is_string(object.get(item, "role", ""))
}

# What still stands, and how far it is where more than one person is needed.
asked(layer, item) := {
	"code": item.code,
	"message": sprintf("%s (%d of %d approvers%s)", [item.message, have, quorum.approvers, as_role(quorum.role)]),
	"rule": layered(layer),
} if {
	not layer in by_hand
	well_formed(item)
	quorum := needed(item)
	quorum != {"approvers": 1, "role": ""}
	have := count(approvers(quorum.role))
} else := {
	"code": item.code,
	"message": item.message,
	"rule": layered(layer),
} if {
	well_formed(item)
} else := worded(layered(layer), item)

as_role("") := ""

as_role(role) := sprintf(" as `%s`", [role]) if role != ""

layered(layer) := sprintf("wicketgate.%s.require_approval", [layer])
