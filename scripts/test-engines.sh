#!/usr/bin/env bash
# Tests the Python package on Ray and on Spark, each with a worker that is killed. Too long for CI: the engines are
# 800 MB to install, and start for half a minute. `make soak` runs it.
#
# usage: test-engines.sh [PYTEST OPTION...]      environment: CARGO_TARGET_DIR as for cargo
# Installs into a virtual environment below the target folder. Ends with status 1 if a test failed.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/need.sh java=default-jre-headless
. scripts/venv.sh
new_venv engines test,ray,spark
with_module
# Workers of an engine are to be those of the virtual environment. Each engine has a process of its own.
for engine in ray spark; do
  PATH=$venv/bin:$PATH SHALEFS_ENGINE=native PYTHONDONTWRITEBYTECODE=1 PYSPARK_PYTHON=$venv/bin/python \
    "$venv/bin/python" -m pytest --quiet -p no:cacheprovider python/engines -k "$engine" "$@"
done
