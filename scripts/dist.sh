#!/usr/bin/env bash
# Makes a tarball of the shale command, linked statically, which runs on any Linux of this processor.
#
# usage: dist.sh [FOLDER]            (default: target/dist)
# environment: SHALE and RUNTIME, a command and a runtime of bundles to pack instead of building them;
# SOURCE_DATE_EPOCH, the time of all files; XZ_LEVEL (default -9e)
# The tarball has the command, the runtime of bundles, completions, man pages, licences, the list of built-in crates
# (SBOM), and a Makefile with
# `install` and `uninstall`. The same command gives the same tarball.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/need.sh xz=xz-utils python3 strip=binutils

target=${CARGO_TARGET_DIR:-target}
out=${1:-$target/dist}
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
machine=$(uname -m)
name=shale-$version-linux-$machine
epoch=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}

if [ -z "${SHALE:-}" ]; then
  triple=$(rustc -vV | sed -n 's/^host: //p')
  # With --target, build scripts and macros are not linked statically. Short relocations and equal functions once
  # make the file smaller.
  flags="-C target-feature=+crt-static -C link-arg=-Wl,-z,pack-relative-relocs -C link-arg=-Wl,--icf=safe"
  RUSTFLAGS="${RUSTFLAGS:-} $flags" \
    cargo build --release --locked --package shale-cli --target "$triple"
  SHALE=$target/$triple/release/shale
fi
if [ -z "${RUNTIME:-}" ]; then
  RUNTIME=$(realpath -m "$target/bundle/runtime-$machine")
  scripts/runtime.sh "$RUNTIME"
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tree=$work/$name
mkdir -p "$tree"
make -s -o build -o runtime install SHALE="$SHALE" RUNTIME="$RUNTIME" DESTDIR="$tree" PREFIX=/usr SBINDIR=/usr/sbin
mv "$tree"/usr/* "$tree"
rmdir "$tree/usr"
rm -r "$tree/sbin"
cp README.md CHANGELOG.md LICENSE-APACHE LICENSE-MIT "$tree"
scripts/sbom.py > "$tree/sbom.cdx.json"
cat > "$tree/Makefile" <<'MAKE'
# Installs what is here: make install [PREFIX=/usr/local] [SBINDIR=/sbin] [DESTDIR=]
PREFIX ?= /usr/local
SBINDIR ?= /sbin
DESTDIR ?=
NAMES = mkfs.shale mount.shale mount.fuse.shale fsck.shale
FILES = $(shell find bin lib share -type f)
install:
	for file in $(FILES); do install -D -m $$(stat -c %a $$file) $$file $(DESTDIR)$(PREFIX)/$$file || exit 1; done
	install -d $(DESTDIR)$(SBINDIR)
	for name in $(NAMES); do ln -sf $(abspath $(PREFIX))/bin/shale $(DESTDIR)$(SBINDIR)/$$name; done
uninstall:
	rm -f $(FILES:%=$(DESTDIR)$(PREFIX)/%) $(NAMES:%=$(DESTDIR)$(SBINDIR)/%)
MAKE
mkdir -p "$out"
archive=$out/$name.tar.xz
tar -C "$work" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$epoch" -cf - "$name" |
  xz "${XZ_LEVEL:--9e}" > "$archive.part"
mv "$archive.part" "$archive"
(cd "$out" && sha256sum "$name.tar.xz" > "$name.tar.xz.sha256")
echo "dist: $archive, $(stat -c %s "$archive") bytes; the command has $(stat -c %s "$tree/bin/shale") bytes"
if ldd "$tree/bin/shale" 2>/dev/null | grep -q '=>'; then
  echo "dist: the command is not static: it was given in SHALE" >&2
fi
