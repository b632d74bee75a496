{{/* A value as a literal of CEL, which wants the members of a list or map to be of one type: `dyn`. */}}
{{- define "wicketgate.cel" -}}
{{- if kindIs "map" . -}}
dyn({ {{- range $i, $key := keys . | sortAlpha }}{{ if $i }}, {{ end }}{{ toJson $key }}: {{ include "wicketgate.cel" (get $ $key) }}{{ end -}} })
{{- else if kindIs "slice" . -}}
dyn([ {{- range $i, $one := . }}{{ if $i }}, {{ end }}{{ include "wicketgate.cel" $one }}{{ end -}} ])
{{- else -}}
dyn({{ toJson . }})
{{- end -}}
{{- end -}}

{{/* Whether the container `i` is the agent's: those that the annotation names, or without one all `containers`: {at}. */}}
{{- define "wicketgate.mutation.named" -}}
({{ if eq .at "containers" }}variables.agents == "" || {{ end }}variables.agents.contains("," + variables.{{ .at }}[i].name + ","))
{{- end -}}

{{/* What the security contexts of these containers leave open. A container of the agent gets what the profile says, or the pod itself; every
other container the least that the backstop demands: {at, context}. */}}
{{- define "wicketgate.mutation.context" -}}
{{- $all := printf "variables.%s" .at -}}
{{- $named := include "wicketgate.mutation.named" . -}}
{{- $path := printf "\"/spec/%s/\" + string(i) + \"/securityContext\"" .at -}}
{{- $inPod := list "runAsUser" "runAsGroup" "runAsNonRoot" "seccompProfile" -}}
variables.numbers.filter(i, i < {{ $all }}.size() && !has({{ $all }}[i].securityContext)).map(i, JSONPatch{op: "add", path: {{ $path }}, value: dyn({})})
{{- range $key := keys .context | sortAlpha }}
{{- $value := include "wicketgate.cel" (get $.context $key) }}
{{- if has $key $inPod }}{{ $value = printf "has(object.spec.securityContext) && has(object.spec.securityContext.%s) ? dyn(object.spec.securityContext.%s) : %s" $key $key $value }}{{ end }} + variables.numbers.filter(i, i < {{ $all }}.size() && {{ $named }} && (!has({{ $all }}[i].securityContext) || !has({{ $all }}[i].securityContext.{{ $key }}))).map(i, JSONPatch{op: "add", path: {{ $path }} + "/{{ $key }}", value: {{ $value }}})
{{- end }} + variables.numbers.filter(i, i < {{ $all }}.size() && !{{ $named }} && (!has({{ $all }}[i].securityContext) || !has({{ $all }}[i].securityContext.allowPrivilegeEscalation))).map(i, JSONPatch{op: "add", path: {{ $path }} + "/allowPrivilegeEscalation", value: dyn(false)})
{{- ` + variables.numbers.filter(i, has(object.spec.securityContext) && has(object.spec.securityContext.runAsUser) && i < ` }}{{ $all }}.size() && !{{ $named }} && (!has({{ $all }}[i].securityContext) || !has({{ $all }}[i].securityContext.runAsUser))).map(i, JSONPatch{op: "add", path: {{ $path }} + "/runAsUser", value: dyn(object.spec.securityContext.runAsUser)})
{{- end -}}

{{/* The variables and mounts of the agent's containers in one of the lists; every mount of the token is gone: {at, agent}. */}}
{{- define "wicketgate.mutation.given" -}}
{{- $one := printf "variables.%s[i]" .at -}}
{{- $named := include "wicketgate.mutation.named" . -}}
variables.numbers.filter(i, i < variables.{{ .at }}.size() && {{ $named }}).map(i, JSONPatch{op: "add", path: "/spec/{{ .at }}/" + string(i) + "/env", value: (has({{ $one }}.env) ? {{ $one }}.env : []) + {{ include "wicketgate.cel" .agent.env }}.filter(ours, !has({{ $one }}.env) || !{{ $one }}.env.exists(theirs, theirs.name == ours.name))})
{{- ` + variables.numbers.filter(i, i < variables.` }}{{ .at }}.size() && (has({{ $one }}.volumeMounts) || {{ $named }})).map(i, JSONPatch{op: "add", path: "/spec/{{ .at }}/" + string(i) + "/volumeMounts", value: (has({{ $one }}.volumeMounts) ? {{ $one }}.volumeMounts.filter(m, !(m.name in variables.tokens)) : []) + ({{ $named }} ? {{ include "wicketgate.cel" .agent.volumeMounts }} : [])})
{{- end -}}

{{/* Each step changes another part of the pod: {profile, digest}. */}}
{{- define "wicketgate.mutation.inits" -}}
{{ include "wicketgate.mutation.given" (dict "at" "initContainers" "agent" .profile.agent) }} + {{ include "wicketgate.mutation.context" (dict "at" "initContainers" "context" .profile.agent.securityContext) }}
{{- end -}}

{{- define "wicketgate.mutation.containers" -}}
{{ include "wicketgate.mutation.given" (dict "at" "containers" "agent" .profile.agent) }} + {{ include "wicketgate.mutation.context" (dict "at" "containers" "context" .profile.agent.securityContext) }}
{{- end -}}

{{/* The gate, before every other container. */}}
{{- define "wicketgate.mutation.gate" -}}
has(object.spec.initContainers) ? [{{ range $i, $one := reverse .profile.pod.initContainers }}{{ if $i }}, {{ end }}JSONPatch{op: "add", path: "/spec/initContainers/0", value: {{ include "wicketgate.cel" $one }}}{{ end }}] : [JSONPatch{op: "add", path: "/spec/initContainers", value: {{ include "wicketgate.cel" .profile.pod.initContainers }}}]
{{- end -}}

{{- define "wicketgate.mutation.volumes" -}}
[JSONPatch{op: "add", path: "/spec/volumes", value: variables.volumes.filter(v, !(v.name in variables.tokens)) + [
{{- range $i, $one := .profile.pod.volumes }}{{ if $i }}, {{ end }}
{{- if eq .name $.profile.config.volume -}}
dyn({"name": dyn({{ toJson .name }}), "configMap": dyn({ {{- with .configMap.items }}"items": {{ include "wicketgate.cel" . }}, {{ end }}"name": dyn(object.metadata.annotations["wicketgate.dev/config"])})})
{{- else }}{{ include "wicketgate.cel" . }}{{ end }}
{{- end }}]}]
{{- end -}}

{{/* What the pod itself leaves open. What it shares with the host stays, and the backstop refuses it. */}}
{{- define "wicketgate.mutation.pod" -}}
{{- $pod := .profile.pod -}}
(has(object.spec.securityContext) ? {{ range $i, $key := keys $pod.securityContext | sortAlpha }}{{ if $i }} + {{ end }}(has(object.spec.securityContext.{{ $key }}) ? [] : [JSONPatch{op: "add", path: "/spec/securityContext/{{ $key }}", value: {{ include "wicketgate.cel" (get $pod.securityContext $key) }}}]){{ end }} : [JSONPatch{op: "add", path: "/spec/securityContext", value: {{ include "wicketgate.cel" $pod.securityContext }}}])
{{- range $key := list "automountServiceAccountToken" "enableServiceLinks" }} + [JSONPatch{op: "add", path: "/spec/{{ $key }}", value: {{ include "wicketgate.cel" (get $pod $key) }}}]
{{- end }}
{{- with $pod.terminationGracePeriodSeconds }} + (has(object.spec.terminationGracePeriodSeconds) && object.spec.terminationGracePeriodSeconds >= {{ . }} ? [] : [JSONPatch{op: "add", path: "/spec/terminationGracePeriodSeconds", value: dyn({{ . }})}])
{{- end }}
{{- end -}}

{{- define "wicketgate.mutation.marks" -}}
[JSONPatch{op: "add", path: "/metadata/annotations/wicketgate.dev~1profile-digest", value: {{ toJson .digest }}}{{ range $key, $value := .profile.labels }}, JSONPatch{op: "add", path: "/metadata/labels/{{ replace "/" "~1" $key }}", value: {{ toJson $value }}}{{ end }}]
{{- end -}}
