{{/* A profile: what a pod gets that asks for it. It is the chart's own pod of an agent, without what each workload has itself: {root, name}. */}}
{{- define "wicketgate.injector.profile" -}}
{{- $said := get .root.Values.injector.profiles .name | default dict -}}
{{- $at := printf "injector.profiles.%s" .name -}}
{{- if not .root.Values.image.digest }}{{ fail "image.digest: the injector pins the image of the gate, so name its digest" }}{{ end -}}
{{- if not $said.ledger }}{{ fail (printf "%s.ledger: choose where the ledger of these gates is kept: `postgres` (their wicketgate.yaml has `ledger.postgres`), or `ephemeral` (for trials: it is lost with the pod)" $at) }}{{ end -}}
{{- $files := dict -}}
{{- range $said.files }}{{ $_ := set $files . "" }}{{ end -}}
{{- $uid := $said.uid | default .root.Values.agent.uid -}}
{{- $gate := mergeOverwrite (deepCopy .root.Values.gate) (deepCopy ($said.gate | default dict)) (dict "separate" (dict "enabled" false) "tlsSecret" "") -}}
{{- $_ := set $gate "files" $files -}}
{{- $_ := unset $gate "archive" -}}
{{- if eq (toString $uid) (toString $gate.uid) }}{{ fail (printf "%s.uid: the agent must not be the user the gate is" $at) }}{{ end -}}
{{- $agent := dict "kind" "Deployment" "uid" $uid "image" "" "terminationGraceSeconds" ($said.terminationGraceSeconds | default .root.Values.agent.terminationGraceSeconds) -}}
{{- $values := dict "image" .root.Values.image "agent" $agent "gate" $gate "ledger" (dict "persistence" (dict "enabled" false)) "kubernetesEnrolment" (dict "enabled" false) -}}
{{- $root := dict "Values" $values "Release" .root.Release "Chart" .root.Chart -}}
{{- $pod := include "wicketgate.agentPod" (dict "root" $root "part" "agent" "of" $gate "files" $files) | fromYaml -}}
{{- if $pod.Error }}{{ fail $pod.Error }}{{ end -}}
{{- range $pod.spec.volumes -}}
{{- if eq .name "config" }}{{ $_ := set . "configMap" (empty $said.files | ternary dict (omit .configMap "name")) }}{{ end -}}
{{- if eq .name "secrets" }}{{ $_ := set .projected "sources" (.projected.sources | default list) }}{{ end -}}
{{- end -}}
{{- $own := omit $pod.spec "containers" "serviceAccountName" -}}
{{- $theirs := pick (first $pod.spec.containers) "env" "volumeMounts" "securityContext" -}}
{{- dict "profile" .name "labels" (dict "wicketgate.dev/sidecar" "true") "pod" $own "agent" $theirs "config" (dict "volume" "config") | toYaml -}}
{{- end -}}

{{/* Pods that ask for a gate, in namespaces that may: never those of the cluster itself nor the injector's: {root}. */}}
{{- define "wicketgate.injector.namespaces" -}}
matchLabels: {wicketgate.dev/inject: enabled}
matchExpressions: [{key: kubernetes.io/metadata.name, operator: NotIn, values: [kube-system, {{ .Release.Namespace }}]}]
{{- end -}}

{{/* Whether a pod is one that a node shows of its own, which no admission can change. Only nodes may say so. */}}
{{- define "wicketgate.injector.mirror" -}}
!has(object.metadata.annotations) || !('kubernetes.io/config.mirror' in object.metadata.annotations) || !has(request.userInfo.groups) || !request.userInfo.groups.exists(g, g == 'system:nodes')
{{- end -}}

{{/* The name of the injector in the whole cluster. */}}
{{- define "wicketgate.injector.cluster" -}}
{{ .Release.Namespace }}-{{ include "wicketgate.name" . }}-injector
{{- end -}}

{{/* What each pod of the injector says of itself: {root, part}. */}}
{{- define "wicketgate.injector.pod" -}}
automountServiceAccountToken: false
enableServiceLinks: false
hostNetwork: false
hostPID: false
hostIPC: false
shareProcessNamespace: false
securityContext: {{- include "wicketgate.podSecurity" .root.Values.injector | nindent 2 }}
{{- with include "wicketgate.scheduling" .root }}
{{- . | nindent 0 }}
{{- end }}
{{- end -}}

{{/* The pod that makes the certificates: {root}. */}}
{{- define "wicketgate.injector.certs" -}}
{{- $root := .root -}}
{{- $injector := .root.Values.injector -}}
{{- $name := printf "%s-injector" (include "wicketgate.name" .root) -}}
metadata:
  labels: {{- include "wicketgate.podLabels" . | nindent 4 }}
  {{- with .root.Values.podAnnotations }}
  annotations: {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  serviceAccountName: {{ $name }}-certs
  restartPolicy: Never
  {{- include "wicketgate.injector.pod" . | nindent 2 }}
  containers:
    - name: certs
      image: {{ include "wicketgate.image" .root | quote }}
      imagePullPolicy: {{ .root.Values.image.pullPolicy }}
      command: [/wicketgate]
      args:
        - injector
        - certs
        - --namespace=$(NAMESPACE)
        - --secret={{ $name }}-tls
        - --webhook=mutating/{{ include "wicketgate.injector.cluster" .root }}
        - --webhook=validating/{{ include "wicketgate.injector.cluster" .root }}
        - --ca-file=/run/secrets/kubernetes/ca.crt
        - --token-file=/run/secrets/kubernetes/token
      env: [{name: NAMESPACE, valueFrom: {fieldRef: {fieldPath: metadata.namespace}}}]
      securityContext: {{- include "wicketgate.containerSecurity" $injector | nindent 8 }}
      resources: {requests: {cpu: 10m, memory: 32Mi}, limits: {cpu: 500m, memory: 128Mi}}
      volumeMounts: [{name: kubernetes, mountPath: /run/secrets/kubernetes, readOnly: true}]
  volumes:
    # The token for the API server, which this pod alone has.
    - name: kubernetes
      projected:
        defaultMode: 0440
        sources:
          - serviceAccountToken: {path: token, expirationSeconds: 3600}
          - configMap: {name: kube-root-ca.crt, items: [{key: ca.crt, path: ca.crt}]}
{{- end -}}
