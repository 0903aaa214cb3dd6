#!/usr/bin/env bash
# Tests the Python package in a virtual environment of its own, below the target folder.
#
# usage: test-python.sh [PYTEST OPTION...]      environment: CARGO_TARGET_DIR as for cargo
# Installs what the package declares. Ends with pytest's status; changes nothing outside the target folder.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/need.sh python3
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
venv=$target/python-venv
python3 -c 'import venv, ensurepip' 2>/dev/null || scripts/need.sh ensurepip=python3-venv
if [ ! -x "$venv/bin/python" ]; then
  mkdir -p "$target"
  python3 -m venv "$venv"
fi
# Building leaves files beside the sources, so a copy is built.
copy=$target/python-package
rm -rf "$copy"
cp -r python "$copy"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check "$copy[test]"
PYTHONDONTWRITEBYTECODE=1 exec "$venv/bin/python" -m pytest --quiet -p no:cacheprovider python "$@"
