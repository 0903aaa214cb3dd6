#!/usr/bin/env bash
# Writes the golden images of this version's format into testdata/images, those that are missing.
#
# usage: golden.sh        environment: SHALE, the command to use (default: target/release/shale)
# A golden image is never written again: it is what this version wrote, for ever. Next to each image
# is the manifest of its newest tree. An image is kept only if it holds exactly what its manifest
# says, and only if `check` finds no problem in it.
# Needs root and a file system in memory, so that nothing of the trees is left out.
set -euo pipefail
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-target}
shale=${SHALE:-$target/release/shale}
[ "$(id -u)" -eq 0 ] || { echo "golden: needs root, for devices and owners" >&2; exit 1; }

cargo build --quiet --package shale-tests --bin shale-tree
tree=$target/debug/shale-tree
# Each version has images of what it brought: 0.1 of every table and content, 0.2 of identity and
# parity, 0.3 of lines as columns, and of everything that the images of 0.1 and 0.2 do not use, 0.4
# of what came with it.
version=0.3
work=$(mktemp -d -p /dev/shm)
trap 'rm -rf "$work"' EXIT
mkdir -p testdata/images

# create NAME TREE OPTIONS...: an image that the command writes.
create() {
  local name=$1 of=$2
  shift 2
  missing "$name" || return 0
  make_tree "$of"
  "$shale" create -q "$@" "$work/$of" -o "$work/$name.shale"
  keep "$name" "$of"
}

# appended NAME TREE TREES...: an image of the first tree to which the others were appended.
appended() {
  local name=$1 of=$2
  missing "$name" || return 0
  make_tree "$of"
  "$shale" create -q --snapshot 0 "$work/$of" -o "$work/$name.shale"
  shift 2
  local number=0
  for of in "$@"; do
    make_tree "$of"
    number=$((number + 1))
    "$shale" append -q --snapshot "$number" "$work/$name.shale" "$work/$of"
  done
  keep "$name" "$of"
}

# hand NAME TREES...: an image made by hand (crates/shale-tests/src/handmade.rs) out of plain images
# of these trees, of which the last one is the newest tree of the image.
hand() {
  local name=$1 of
  shift
  missing "$name" || return 0
  local images=()
  for of in "$@"; do
    make_tree "$of"
    "$shale" create -q -f --level 0 "$work/$of" -o "$work/$of.plain"
    images+=("$work/$of.plain")
  done
  "$tree" hand "$name" "$work/$name.shale" "${images[@]}"
  keep "$name" "$of"
}

# thin NAME BASE TREE: a thin image of a tree over a golden image that is there already.
thin() {
  local name=$1 base=$2 of=$3
  local file=testdata/images/$version-$name.thin
  [ ! -e "$file" ] || { echo "golden: $file exists and stays as it is"; return 0; }
  make_tree "$of"
  cp "testdata/images/$base.shale" "$work/"
  "$shale" create -q --snapshot thin --base "$work/$base.shale" "$work/$of" -o "$work/$name.thin"
  "$shale" check -q "$work/$name.thin" || { echo "golden: $name has problems" >&2; exit 1; }
  "$shale" merge -q --thick "$work/$name.thin" -o "$work/$name.whole"
  "$tree" manifest "$work/$name.whole" | diff -u "$work/$of.manifest" - > "$work/differences" || {
    echo "golden: $name does not hold its tree; it was not kept" >&2
    exit 1
  }
  cp "$work/$of.manifest" "testdata/images/$version-$name.manifest"
  cp "$work/$name.thin" "$file"
  echo "golden: wrote $file, $(stat -c %s "$file") bytes"
}

missing() {
  [ -e "testdata/images/$version-$1.shale" ] || return 0
  echo "golden: testdata/images/$version-$1.shale exists and stays as it is"
  return 1
}

make_tree() {
  [ -e "$work/$1.manifest" ] && return
  case $1 in
    streams) scripts/golden-streams.py "$work/$1" ;;
    *) "$tree" golden "$1" "$work/$1" ;;
  esac
  "$tree" manifest "$work/$1" > "$work/$1.manifest"
}

# keep NAME TREE: moves the image into place if it is right.
keep() {
  local image=$work/$1.shale
  if ! "$tree" manifest "$image" | diff -u "$work/$2.manifest" - > "$work/differences"; then
    head -n 20 "$work/differences"
    echo "golden: $1 does not hold its tree; it was not kept" >&2
    exit 1
  fi
  "$shale" check -q "$image" || { echo "golden: $1 has problems; it was not kept" >&2; exit 1; }
  cp "$work/$2.manifest" "testdata/images/$version-$1.manifest"
  cp "$image" "testdata/images/$version-$1.shale"
  echo "golden: wrote testdata/images/$version-$1.shale, $(stat -c %s "$image") bytes"
}

create tiny tiny
create parity tiny --parity 5%
create lines lines
create names names
create lz4 texts --level 6 --codec lz4:hc=9 --frame-size 4K
create lzma texts --level 7 --frame-size 4K
hand small hello
hand filters code
# Needs a build that encodes brotli.
hand brotli window
hand references texts
hand index names
hand ignored tiny
hand snapshots tiny later
hand parity-blocks log

# An image of 0.3 that is missing cannot be written any more: these are of the present version.
version=0.4
create tiny tiny
create arrays arrays --frame-size 32K
thin over-tiny 0.3-tiny later
create samples samples
appended bases before before bases
# Other pages have prefixes than in the image that is there: now most of these are patches.
appended prefixes before bases before bases
hand parity-extended log
appended patches before bases before bases
appended roots before bases before bases before bases before bases
appended named-roots tiny later tiny
create streams streams --recompress=on --frame-size 32K
