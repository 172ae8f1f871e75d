#!/usr/bin/env bash
# Makes sure that what the tests need is on the machine; says in one line what to install where it cannot.
# Usage: ready.sh [race] [kubernetes]
set -euo pipefail

need() { # command, Debian package, why
  command -v "$1" >/dev/null && return 0
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$2" >/dev/null && return 0
  fi
  echo "tests need $1 ($3): install the package $2" >&2
  exit 1
}

need redis-server redis-server "shared counts and prefixes are tested against it"
if [[ " $* " == *" race "* ]]; then
  need gcc gcc "the race detector is linked with C"
fi

"$(dirname "$0")/python.sh"
if [[ " $* " == *" kubernetes "* ]]; then
  "$(dirname "$0")/kubernetes.sh"
fi
"$(dirname "$0")"/examples.sh
