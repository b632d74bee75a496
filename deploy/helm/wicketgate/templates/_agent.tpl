{{/* The pod of an agent, with its gate or with a doctor: {root, part, of, files}. */}}
{{- define "wicketgate.agentPod" -}}
{{- $root := .root -}}
{{- $agent := .root.Values.agent -}}
{{- $gate := .root.Values.gate -}}
{{- $separate := $gate.separate.enabled -}}
{{- $host := include "wicketgate.gateHost" .root -}}
{{- $security := dict "uid" $agent.uid "gid" $agent.uid "never" $gate.uid -}}
metadata:
  labels: {{- include "wicketgate.podLabels" . | nindent 4 }}
  {{- with .root.Values.podAnnotations }}
  annotations: {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  serviceAccountName: {{ include "wicketgate.name" .root }}-agent
  automountServiceAccountToken: false
  enableServiceLinks: false
  hostNetwork: false
  hostPID: false
  hostIPC: false
  shareProcessNamespace: false
  {{- if has $agent.kind (list "Job" "CronJob") }}
  restartPolicy: Never
  {{- end }}
  terminationGracePeriodSeconds: {{ $agent.terminationGraceSeconds }}
  securityContext: {{- include "wicketgate.podSecurity" ($separate | ternary (dict "gid" $agent.uid) $gate) | nindent 4 }}
  {{- with include "wicketgate.scheduling" .root }}
  {{- . | nindent 2 }}
  {{- end }}
  {{- if and $separate $gate.separate.clusterIP }}
  # The NetworkPolicy blocks DNS, so the gate's name needs an entry here.
  hostAliases: [{ip: {{ $gate.separate.clusterIP | quote }}, hostnames: [{{ $host }}]}]
  {{- end }}
  initContainers:
    {{- if $separate }}
    # Runs as the agent, in its network and with its certificate. It tries to bypass the gate, and reports the result to the gate.
    - name: doctor
      image: {{ include "wicketgate.image" .root | quote }}
      imagePullPolicy: {{ .root.Values.image.pullPolicy }}
      restartPolicy: Always
      command: [/wicketgate]
      args: [config, doctor, --gate, "https://{{ $host }}:7302", --ca, /run/secrets/wicketgate/ca.crt, --cert, /run/secrets/wicketgate/tls.crt, --cert-key, /run/secrets/wicketgate/tls.key, --every, "60"]
      securityContext: {{- include "wicketgate.containerSecurity" $security | nindent 8 }}
      resources: {requests: {cpu: 10m, memory: 32Mi}, limits: {cpu: 500m, memory: 128Mi}}
      volumeMounts: [{name: certificate, mountPath: /run/secrets/wicketgate, readOnly: true}]
    {{- else }}
    {{- with include "wicketgate.gateInit" $root }}
    {{- . | nindent 4 }}
    {{- end }}
    # A native sidecar: it starts before the agent, and Kubernetes signals it to end after the agent has ended. So no preStop is needed.
    - name: gate
      restartPolicy: Always
      {{- include "wicketgate.gate" . | nindent 6 }}
    {{- end }}
    {{- range $agent.initContainers }}
    - {{ include "wicketgate.guest" (merge (dict "container" . "mine" $agent.volumes "at" "agent.initContainers") $security) | nindent 6 | trim }}
    {{- end }}
  containers:
    - name: agent
      {{- include "wicketgate.agentContainer" (dict "root" $root "security" $security) | nindent 6 }}
    {{- range $agent.extraContainers }}
    - {{ include "wicketgate.guest" (merge (dict "container" . "mine" $agent.volumes "at" "agent.extraContainers") $security) | nindent 6 | trim }}
    {{- end }}
  volumes:
    {{- if $separate }}
    # The agent's certificate and key, and the authority of the gate's certificate.
    - name: certificate
      secret:
        secretName: {{ $agent.tlsSecret }}
        defaultMode: 0440
        items: [{key: tls.crt, path: tls.crt}, {key: tls.key, path: tls.key}, {key: ca.crt, path: ca.crt}]
    {{- else }}
    {{- include "wicketgate.volumes" . | nindent 4 }}
    {{- with include "wicketgate.enrolment" . }}
    {{- . | nindent 4 }}
    {{- end }}
    - name: socket
      emptyDir: {medium: Memory, sizeLimit: 1Mi}
    {{- end }}
    {{- $taken := list "config" "secrets" "state" "socket" "enrolment" "certificate" "tmp" "archive" }}
    {{- range $separate | ternary list $gate.volumes }}{{ $taken = append $taken .name }}{{ end }}
    {{- range $agent.volumes }}
    {{- if has .name $taken }}{{ fail (printf "agent.volumes: the pod has a volume `%s` of the gate's: choose another name" .name) }}{{ end }}
    - {{ toYaml . | nindent 6 | trim }}
    {{- end }}
    - name: tmp
      emptyDir: {sizeLimit: 1Gi}
{{- end -}}

{{/* What runs before the gate, as the gate: {root}. */}}
{{- define "wicketgate.gateInit" -}}
{{- $gate := .Values.gate -}}
{{- range $gate.initContainers }}
- {{ include "wicketgate.guest" (dict "container" . "mine" $gate.volumes "at" "gate.initContainers" "uid" $gate.uid "gid" $gate.gid "never" "") | nindent 2 | trim }}
{{- end }}
{{- end -}}

{{/* The agent: {root, security}. */}}
{{- define "wicketgate.agentContainer" -}}
{{- $agent := .root.Values.agent -}}
{{- $separate := .root.Values.gate.separate.enabled -}}
image: {{ $agent.image | quote }}
imagePullPolicy: {{ $agent.pullPolicy }}
{{- with $agent.command }}
command: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $agent.args }}
args: {{- toYaml . | nindent 2 }}
{{- end }}
env:
  {{- if $separate }}
  - {name: WICKETGATE_GATE, value: "https://{{ include "wicketgate.gateHost" .root }}:7302"}
  {{- else }}
  - {name: WICKETGATE_SOCKET, value: /run/wicketgate/agent.sock}
  {{- end }}
  {{- with $agent.env }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with $agent.envFrom }}
envFrom: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $agent.ports }}
ports: {{- toYaml . | nindent 2 }}
{{- end }}
securityContext: {{- include "wicketgate.containerSecurity" .security | nindent 2 }}
resources: {{- toYaml $agent.resources | nindent 2 }}
{{- range $probe := list "startupProbe" "livenessProbe" "readinessProbe" }}
{{- with get $agent $probe }}
{{ $probe }}: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
volumeMounts:
  {{- if $separate }}
  - {name: certificate, mountPath: /run/secrets/wicketgate, readOnly: true}
  {{- else }}
  # The agent can use the socket, but it can neither replace nor remove it.
  - {name: socket, mountPath: /run/wicketgate, readOnly: true}
  {{- end }}
  - {name: tmp, mountPath: /tmp}
  {{- $names := list }}
  {{- range $agent.volumes }}{{ $names = append $names .name }}{{ end }}
  {{- range $agent.volumeMounts }}
  {{- if not (has .name $names) }}{{ fail (printf "agent.volumeMounts: `%s` is no volume of `agent.volumes`: the agent cannot mount what is the gate's" .name) }}{{ end }}
  - {{ toYaml . | nindent 4 | trim }}
  {{- end }}
{{- end -}}
