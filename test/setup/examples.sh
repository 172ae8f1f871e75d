#!/usr/bin/env bash
# Makes sure that the examples in TypeScript and Python can be built and run: Node and its modules, and a Python
# environment in .tools/venv-scorer-python. What is there already is not installed again.
set -euo pipefail
cd "$(dirname "$0")/../.."
tools=$PWD/.tools
mkdir -p "$tools"

fail() { echo "the scorers under examples/ are tested: $1" >&2; exit 1; }
install() { # Debian packages
  [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || fail "install the packages $*"
  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$@" >/dev/null || fail "apt-get cannot install $*, see above"
}
node20() { command -v npm >/dev/null && [ "$(node --version | sed 's/^v\([0-9]*\).*/\1/')" -ge 20 ]; }

node20 || { install nodejs npm; node20; } || fail "install Node 20 or newer, with npm; the package nodejs of this system is older"
command -v python3 >/dev/null && python3 -c 'import ensurepip, venv' 2>/dev/null || install python3 python3-venv
command -v curl >/dev/null || install curl

typescript=examples/scorer-typescript
if [ "$(cat "$typescript/node_modules/.installed" 2>/dev/null)" != "$(cat "$typescript/package-lock.json")" ]; then
  echo "installing what $typescript needs"
  (cd "$typescript" && npm_config_cache=$tools/npm npm ci --no-fund --no-audit --loglevel=error && cp package-lock.json node_modules/.installed)
fi
python=examples/scorer-python
venv=$tools/venv-scorer-python
want=$(echo "$venv"; cat "$python"/requirements*.txt)
if [ "$(cat "$venv/.installed" 2>/dev/null)" != "$want" ]; then
  echo "installing what $python needs"
  rm -rf "$venv"
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check -r "$python/requirements-dev.txt"
  echo "$want" >"$venv/.installed"
fi
