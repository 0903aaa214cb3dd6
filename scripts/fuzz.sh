#!/usr/bin/env bash
# Searches each fuzz target for a while, from seeds made here and from what earlier runs found.
#
# usage: fuzz.sh [TARGET...]        environment: FUZZ_SECONDS for each target (default 60)
# Needs a nightly toolchain; installs cargo-fuzz if it is missing. What breaks lands in
# fuzz/artifacts and ends the run with status 1.
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- open_and_walk table_page frame_decode manifest_lines
# The fuzzer's products lie beside the fuzz crate, apart from those of the stable compiler.
unset CARGO_TARGET_DIR

cargo +nightly --version >/dev/null 2>&1 || {
  echo "fuzz: no nightly toolchain; add one with: rustup toolchain install nightly" >&2
  echo "fuzz: the same bodies run on stable with: cargo test -p shale-tests --test fuzz_smoke" >&2
  exit 1
}
cargo fuzz --version >/dev/null 2>&1 || cargo install --locked --quiet cargo-fuzz
cargo run --quiet --package shale-tests --bin shale-tree seeds fuzz/corpus
for target in "$@"; do
  mkdir -p "fuzz/corpus/$target"
  # The smallest golden images are the seeds of the target that opens images.
  [ "$target" != open_and_walk ] || cp testdata/images/*-tiny.shale "fuzz/corpus/$target/"
  cargo +nightly fuzz run "$target" "fuzz/corpus/$target" -- \
    -max_total_time="${FUZZ_SECONDS:-60}" -rss_limit_mb=2048 -timeout=20
done
