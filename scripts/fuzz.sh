#!/usr/bin/env bash
# Searches each fuzz target for a while, from seeds made here and from what earlier runs found.
#
# usage: fuzz.sh [TARGET...]        environment: FUZZ_SECONDS for each target (default 60)
#
# Everything runs under AddressSanitizer and is guided by coverage, the C libraries included: they
# are compiled by clang with the same instruments as the Rust code. Needs a nightly toolchain for
# that; installs clang and cargo-fuzz if they are missing. What breaks is kept in fuzz/artifacts and
# ends the run with status 1, after the other targets were searched too.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ $# -eq 0 ]; then
  # Every target; a list here would miss the newest ones.
  for source in fuzz/fuzz_targets/*.rs; do
    set -- "$@" "$(basename "$source" .rs)"
  done
fi
# The fuzzer's programs go beside the fuzz crate, apart from those of the stable compiler.
unset CARGO_TARGET_DIR

cargo +nightly --version >/dev/null 2>&1 || {
  echo "fuzz: no nightly toolchain; add one with: rustup toolchain install nightly" >&2
  echo "fuzz: the same bodies run on stable with: cargo test -p shale-tests --test it fuzz_smoke" >&2
  exit 1
}
scripts/need.sh clang
cargo fuzz --version >/dev/null 2>&1 || cargo install --locked --quiet cargo-fuzz
cargo run --quiet --package shale-tests --bin shale-tree seeds fuzz/corpus

# zstd, liblzma and lz4: memory errors are found in them, and what they do guides the search.
export CC=clang
export CFLAGS="-g -fno-omit-frame-pointer -fsanitize=address,fuzzer-no-link"
broken=()
for target in "$@"; do
  mkdir -p "fuzz/corpus/$target"
  # What is kept in the repository, and for targets that open images the smallest golden ones.
  [ ! -d "testdata/broken/$target" ] || cp "testdata/broken/$target"/* "fuzz/corpus/$target/"
  options=()
  case $target in
    # Its thread that reads ahead may end after the input: what it still holds then is no leak.
    import_tar | import_cpio | import_any) options=(-detect_leaks=0) ;;
    open_and_walk | identity | signature | check_image) cp testdata/images/*-tiny.shale "fuzz/corpus/$target/" ;;
    parity) cp testdata/images/*-parity.shale "fuzz/corpus/$target/" ;;
  esac
  cargo +nightly fuzz run "$target" "fuzz/corpus/$target" -- \
    -max_total_time="${FUZZ_SECONDS:-60}" -rss_limit_mb=2048 -timeout=20 -max_len=100000 "${options[@]}" ||
    broken+=("$target")
done
[ ${#broken[@]} -eq 0 ] || {
  echo "fuzz: broken: ${broken[*]}; the inputs are in fuzz/artifacts" >&2
  exit 1
}
