{{/* Names and labels. */}}
{{- define "wicketgate.name" -}}
{{- printf "%s-%s" .Release.Name "wicketgate" | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "wicketgate.selector" -}}
app.kubernetes.io/name: wicketgate
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .part }}
{{- end -}}

{{/* Selects pods with gates, of every release: one hub serves all gates of its tenant. */}}
{{- define "wicketgate.gates" -}}
podSelector:
  matchLabels: {app.kubernetes.io/name: wicketgate}
  matchExpressions: [{key: app.kubernetes.io/component, operator: In, values: [agent, gate]}]
{{- end -}}

{{- define "wicketgate.labels" -}}
{{ include "wicketgate.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end -}}

{{- define "wicketgate.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}{{ .repository }}@{{ .digest }}{{- else -}}{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}{{- end -}}
{{- end -}}
{{- end -}}

{{/* Restricted Pod Security, in full; {uid, gid}. */}}
{{- define "wicketgate.podSecurity" -}}
runAsNonRoot: true
fsGroup: {{ .gid }}
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "wicketgate.containerSecurity" -}}
runAsNonRoot: true
runAsUser: {{ .uid }}
runAsGroup: {{ .gid }}
privileged: false
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{/* The files to mount below /etc/wicketgate: {root, part, files}. Keys of a ConfigMap cannot contain a slash, so each key is the hash of its path. */}}
{{- define "wicketgate.configMap" -}}
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ include "wicketgate.name" .root }}-{{ .part }}
  namespace: {{ .root.Release.Namespace }}
  labels: {{- include "wicketgate.labels" . | nindent 4 }}
data:
  {{- range $path, $text := .files }}
  {{ sha256sum $path }}: {{ $text | quote }}
  {{- end }}
{{- end -}}

{{/* The volumes of a gate or a hub: {root, part, of}. */}}
{{- define "wicketgate.volumes" -}}
- name: config
  configMap:
    name: {{ include "wicketgate.name" .root }}-{{ .part }}
    items:
      {{- range $path, $text := .of.files }}
      - {key: {{ sha256sum $path }}, path: {{ $path | quote }}}
      {{- end }}
- name: secrets
  projected:
    defaultMode: 0440
    sources:
      {{- range .of.secrets }}
      - secret: {{- toYaml . | nindent 10 }}
      {{- end }}
      {{- if .of.tlsSecret }}
      - secret:
          name: {{ .of.tlsSecret }}
          items: [{key: tls.crt, path: tls.crt}, {key: tls.key, path: tls.key}{{ if eq .part "gate" }}, {key: ca.crt, path: ca.crt}{{ end }}]
      {{- end }}
- name: state
{{- if .of.stateClaim }}
  persistentVolumeClaim: {claimName: {{ .of.stateClaim | quote }}}
{{- else }}
  emptyDir: {sizeLimit: {{ .of.stateSizeLimit }}}
{{- end }}
{{- end -}}

{{- define "wicketgate.mounts" -}}
- {name: config, mountPath: /etc/wicketgate, readOnly: true}
- {name: secrets, mountPath: /run/secrets/wicketgate, readOnly: true}
- {name: state, mountPath: /var/lib/wicketgate}
{{- end -}}

{{/* The paths and listeners of the pod. These variables override wicketgate.yaml. */}}
{{- define "wicketgate.env" -}}
- {name: WICKETGATE__STATE, value: /var/lib/wicketgate}
{{- if .of.tlsSecret }}
- {name: WICKETGATE__OPERATOR__LISTEN, value: "0.0.0.0:7301"}
- {name: WICKETGATE__OPERATOR__TLS__CERT, value: /run/secrets/wicketgate/tls.crt}
- {name: WICKETGATE__OPERATOR__TLS__KEY, value: /run/secrets/wicketgate/tls.key}
{{- end }}
{{- end -}}

{{/* Startup, liveness and readiness are different checks. The agent starts when the gate serves calls. If the database is down, pods
still start, and none restarts. */}}
{{- define "wicketgate.probes" -}}
{{- if eq .part "hub" }}
startupProbe:
  httpGet: {path: /startupz, port: 7301, scheme: HTTPS}
  periodSeconds: 1
  timeoutSeconds: 2
  failureThreshold: 60
livenessProbe:
  httpGet: {path: /livez, port: 7301, scheme: HTTPS}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
readinessProbe:
  httpGet: {path: /readyz, port: 7301, scheme: HTTPS}
  periodSeconds: 5
  timeoutSeconds: 5
  failureThreshold: 1
{{- else }}
# The probe uses a socket in the state directory. The agent could bind port 7301 while the gate restarts, but it cannot replace this socket.
startupProbe:
  exec: {command: [/wicketgate, control, health, --socket, /var/lib/wicketgate/operator.sock, --started]}
  periodSeconds: 1
  timeoutSeconds: 2
  failureThreshold: 60
livenessProbe:
  exec: {command: [/wicketgate, control, health, --socket, /var/lib/wicketgate/operator.sock, --live]}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
readinessProbe:
  exec: {command: [/wicketgate, control, health, --socket, /var/lib/wicketgate/operator.sock]}
  periodSeconds: 5
  timeoutSeconds: 5
  failureThreshold: 1
{{- end }}
{{- end -}}

{{/* The container of the gate, beside its agent or in a pod of its own: {root, part, of}. */}}
{{- define "wicketgate.gate" -}}
{{- $separate := eq .part "gate" -}}
image: {{ include "wicketgate.image" .root | quote }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
command: [/wicketgate]
args: [serve, --config, /etc/wicketgate/wicketgate.yaml{{ if .of.logJson }}, --json{{ end }}]
env:
  {{- include "wicketgate.env" . | nindent 2 }}
  {{- if $separate }}
  - {name: WICKETGATE__LISTEN__TCP, value: "0.0.0.0:7302"}
  - {name: WICKETGATE__LISTEN__TLS__CERT, value: /run/secrets/wicketgate/tls.crt}
  - {name: WICKETGATE__LISTEN__TLS__KEY, value: /run/secrets/wicketgate/tls.key}
  - {name: WICKETGATE__LISTEN__TLS__CLIENT_CA, value: /run/secrets/wicketgate/ca.crt}
  {{- else }}
  - {name: WICKETGATE__LISTEN__SOCKET, value: /run/wicketgate/agent.sock}
  {{- end }}
  {{- if .root.Values.kubernetesEnrolment.enabled }}
  - {name: WICKETGATE__ENROLMENT__TOKEN_FILE, value: /run/secrets/wicketgate-enrolment/token}
  - {name: WICKETGATE__LEDGER__POSTGRES__SLOTS, value: {{ printf "%s/%s-%s" .root.Release.Namespace (include "wicketgate.name" .root) .part | quote }}}
  {{- end }}
{{- if .of.tlsSecret }}
ports: [{name: operator, containerPort: 7301}{{ if $separate }}, {name: agents, containerPort: 7302}{{ end }}]
{{- end }}
securityContext: {{- include "wicketgate.containerSecurity" .of | nindent 2 }}
resources: {{- toYaml .of.resources | nindent 2 }}
{{- include "wicketgate.probes" . | nindent 0 }}
volumeMounts:
  {{- include "wicketgate.mounts" . | nindent 2 }}
  {{- if not $separate }}
  - {name: socket, mountPath: /run/wicketgate}
  {{- end }}
  {{- if .root.Values.kubernetesEnrolment.enabled }}
  - {name: enrolment, mountPath: /run/secrets/wicketgate-enrolment, readOnly: true}
  {{- end }}
{{- end -}}

{{/* The projected token with which a gate authenticates to the hub: {root}. */}}
{{- define "wicketgate.enrolment" -}}
{{- with .root.Values.kubernetesEnrolment }}
{{- if .enabled }}
# The token is valid only for the hub and mounted only in the gate. kubelet renews it before it expires.
- name: enrolment
  projected:
    defaultMode: 0440
    sources:
      - serviceAccountToken: {path: token, audience: {{ .audience | quote }}, expirationSeconds: 3600}
{{- end }}
{{- end }}
{{- end -}}

{{/* The host name at which agents reach a gate in a pod of its own. The gate's certificate must contain this name. */}}
{{- define "wicketgate.gateHost" -}}
{{ include "wicketgate.name" . }}-gate.{{ .Release.Namespace }}.svc
{{- end -}}

{{- define "wicketgate.scheduling" -}}
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* A separate service account for each part. Its token is not mounted: {root, part}. */}}
{{- define "wicketgate.account" -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ include "wicketgate.name" .root }}-{{ .part }}
  namespace: {{ .root.Release.Namespace }}
  labels: {{- include "wicketgate.labels" . | nindent 4 }}
automountServiceAccountToken: false
{{- end -}}
