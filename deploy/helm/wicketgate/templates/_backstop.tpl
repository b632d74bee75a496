{{/* A container `c` that gets no rights of root. */}}
{{- define "wicketgate.backstop.plain" -}}
has(c.securityContext) && has(c.securityContext.allowPrivilegeEscalation) && !c.securityContext.allowPrivilegeEscalation && (!has(c.securityContext.privileged) || !c.securityContext.privileged) && (!has(c.securityContext.capabilities) || !has(c.securityContext.capabilities.add) || c.securityContext.capabilities.add.size() == 0)
{{- end -}}

{{/* A container `c` without the Secret of the source `s` in its variables. */}}
{{- define "wicketgate.backstop.bare" -}}
(!has(c.envFrom) || c.envFrom.all(e, !has(e.secretRef) || e.secretRef.name != s.secret.name)) && (!has(c.env) || c.env.all(e, !has(e.valueFrom) || !has(e.valueFrom.secretKeyRef) || e.valueFrom.secretKeyRef.name != s.secret.name))
{{- end -}}

{{/* A pod at its creation and its changes. */}}
{{- define "wicketgate.backstop.pods" -}}
# A pod that was there before the rules can still lose a finalizer or get a label.
matchConditions: [{name: changed, expression: "request.operation == 'CREATE' || object.spec != oldObject.spec"}]
variables:
  - {name: exempt, expression: "('exempt.' + object.metadata.namespace + '.' + (has(object.spec.serviceAccountName) ? object.spec.serviceAccountName : 'default')) in params.data"}
  - {name: uid, expression: "int(params.data.uid)"}
  - {name: inits, expression: "has(object.spec.initContainers) ? object.spec.initContainers : []"}
  - {name: volumes, expression: "has(object.spec.volumes) ? object.spec.volumes : []"}
  - {name: gates, expression: "variables.inits.filter(c, c.name == 'gate')"}
  # One container of the gate's own may copy programs before it.
  - {name: first, expression: "variables.inits.size() > 0 && variables.inits[0].name == 'gate'"}
  - {name: second, expression: "variables.inits.size() > 1 && variables.inits[1].name == 'gate'"}
  - {name: others, expression: "object.spec.containers + variables.inits.filter(c, c.name != 'gate')"}
  - {name: guests, expression: "variables.others.filter(c, !(variables.second && c.name == variables.inits[0].name))"}
  # What only the gate may have: its Secrets and its volume.
  - {name: secrets, expression: "variables.volumes.filter(v, v.name == 'secrets' && has(v.projected) && has(v.projected.sources))"}
  - {name: claims, expression: "variables.volumes.filter(v, v.name == 'state' && has(v.persistentVolumeClaim))"}
validations:
  - expression: "variables.exempt || (variables.gates.size() == 1 && (variables.first || variables.second) && has(variables.gates[0].restartPolicy) && variables.gates[0].restartPolicy == 'Always')"
    message: "the pod has no gate: its first init container is not a native sidecar named `gate`. Install the agent with the chart, or exempt its service account in `backstop.exempt`"
  - expression: "variables.exempt || !variables.second || !has(variables.inits[0].restartPolicy) || variables.inits[0].restartPolicy != 'Always'"
    message: "the container before the gate stays beside it: remove its `restartPolicy`"
  - expression: "variables.exempt || variables.gates.all(c, c.image == params.data.image && has(c.securityContext) && has(c.securityContext.runAsUser) && c.securityContext.runAsUser == variables.uid)"
    message: "the container `gate` has another image or user than the chart's: take `image` and `gate.uid` of the release"
  - expression: "variables.exempt || (variables.others.all(c, has(c.securityContext) && has(c.securityContext.runAsUser) && c.securityContext.runAsUser != 0) && variables.guests.all(c, c.securityContext.runAsUser != variables.uid))"
    message: "a container beside the gate names no user, root, or the user of the gate: set `securityContext.runAsUser` of each to another number"
  - expression: "variables.exempt || variables.others.all(c, {{ include "wicketgate.backstop.plain" . }})"
    message: "a container beside the gate is privileged, adds a capability, or can become another user: remove that, and set `allowPrivilegeEscalation: false`"
  - expression: "variables.exempt || ((!has(object.spec.hostNetwork) || !object.spec.hostNetwork) && (!has(object.spec.hostPID) || !object.spec.hostPID) && (!has(object.spec.hostIPC) || !object.spec.hostIPC) && (!has(object.spec.shareProcessNamespace) || !object.spec.shareProcessNamespace))"
    message: "the pod shares a namespace of the host, or its processes: remove hostNetwork, hostPID, hostIPC and shareProcessNamespace"
  - expression: "variables.exempt || variables.volumes.all(v, v.name == 'enrolment' || !has(v.projected) || !has(v.projected.sources) || v.projected.sources.all(s, !has(s.serviceAccountToken)))"
    message: "a volume has a token of the service account: set `automountServiceAccountToken: false`, and remove the volume"
  - expression: "variables.exempt || variables.others.all(c, !has(c.volumeMounts) || c.volumeMounts.all(m, !(m.name in ['config', 'secrets', 'state', 'enrolment']) && (m.name != 'socket' || (has(m.readOnly) && m.readOnly))))"
    message: "a container beside the gate mounts a volume of the gate, or its socket writable: remove the mount, or set `readOnly: true` on the socket"
  - expression: "variables.exempt || variables.volumes.all(v, !has(v.hostPath))"
    message: "a volume is a directory of the node, through which a container could reach the gate: remove the hostPath"
  - expression: "variables.exempt || variables.secrets.all(own, own.projected.sources.all(s, !has(s.secret) || variables.volumes.all(v, v.name == 'secrets' || ((!has(v.secret) || v.secret.secretName != s.secret.name) && (!has(v.projected) || !has(v.projected.sources) || v.projected.sources.all(t, !has(t.secret) || t.secret.name != s.secret.name))))))"
    message: "a volume beside the gate's has a Secret of the gate: give the agent another one"
  - expression: "variables.exempt || variables.secrets.all(own, own.projected.sources.all(s, !has(s.secret) || variables.others.all(c, {{ include "wicketgate.backstop.bare" . }})))"
    message: "a container beside the gate has a Secret of the gate in a variable: give it another one"
  - expression: "variables.exempt || variables.claims.all(own, variables.volumes.all(v, v.name == 'state' || !has(v.persistentVolumeClaim) || v.persistentVolumeClaim.claimName != own.persistentVolumeClaim.claimName))"
    message: "a volume beside the gate's is the claim of its ledger: give the agent another one"
{{- end -}}

{{/* A container that is added to a pod that runs. */}}
{{- define "wicketgate.backstop.ephemeral" -}}
variables:
  - {name: exempt, expression: "('exempt.' + object.metadata.namespace + '.' + (has(object.spec.serviceAccountName) ? object.spec.serviceAccountName : 'default')) in params.data"}
  - {name: added, expression: "has(object.spec.ephemeralContainers) ? object.spec.ephemeralContainers : []"}
  - {name: secrets, expression: "has(object.spec.volumes) ? object.spec.volumes.filter(v, v.name == 'secrets' && has(v.projected) && has(v.projected.sources)) : []"}
validations:
  - expression: "variables.exempt || variables.added.all(c, (!has(c.targetContainerName) || c.targetContainerName != 'gate') && has(c.securityContext) && has(c.securityContext.runAsUser) && c.securityContext.runAsUser != 0 && c.securityContext.runAsUser != int(params.data.uid))"
    message: "an ephemeral container sees the processes of the gate, or names no user, root or the gate's: set another `targetContainerName` and `securityContext.runAsUser`"
  - expression: "variables.exempt || variables.added.all(c, !has(c.volumeMounts) || c.volumeMounts.all(m, !(m.name in ['config', 'secrets', 'state', 'enrolment', 'socket'])))"
    message: "an ephemeral container mounts a volume of the gate: remove the mount"
  - expression: "variables.exempt || variables.added.all(c, {{ include "wicketgate.backstop.plain" . }})"
    message: "an ephemeral container is privileged, adds a capability, or can become another user: remove that, and set `allowPrivilegeEscalation: false`"
  - expression: "variables.exempt || variables.secrets.all(own, own.projected.sources.all(s, !has(s.secret) || variables.added.all(c, {{ include "wicketgate.backstop.bare" . }})))"
    message: "an ephemeral container has a Secret of the gate in a variable: remove it"
{{- end -}}

{{/* Who gets into a pod that runs. */}}
{{- define "wicketgate.backstop.debug" -}}
variables:
  - {name: debugger, expression: "has(request.userInfo.groups) && request.userInfo.groups.exists(g, g != '' && !g.contains(',') && params.data.debuggers.contains(',' + g + ','))"}
validations:
  - expression: "variables.debugger || request.subResource == 'portforward' || (has(object.container) && object.container != '' && object.container != 'gate')"
    message: "only groups of `backstop.debuggers` get into the container `gate`: name another container"
  - expression: "variables.debugger || request.subResource != 'portforward'"
    message: "only groups of `backstop.debuggers` forward a port of a pod with a gate: operators use the Service of the hub"
{{- end -}}

{{/* What a pod that runs says of its gate: a change would only lie about what it has. */}}
{{- define "wicketgate.backstop.marks" -}}
validations:
  {{- range $kind, $marks := dict "labels" (list "gate") "annotations" (list "config" "agents" "profile-digest") }}
  {{- range $marks }}
  {{- $at := printf "%s['wicketgate.dev/%s']" $kind . }}
  {{- $of := printf "(has(OBJECT.metadata.%s) && 'wicketgate.dev/%s' in OBJECT.metadata.%s ? OBJECT.metadata.%s : '')" $kind . $kind $at }}
  - expression: {{ printf "%s == %s" (replace "OBJECT" "object" $of) (replace "OBJECT" "oldObject" $of) | quote }}
    message: "metadata.{{ $kind }}: `wicketgate.dev/{{ . }}` of a pod that runs cannot change: delete the pod, and create another"
  {{- end }}
  {{- end }}
{{- end -}}
