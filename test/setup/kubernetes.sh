#!/usr/bin/env bash
# Builds the Kubernetes API server, etcd and, if there is none, kubectl for the tests into .tools/bin: once per version,
# which takes minutes. The versions are in kubernetes/go.mod.
set -euo pipefail
cd "$(dirname "$0")/kubernetes"
bin=$PWD/../../../.tools/bin
mkdir -p "$bin"

want=$(cat go.mod go.sum ../kubernetes.sh | sha256sum)
if [ "$(cat "$bin/.kubernetes" 2>/dev/null)" = "$want" ] && [ -x "$bin/kube-apiserver" ] && [ -x "$bin/etcd" ] && [ -x "$bin/kubectl" ]; then
  exit 0
fi
echo "building the Kubernetes API server and etcd for the tests: some minutes, once" >&2
out=$(mktemp -d -p "$bin")
trap 'rm -rf "$out"' EXIT
packages=(k8s.io/kubernetes/cmd/kube-apiserver go.etcd.io/etcd/server/v3)
if ! command -v kubectl >/dev/null; then
  packages+=(k8s.io/kubernetes/cmd/kubectl)
fi
# Without symbols and debugging information, which nobody looks at: a third less to compile and link.
GOWORK=off GOFLAGS= CGO_ENABLED=0 go build -trimpath -gcflags=all=-dwarf=false -ldflags "-s -w" -o "$out/" "${packages[@]}"
mv "$out/kube-apiserver" "$bin/"
mv "$out/server" "$bin/etcd"
if [ -x "$out/kubectl" ]; then
  mv "$out/kubectl" "$bin/"
else
  ln -sf "$(command -v kubectl)" "$bin/kubectl"
fi
echo "$want" >"$bin/.kubernetes"
