#!/usr/bin/env bash
# Tests for an hour what a short run cannot: guided fuzzing, stress of mounts, damage and kills at
# many more places.
#
# usage: soak.sh       environment: SOAK_SECONDS (default 3600), CARGO_TARGET_DIR as for cargo
#
# Half of the time goes to the fuzz targets, each under AddressSanitizer; a quarter to stress; the
# rest bounds the number of damages and kills, which take about that long. Needs root and a nightly
# toolchain. Every part runs even if an earlier one failed; ends with status 1 if a part failed.
set -uo pipefail
cd "$(dirname "$0")/.."
exec < /dev/null
seconds=${SOAK_SECONDS:-3600}
targets=$(find fuzz/fuzz_targets -name "*.rs" | wc -l)
[ "$(id -u)" -eq 0 ] || { echo "soak: needs root, to mount, to drop caches and for owners" >&2; exit 1; }
scripts/need.sh cc=build-essential cmake fusermount3=fuse3 python3 clang bsdtar=libarchive-tools \
  zip unzip mksquashfs=squashfs-tools 7zz=7zip genisoimage mkfs.erofs=erofs-utils || exit 1

failed=()
# part NAME COMMAND...: runs the command and remembers the name if it fails.
part() {
  local name=$1 start=$SECONDS
  shift
  printf '\n=== %s: %s\n' "$name" "$*"
  "$@" || failed+=("$name")
  printf '=== %s: %d s\n' "$name" $((SECONDS - start))
}
# promise NAME: runs the tests of one module of the promises, optimized.
promise() { cargo test --release --package shale-tests --test it "$1" -- --nocapture; }

part "fuzz" env FUZZ_SECONDS=$((seconds / 2 / targets)) scripts/fuzz.sh
export STRESS_SECONDS=$((seconds / 4)) SHALE_DAMAGES=$((seconds * 2)) SHALE_KILLS=$((seconds / 60)) \
  SHALE_FUZZ_TIMES=$((seconds / 120 + 1))
part "build" cargo build --release --package shale-cli --package shale-tests
SHALE=$(realpath "${CARGO_TARGET_DIR:-target}")/release/shale
export SHALE
part "stress" promise long::stress
part "damage" promise long::damage_random
part "killed" promise long::killed
part "mutations" promise fuzz_smoke
export SHALE_AGAINST=$((seconds / 60))s
part "importers" promise against
part "engines" scripts/test-engines.sh

printf '\nsoak: %d s; %s\n' "$SECONDS" "${failed[*]:-nothing failed}"
[ ${#failed[@]} -eq 0 ]
