#!/usr/bin/env bash
# Tests the Python package in a virtual environment of its own, below the target folder: with the reader in Python
# alone, then with the compiled module; its examples, and its types. scripts/test-engines.sh tests Ray and Spark.
#
# usage: test-python.sh [PYTEST OPTION...]      environment: CARGO_TARGET_DIR as for cargo
# Installs what the package declares. Ends with status 1 if a test failed; changes nothing outside the target folder.
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
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check "$copy[test,examples]"
test() {
  SHALEFS_ENGINE=$1 PYTHONDONTWRITEBYTECODE=1 "$venv/bin/python" -m pytest --quiet -p no:cacheprovider \
    python/tests "${@:2}"
}
test pure "$@"
# The module of a debug build; `make wheel` packs that of a release build.
[ -e "$target/debug/lib_native.so" ] || cargo build --quiet --workspace
module=$("$venv/bin/python" -c 'import os, shalefs; print(os.path.dirname(shalefs.__file__))')/_native.abi3.so
cp "$target/debug/lib_native.so" "$module"
trap 'rm -f "$module"' EXIT
test native "$@"
types() { "$venv/bin/python" -m "$1" "${@:2}" || { echo "test-python: the types are wrong" >&2; exit 1; }; }
# A program that uses all of the package, and the stub of the module beside the module itself.
types mypy --strict --cache-dir "$target/mypy" python/typing/public_api.py
types mypy.stubtest shalefs._native
