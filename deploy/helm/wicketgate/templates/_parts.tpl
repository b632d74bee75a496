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

{{- define "wicketgate.podLabels" -}}
{{ include "wicketgate.labels" . }}
{{- with .root.Values.podLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "wicketgate.image" -}}
{{- with .Values.image -}}
{{- if not .repository }}{{ fail "image.repository: name the registry and repository to which you pushed the image" }}{{ end -}}
{{- if .digest -}}{{ .repository }}@{{ .digest }}{{- else -}}{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}{{- end -}}
{{- end -}}
{{- end -}}

{{/* Restricted Pod Security, in full; {uid, gid}. */}}
{{- define "wicketgate.podSecurity" -}}
runAsNonRoot: true
fsGroup: {{ int64 .gid }}
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "wicketgate.containerSecurity" -}}
runAsNonRoot: true
runAsUser: {{ int64 .uid }}
runAsGroup: {{ int64 .gid }}
privileged: false
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{/* The key of a path in a ConfigMap, which cannot contain a slash. */}}
{{- define "wicketgate.key" -}}
{{- replace "/" "--" . -}}
{{- end -}}

{{/* The files to mount below /etc/wicketgate: {root, part, files}. */}}
{{- define "wicketgate.configMap" -}}
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ include "wicketgate.name" .root }}-{{ .part }}
  namespace: {{ .root.Release.Namespace }}
  labels: {{- include "wicketgate.labels" . | nindent 4 }}
data:
  {{- $keys := dict }}
  {{- range $path, $text := .files }}
  {{- $key := include "wicketgate.key" $path }}
  {{- if hasKey $keys $key }}{{ fail (printf "%s.files: `%s` and `%s` have one key: rename one" $.part $path (get $keys $key)) }}{{ end }}
  {{- if contains "PRIVATE KEY-----" $text }}{{ fail (printf "%s.files: `%s` is a private key, and everybody who may read ConfigMaps could read it: put it into a Secret, and name that in `%s.secrets`" $.part $path $.part) }}{{ end }}
  {{- $_ := set $keys $key $path }}
  {{ $key }}: {{ $text | quote }}
  {{- end }}
{{- end -}}

{{/* Whether the values name a signed archive: {of}. */}}
{{- define "wicketgate.hasArchive" -}}
{{- with .of.archive }}{{ or (ne (default "" .text) "") (not (empty .volume)) }}{{ end -}}
{{- end -}}

{{/* The files of the gate or the hub: those of the values, and with an archive its trusted key and what the values hold of it: {part, of}. */}}
{{- define "wicketgate.files" -}}
{{- $files := deepCopy .of.files -}}
{{- if eq (include "wicketgate.hasArchive" .) "true" -}}
{{- $archive := .of.archive -}}
{{- $config := ternary "hub.yaml" "wicketgate.yaml" (eq .part "hub") -}}
{{- $own := printf "%s.archive" .part -}}
{{- if hasKey $files $config }}{{ fail (printf "%s.files: `%s` is in `%s`: remove it here" .part $config $own) }}{{ end -}}
{{- if and $archive.text $archive.volume }}{{ fail (printf "%s: `text` and `volume` exclude each other" $own) }}{{ end -}}
{{- if not $archive.publicKey }}{{ fail (printf "%s.publicKey: name the key that verifies the archive: `--set-file %s.publicKey=archive.pem.pub`" $own $own) }}{{ end -}}
{{- range list "archive.pub" $own -}}
{{- if hasKey $files . }}{{ fail (printf "%s.files: `%s` is a file of the chart's with `%s`: choose another name" $.part . $own) }}{{ end -}}
{{- end -}}
{{- $_ := set $files "archive.pub" $archive.publicKey -}}
{{- if $archive.text }}{{ $_ := set $files $own $archive.text }}{{ end -}}
{{- end -}}
{{- toJson $files -}}
{{- end -}}

{{/* What the command reads its configuration from: {part, of}. */}}
{{- define "wicketgate.archiveArgs" -}}
{{- $file := printf "/etc/wicketgate/%s.archive" (ternary "hub" "gate" (eq .part "hub")) -}}
--config-archive, {{ empty .of.archive.volume | ternary $file (printf "/etc/wicketgate-archive/%s" .of.archive.path) | quote }}, --archive-key, /etc/wicketgate/archive.pub
{{- end -}}

{{/* The volumes of a gate or a hub: {root, part, of}. */}}
{{- define "wicketgate.volumes" -}}
- name: config
  configMap:
    name: {{ include "wicketgate.name" .root }}-{{ .part }}
    items:
      {{- range $path, $text := .of.files }}
      - {key: {{ include "wicketgate.key" $path }}, path: {{ $path | quote }}}
      {{- end }}
{{- $paths := dict }}
{{- range .of.secrets }}
{{- range .items }}
{{- if hasKey $paths .path }}{{ fail (printf "%s.secrets: two items have the path `%s`" $.part .path) }}{{ end }}
{{- $_ := set $paths .path true }}
{{- end }}
{{- end }}
{{- $own := list "tls.crt" "tls.key" "client-ca.crt" }}
{{- range ternary $own list (ne "" (default "" .of.tlsSecret)) }}
{{- if hasKey $paths . }}{{ fail (printf "%s.secrets: the path `%s` is that of `%s.tlsSecret`: choose another" $.part . $.part) }}{{ end }}
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
          items: [{key: tls.crt, path: tls.crt}, {key: tls.key, path: tls.key}{{ if eq .part "gate" }}, {key: ca.crt, path: client-ca.crt}{{ end }}]
      {{- end }}
{{- $volume := .root.Values.ledger.persistence }}
{{- $kept := and $volume.enabled (ne .part "hub") }}
{{- if not (and $kept (eq (include "wicketgate.eachItsVolume" .root) "true")) }}
- name: state
{{- if $kept }}
  persistentVolumeClaim: {claimName: {{ $volume.existingClaim | default (printf "%s-ledger" (include "wicketgate.name" .root)) | quote }}}
{{- else }}
  emptyDir: {sizeLimit: {{ .of.stateSizeLimit }}}
{{- end }}
{{- end }}
{{- with .of.archive }}
{{- with .volume }}
- name: archive
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- $reserved := list "config" "secrets" "state" "socket" "enrolment" "certificate" "kubernetes" "tmp" "archive" }}
{{- range .of.volumes }}
{{- if has .name $reserved }}{{ fail (printf "%s.volumes: the chart has a volume `%s`: choose another name" $.part .name) }}{{ end }}
- {{ toYaml . | nindent 2 | trim }}
{{- end }}
{{- end -}}

{{/* Whether each replica has a volume of its own. */}}
{{- define "wicketgate.eachItsVolume" -}}
{{- and (eq .Values.agent.kind "StatefulSet") (not .Values.gate.separate.enabled) (not .Values.ledger.persistence.existingClaim) -}}
{{- end -}}

{{/* What a claim for the ledger asks for. */}}
{{- define "wicketgate.claim" -}}
accessModes: {{ toJson .accessModes }}
{{- with .storageClass }}
storageClassName: {{ . | quote }}
{{- end }}
resources: {requests: {storage: {{ .size }}}}
{{- end -}}

{{/* Refuses an installation whose ledger would be lost by surprise, and volumes that replicas cannot share. */}}
{{- define "wicketgate.ledger" -}}
{{- $volume := .Values.ledger.persistence -}}
{{- $config := index .Values.gate.files "wicketgate.yaml" | default "" | fromYaml -}}
{{- $postgres := or (dig "ledger" "postgres" false $config) .Values.kubernetesEnrolment.enabled .Values.ledger.postgres -}}
{{- range .Values.gate.env }}{{- if hasPrefix "WICKETGATE__LEDGER__POSTGRES__" .name }}{{- $postgres = true }}{{- end }}{{- end -}}
{{- if not (or $volume.enabled .Values.ledger.ephemeral $postgres) -}}
{{- fail "ledger: choose where the ledger is kept: `--set ledger.persistence.enabled=true` (a volume), `ledger.postgres` in wicketgate.yaml, or `--set ledger.ephemeral=true` (for trials: it is lost with the pod)" -}}
{{- end -}}
{{- if and $volume.enabled .Values.ledger.ephemeral }}{{ fail "ledger: `persistence.enabled` and `ephemeral` exclude each other" }}{{ end -}}
{{- $shared := and $volume.enabled (ne (include "wicketgate.eachItsVolume" .) "true") (not .Values.gate.separate.enabled) -}}
{{- if and $shared (has .Values.agent.kind (list "Deployment" "StatefulSet")) (gt (int .Values.agent.replicas) 1) -}}
{{- fail "agent.replicas: replicas cannot share the volume of one ledger: use `agent.kind: StatefulSet` without `existingClaim`, or Postgres" -}}
{{- end -}}
{{- end -}}

{{/* A container of the owner's, restricted as one of the chart's if it says nothing: {container, uid, gid, mine, at}. It mounts only volumes of the owner's. */}}
{{- define "wicketgate.guest" -}}
{{- $names := list "tmp" -}}
{{- range .mine }}{{- $names = append $names .name }}{{- end -}}
{{- range .container.volumeMounts -}}
{{- if not (has .name $names) }}{{ fail (printf "%s: `%s` mounts the volume `%s`: only volumes that the values name beside it can be mounted" $.at $.container.name .name) }}{{ end -}}
{{- end -}}
{{- $context := include "wicketgate.containerSecurity" . | fromYaml -}}
{{- if and .never (eq (toString (dig "securityContext" "runAsUser" "" .container)) (toString .never)) }}{{ fail (printf "%s: `%s` must not be the user that the gate is" .at .container.name) }}{{ end -}}
{{- merge (deepCopy .container) (dict "securityContext" $context "imagePullPolicy" "IfNotPresent") | toYaml -}}
{{- end -}}

{{- define "wicketgate.mounts" -}}
- {name: config, mountPath: /etc/wicketgate, readOnly: true}
- {name: secrets, mountPath: /run/secrets/wicketgate, readOnly: true}
- {name: state, mountPath: /var/lib/wicketgate}
{{- with .of.archive }}
{{- if .volume }}
- {name: archive, mountPath: /etc/wicketgate-archive, readOnly: true}
{{- end }}
{{- end }}
{{- with .of.volumeMounts }}
{{ toYaml . }}
{{- end }}
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
{{- if eq (include "wicketgate.hasArchive" .) "true" }}
args: [serve, {{ include "wicketgate.archiveArgs" . }}{{ if .of.logJson }}, --json{{ end }}]
{{- else }}
args: [serve, --config, /etc/wicketgate/wicketgate.yaml{{ if .of.logJson }}, --json{{ end }}]
{{- end }}
env:
  {{- include "wicketgate.env" . | nindent 2 }}
  {{- if $separate }}
  - {name: WICKETGATE__LISTEN__TCP, value: "0.0.0.0:7302"}
  - {name: WICKETGATE__LISTEN__TLS__CERT, value: /run/secrets/wicketgate/tls.crt}
  - {name: WICKETGATE__LISTEN__TLS__KEY, value: /run/secrets/wicketgate/tls.key}
  - {name: WICKETGATE__LISTEN__TLS__CLIENT_CA, value: /run/secrets/wicketgate/client-ca.crt}
  {{- else }}
  - {name: WICKETGATE__LISTEN__SOCKET, value: /run/wicketgate/agent.sock}
  {{- end }}
  {{- if .root.Values.kubernetesEnrolment.enabled }}
  - {name: WICKETGATE__ENROLMENT__TOKEN_FILE, value: /run/secrets/wicketgate-enrolment/token}
  - {name: WICKETGATE__LEDGER__POSTGRES__SLOTS, value: {{ printf "%s/%s-%s" .root.Release.Namespace (include "wicketgate.name" .root) .part | quote }}}
  {{- end }}
  {{- with .of.env }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with .of.envFrom }}
envFrom: {{- toYaml . | nindent 2 }}
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
{{- with .Values.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.topologySpreadConstraints }}
topologySpreadConstraints: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . | quote }}
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
  {{- with .root.Values.serviceAccountAnnotations }}
  annotations: {{- toYaml . | nindent 4 }}
  {{- end }}
automountServiceAccountToken: false
{{- end -}}
