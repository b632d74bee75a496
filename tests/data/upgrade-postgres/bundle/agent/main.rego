package wicketgate.agent
import rego.v1
allow if input.tool.name == "work.do"
