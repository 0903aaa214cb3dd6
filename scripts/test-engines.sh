#!/usr/bin/env bash
# Tests the Python package on Ray and on Spark, each with a worker that is killed. Too long for CI: the engines are
# 800 MB to install, and start for half a minute. `make soak` runs it.
#
# usage: test-engines.sh [PYTEST OPTION...]      environment: CARGO_TARGET_DIR as for cargo
# Installs into a virtual environment below the target folder. Ends with status 1 if a test failed.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/need.sh python3 java=default-jre-headless
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
venv=$target/engines-venv
python3 -c 'import venv, ensurepip' 2>/dev/null || scripts/need.sh ensurepip=python3-venv
if [ ! -x "$venv/bin/python" ]; then
  mkdir -p "$target"
  python3 -m venv "$venv"
fi
copy=$target/python-engines
rm -rf "$copy"
cp -r python "$copy"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check "$copy[test,ray,spark]"
[ -e "$target/debug/lib_native.so" ] || cargo build --quiet --workspace
module=$("$venv/bin/python" -c 'import os, shalefs; print(os.path.dirname(shalefs.__file__))')/_native.abi3.so
cp "$target/debug/lib_native.so" "$module"
trap 'rm -f "$module"' EXIT
# Workers of an engine are to be those of the virtual environment. Each engine has a process of its own.
for engine in ray spark; do
  PATH=$venv/bin:$PATH SHALEFS_ENGINE=native PYTHONDONTWRITEBYTECODE=1 PYSPARK_PYTHON=$venv/bin/python \
    "$venv/bin/python" -m pytest --quiet -p no:cacheprovider python/engines -k "$engine" "$@"
done
