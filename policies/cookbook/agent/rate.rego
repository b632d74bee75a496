# A run sends at most five mails a minute and twenty an hour.
package wicketgate.agent

import rego.v1

obligations contains {"type": "rate_limit", "calls": 5, "seconds": 60} if input.tool.name == "mail.send"

obligations contains {"type": "rate_limit", "calls": 20, "seconds": 3600} if input.tool.name == "mail.send"
