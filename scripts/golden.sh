#!/usr/bin/env bash
# Writes golden images of this version's format into testdata/images, those that are not there yet.
#
# usage: golden.sh        environment: SHALE, the command to use (default: target/release/shale)
# A golden image is never written again: it is what this version wrote, for ever. Beside each image
# lies the manifest of the tree it was made of; an image is kept only if what it holds equals that.
# Needs root and a file system in memory, so that nothing of the trees is left out.
set -euo pipefail
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-target}
shale=${SHALE:-$target/release/shale}
[ "$(id -u)" -eq 0 ] || { echo "golden: needs root, for devices and owners" >&2; exit 1; }

cargo build --quiet --package shale-tests --bin shale-tree
tree=$target/debug/shale-tree
# Each version has images of what it brought: 0.1 of every table and content, 0.2 of identity and
# parity, 0.3 of lines as columns.
version=0.3
work=$(mktemp -d -p /dev/shm)
trap 'rm -rf "$work"' EXIT
mkdir -p testdata/images
for name in tiny parity lines; do
  image=testdata/images/$version-$name.shale
  case $name in
    parity) of=tiny options=(--parity 5%) ;;
    *) of=$name options=() ;;
  esac
  if [ -e "$image" ]; then
    echo "golden: $image is there and stays as it is"
    continue
  fi
  "$tree" golden "$of" "$work/$name"
  "$tree" manifest "$work/$name" > "$work/$name.manifest"
  "$shale" create -q "${options[@]}" "$work/$name" -o "$work/$name.shale"
  "$tree" manifest "$work/$name.shale" | diff -u "$work/$name.manifest" - | head -n 20 || {
    echo "golden: $name does not come back; nothing was written" >&2
    exit 1
  }
  cp "$work/$name.manifest" "testdata/images/$version-$name.manifest"
  cp "$work/$name.shale" "$image"
  echo "golden: wrote $image, $(stat -c %s "$image") bytes"
done
