#!/usr/bin/env bash
# Makes the wheels of the Python package, in target/wheels: one with the compiled module for this kind of machine and
# any Python from 3.9 on, and one without, for all others.
#
# usage: wheel.sh      environment: CARGO_TARGET_DIR as for cargo
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/need.sh cc=build-essential cmake python3
python3 -c 'import venv, ensurepip' 2>/dev/null || scripts/need.sh ensurepip=python3-venv
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
out=$target/wheels
venv=$target/wheel-venv
[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check 'maturin>=1.7,<2'
rm -rf "$out"
# It looks for pyproject.toml where it is started.
(cd python && CARGO_TARGET_DIR=$target "$venv/bin/maturin" build --release --out "$out")
copy=$target/python-package
rm -rf "$copy"
cp -r python "$copy"
"$venv/bin/python" -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir "$out" "$copy"
ls -l "$out"
