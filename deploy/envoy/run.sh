#!/usr/bin/env bash
# Runs everything on this machine, as `pointsman up` does, with Envoy in front; Ctrl-C ends it.
# Usage: run.sh [flags of pointsman up]
#
# ENVOY and POINTSMAN are the binaries; LISTEN_PORT, ADMIN_PORT and EXT_PROC_PORT the ports of Envoy and of the picker.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
envoy=${ENVOY:-$root/.tools/bin/envoy}
pointsman=${POINTSMAN:-$root/bin/pointsman}
listen=${LISTEN_PORT:-10000} admin=${ADMIN_PORT:-9901} picker=${EXT_PROC_PORT:-9002}

config=$(mktemp)
pids=()
# stop ends what was started, and waits for it: first Envoy, so that nobody asks a router that goes.
stop() {
  trap '' INT TERM
  local i
  for ((i = ${#pids[@]} - 1; i >= 0; i--)); do
    kill -TERM "${pids[i]}" 2>/dev/null || true
    wait "${pids[i]}" 2>/dev/null || true
  done
  rm -f "$config"
}
trap stop EXIT
trap 'exit 0' INT TERM

# up waits until a port of this machine takes connections, as long as a process lives.
up() { # port, process
  until (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; do
    kill -0 "$2" 2>/dev/null || { wait "$2"; exit; }
    sleep 0.1
  done
}

# The file as it is, with other ports if some were asked for.
sed -e "s/port_value: 10000\b/port_value: $listen/" -e "s/port_value: 9901\b/port_value: $admin/" -e "s/port_value: 9002\b/port_value: $picker/" \
  "$root/deploy/envoy/original-dst.yaml" >"$config"

"$pointsman" up --extProc "127.0.0.1:$picker" "$@" &
pids+=($!)
up "$picker" "$!"
"$envoy" --config-yaml "$(cat "$config")" --concurrency 1 --disable-hot-restart --log-level error &
pids+=($!)
up "$listen" "$!"
echo "Envoy is up: OpenAI API http://127.0.0.1:$listen/v1   admin http://127.0.0.1:$admin"
wait -n || exit $?
