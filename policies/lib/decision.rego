# How the layers of a bundle become one decision. Compiled into the gate; part of every bundle's digest.
#
# 1. A deny of any layer wins.
# 2. Then a require_approval of the team or agent layer. One of the org layer, and the one that every
#    T3 tool gets, turn an allow into a wait; they never make callable what no rule allows.
# 3. Then an allow of the team or agent layer. Otherwise: deny.
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

binding_holds contains worded("wicketgate.org.require_approval", item) if {
	permitted
	some item in data.wicketgate.org.require_approval
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

# What the model claims to be was not seen by anybody: nothing irreversible on its word.
denials contains {
	"code": "tier3_claimed",
	"message": "an irreversible tool needs a model that the gate itself observes",
	"rule": "wicketgate.decision",
} if {
	irreversible
	not observed
}

holds contains worded("wicketgate.team.require_approval", item) if {
	some item in data.wicketgate.team.require_approval
}

holds contains worded("wicketgate.agent.require_approval", item) if {
	some item in data.wicketgate.agent.require_approval
}

holds contains worded("wicketgate.org.require_approval", item) if {
	allowed
	some item in data.wicketgate.org.require_approval
}

holds contains {
	"code": "tier3",
	"message": "an irreversible tool waits for a person",
	"rule": "wicketgate.decision",
} if {
	allowed
	irreversible
}

duties contains item if some item in data.wicketgate.org.obligations

duties contains item if some item in data.wicketgate.team.obligations

duties contains item if some item in data.wicketgate.agent.obligations

observed if input.agent.binding == "observed"

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
