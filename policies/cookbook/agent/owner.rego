# The owner hears of every call that cannot be undone easily, and its payloads are kept for 400 days.
package wicketgate.agent

import rego.v1

obligations contains {"type": "notify", "to": "owner"} if input.tool.tier in {"T2", "T3"}

obligations contains {"type": "enhanced_audit", "days": 400} if input.tool.tier in {"T2", "T3"}
