#!/usr/bin/env bash
# Builds the runtime of bundles, the executable that `shale bundle` puts before an image, and checks what is promised of
# it: static, at most 2,000,000 bytes, and without any encoder.
#
# usage: runtime.sh [FILE]           (default: target/bundle/runtime-MACHINE)
# environment: CARGO_TARGET_DIR as for cargo; TRIPLE, the target (default: the host's); CC, its C compiler
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/need.sh cc=build-essential cmake readelf=binutils

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
triple=${TRIPLE:-$(rustc -vV | sed -n 's/^host: //p')}
out=${1:-$target/bundle/runtime-${triple%%-*}}
length_max=2000000

fail() {
  echo "runtime: $1" >&2
  exit 1
}

# With --target, build scripts and macros are not linked statically. What follows makes the file smaller: no tables for
# unwinding, short relocations, equal functions once.
flags="-C target-feature=+crt-static -C force-unwind-tables=no -C link-arg=-Wl,-z,pack-relative-relocs"
flags="$flags -C link-arg=-Wl,--icf=all -C link-arg=-Wl,--no-eh-frame-hdr -C link-arg=-Wl,-T,$PWD/scripts/runtime.ld"
export CFLAGS="${CFLAGS:-} -fno-asynchronous-unwind-tables"
# What the program needs of the C library is smaller with these functions before it. An archive that is linked as a
# whole comes before the C library; further arguments for the linker would come after it.
parts=$target/$triple/runtime/parts
mkdir -p "$parts"
# shellcheck disable=SC2086 # CFLAGS are words.
"${CC:-cc}" $CFLAGS -Os -fPIE -Wall -Wextra -Werror -c scripts/runtime-libc.c -o "$parts/libc.o"
rm -f "$parts/libshale_parts.a"
ar rcs "$parts/libshale_parts.a" "$parts/libc.o"
RUSTFLAGS="${RUSTFLAGS:-} $flags" \
  cargo rustc --quiet --locked --profile runtime --package shale-runtime --bin shale-runtime --target "$triple" \
  --config profile.runtime.strip=false -- -L "native=$parts" -l static:+whole-archive=shale_parts
built=$target/$triple/runtime/shale-runtime

# Compared before symbols are removed. Functions of compressors, by the names that their libraries export.
names='ZSTD_compress2|ZSTD_compressStream2|lzma_raw_encoder'
names="$names|LZ4_compress_(fast|HC)_continue|brotli::enc::.*encode"
encoders=$(nm -C "$built" | grep -cE " ($names)" || true)
[ "$encoders" -eq 0 ] || fail "$encoders functions of encoders are built in"

mkdir -p "$(dirname "$out")"
strip -o "$out.part" "$built"
chmod 755 "$out.part"
mv "$out.part" "$out"
! readelf -lW "$out" | grep -q INTERP || fail "$out is not static"
length=$(stat -c %s "$out")
[ "$length" -le "$length_max" ] || fail "$out has $length bytes, more than $length_max"
echo "runtime: $out, $length bytes"
