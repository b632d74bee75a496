#!/usr/bin/env bash
# What only a cluster shows: deploy/acceptance.sh IMAGE
#
# Installs the chart with IMAGE (repository:tag, which the nodes can pull or have) in a namespace of its own, looks at what the cluster does with
# it, prints a line for each claim, and removes everything. `deploy/acceptance.expected` has the lines of a cluster on which all of it holds.
# Exits with 0 if each claim holds, 1 if one does not, 2 if the cluster cannot show one.
#
# Needs kubectl and helm with the rights of an administrator, and the program `wicketgate` in the path, to make keys. AGENT_IMAGE (default:
# busybox:1.36) is what the agent is; it needs a shell, `sleep` and `nc`. What takes time is tried again for PATIENCE seconds (default: 120).
set -euo pipefail

image=${1:?usage: deploy/acceptance.sh IMAGE}
agent=${AGENT_IMAGE:-busybox:1.36}
chart=$(cd "$(dirname "${BASH_SOURCE[0]}")/helm/wicketgate" && pwd)
policies=$(cd "$chart/../../../policies/examples" && pwd)
space=wicketgate-acceptance-$$
work=$(mktemp -d)
patience=${PATIENCE:-120}
failed=0 unknown=0

clean() {
  helm -n "$space" uninstall demo --wait >/dev/null 2>&1 || true
  kubectl delete namespace "$space" --wait=false >/dev/null 2>&1 || true
  rm -rf "$work"
}
trap clean EXIT

# holds CLAIM COMMAND...: one line for each claim. In a condition `set -e` is off, so the functions below join their commands by `&&`.
holds() {
  local claim=$1
  shift
  if "$@" >"$work/said" 2>&1; then echo "holds    $claim"; else
    failed=1
    echo "FAILS    $claim"
    sed 's/^/         /' "$work/said" | tail -n 5
  fi
}
cannot() {
  unknown=1
  echo "unknown  $1: $2"
}
k() { kubectl -n "$space" "$@"; }
pod() { k get pods -l app.kubernetes.io/instance=demo,app.kubernetes.io/component=agent -o "jsonpath={.items[0]$1}"; }
inside() { k exec "$(pod .metadata.name)" -c agent -- sh -c "$1"; }
# Until a command succeeds, or the patience ends.
within() {
  local end=$((SECONDS + patience))
  until "$@"; do ((SECONDS < end)) || return 1; sleep 1; done
}

files() {
  (
    cd "$work"
    wicketgate config keygen --out manifest.pem
    wicketgate config keygen --out policy.pem
    wicketgate manifest init agent.yaml --name reviewer
    wicketgate manifest sign agent.yaml --key manifest.pem
    cp -r "$policies/reviewer-reads-only" policy
    wicketgate policy sign policy --key policy.pem
  ) >/dev/null
  cat >"$work/wicketgate.yaml" <<EOF
trust: {manifest_keys: [manifest.pem.pub], policy_keys: [policy.pem.pub]}
policy: {bundle: policy}
agents: [{manifest: agent.yaml, callers: [{uid: 10001}]}]
EOF
  cat >"$work/values.yaml" <<EOF
image: {repository: "${image%:*}", tag: "${image##*:}"}
agent:
  image: "$agent"
  command: [sh, -c, "while :; do printf 'HTTP/1.0 200 OK\r\n\r\nagent' | nc -l -p 8080 >/dev/null || sleep 1; done"]
  ports: [{name: http, containerPort: 8080}]
  terminationGraceSeconds: 40
ledger: {persistence: {enabled: true, size: 1Gi, keep: false}}
EOF
}

install() {
  local set=() f
  cd "$work"
  for f in wicketgate.yaml agent.yaml agent.yaml.sig.json ./*.pub $(find policy -type f); do
    f=${f#./}
    set+=(--set-file "gate.files.${f//./\\.}=$f")
  done
  helm -n "$space" upgrade --install demo "$chart" -f values.yaml "${set[@]}" --wait --timeout "${patience}s" "$@"
}

started() { date -d "$1" +%s; }
gate_first() {
  local gate own
  gate=$(pod '.status.initContainerStatuses[?(@.name=="gate")].state.running.startedAt')
  own=$(pod '.status.containerStatuses[?(@.name=="agent")].state.running.startedAt')
  echo "gate $gate, agent $own"
  [[ -n $gate && -n $own ]] && (($(started "$gate") <= $(started "$own")))
}
entries() { k exec "$(pod .metadata.name)" -c gate -- /wicketgate ledger tail --sqlite /var/lib/wicketgate/ledger.sqlite --json --number "$1"; }
kept() {
  local newest
  newest=$(entries 1) && [[ -n $newest ]] &&
    k delete pod "$(pod .metadata.name)" --wait &&
    k rollout status deploy/demo-wicketgate-agent --timeout="${patience}s" &&
    entries 1000 | grep -qF "$newest"
}
called() { k run caller --rm -i --restart=Never --image="$agent" --override-type=strategic --overrides="$(restricted caller)" -- sh -c 'echo | nc -w 5 demo-wicketgate-agent 8080' | grep agent; }
# restricted NAME: what Pod Security asks of the pod and its container, so that no other rule refuses it first.
restricted() {
  printf '{"spec": {"securityContext": {"runAsNonRoot": true, "runAsUser": 10002, "seccompProfile": {"type": "RuntimeDefault"}}, '
  printf '"containers": [{"name": "%s", "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}}}]}}' "$1"
}
# refused TEXT COMMAND...: whether the command is refused with this text.
refused() {
  local text=$1
  shift
  ! "$@" >"$work/refused" 2>&1 && grep -F "$text" "$work/refused"
}

echo "cluster  $(kubectl version -o json | sed -n 's/.*"gitVersion": "\(v1[^"]*\)".*/\1/p' | tail -n 1), image $image" >&2
files
kubectl create namespace "$space" >/dev/null
kubectl label namespace "$space" pod-security.kubernetes.io/enforce=restricted >/dev/null

holds "the chart installs in a namespace with Pod Security restricted" install
holds "the gate runs before the agent starts" gate_first
holds "the gate is ready, and says so over its own socket" k exec "$(pod .metadata.name)" -c gate -- /wicketgate control health --socket /var/lib/wicketgate/operator.sock
holds "the agent finds the socket of the gate, and cannot replace it" inside 'test -S "$WICKETGATE_SOCKET" && ! rm "$WICKETGATE_SOCKET" 2>/dev/null'
holds "the agent has no token of Kubernetes and no volume of the gate" inside '! ls /var/run/secrets/kubernetes.io /run/secrets/wicketgate /var/lib/wicketgate 2>/dev/null'
holds "a pod of the namespace calls the agent at its Service" called
if inside 'nc -w 3 -z 1.1.1.1 443' >/dev/null 2>&1; then
  cannot "the agent reaches nothing that no value opens" "the cluster's network does not enforce NetworkPolicies, or the pod reached 1.1.1.1"
else
  holds "the agent reaches nothing that no value opens" true
fi
holds "the ledger outlives its pod" kept
holds "an upgrade with another configuration succeeds" install --set agent.env[0].name=X --set agent.env[0].value=y
holds "a Job completes when its agent ends" install --set agent.kind=Job --set agent.ports=null --set "agent.command={sh,-c,exit 0}" --no-hooks
holds "the Job is complete" within k wait --for=condition=complete --timeout=10s job -l app.kubernetes.io/instance=demo
holds "a Job is upgraded" install --set agent.kind=Job --set agent.ports=null --set "agent.command={sh,-c,exit 0}"
if kubectl api-resources --api-group=admissionregistration.k8s.io -o name | grep -q '^validatingadmissionpolicies'; then
  kubectl label namespace "$space" wicketgate.dev/inject=enabled >/dev/null
  # The administrator of this cluster need not be of `system:masters`.
  mine=$(kubectl auth whoami -o 'jsonpath={.status.userInfo.groups[0]}' 2>/dev/null || true)
  holds "the backstop admits the pods of the chart" install --set backstop.enabled=true --set "backstop.debuggers={${mine:-system:masters}}"
  naked() { k run naked --image="$agent" --override-type=strategic --overrides="$(restricted naked)" --dry-run=server; }
  holds "the backstop refuses a pod without its gate" within refused "has no gate" naked
  enter() { k exec "$(pod .metadata.name)" -c gate -- /wicketgate version; }
  holds "the backstop admits debuggers to the gate" enter
  holds "a release without debuggers installs" install --set backstop.enabled=true --set backstop.debuggers=null
  holds "the backstop lets only debuggers into the gate" within refused "backstop.debuggers" enter
else
  cannot "the backstop" "the cluster has no ValidatingAdmissionPolicy"
fi
leaves_nothing() {
  helm -n "$space" uninstall demo --wait --timeout "${patience}s" &&
    [[ -z $(k get networkpolicies,jobs,pods,configmaps -l app.kubernetes.io/instance=demo -o name) ]]
}
holds "uninstalling leaves nothing behind" leaves_nothing
((failed)) && exit 1
((unknown)) && exit 2
exit 0
