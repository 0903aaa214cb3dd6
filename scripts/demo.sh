#!/usr/bin/env bash
# Packs a real tree of this machine, mounts the image and compares every byte and every attribute
# through the mount, with programs that know nothing of ShaleFS.
#
# usage: demo.sh [TREE]       (without TREE: the smallest known folder of at least 5,000 files that compresses)
# environment: SHALE, the command to use (default: target/release/shale)
# Copies nothing and changes nothing outside a temporary folder; unmounts however it ends.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/need.sh fusermount3=fuse3 rsync diff=diffutils find=findutils getfattr=attr

shale=${SHALE:-${CARGO_TARGET_DIR:-target}/release/shale}
files_min=5000
# Least ratio of a sample by gzip: media are compressed already and show nothing. Of compressed manual pages, what
# is in them counts, as the image stores that.
ratio_min=2

count_files() { find "$1" -xdev -type f 2>/dev/null | wc -l; }

# The ratio by gzip of about 300 files, spread over a folder.
sample_ratio() {
  local count
  count=$(count_files "$1")
  find "$1" -xdev -type f -print0 2>/dev/null | sort -z |
    awk -v RS='\0' -v ORS='\0' -v step=$((count / 300 + 1)) 'NR % step == 0' > "$work/sample"
  xargs -0 zcat -f -- < "$work/sample" 2>/dev/null > "$work/plain" || true
  awk -v a="$(stat -c %s "$work/plain")" -v b="$(gzip -1c "$work/plain" | wc -c)" \
    'BEGIN { printf "%d", a / b }'
  rm -f "$work/sample" "$work/plain"
}

# Folders that Debian and Rust bring; /usr is on every machine and large enough on all of them.
choose() {
  local best="" best_count=0 folder count
  for folder in /usr/include /usr/lib/python3* /usr/share/doc /usr/share/man /usr/share /usr/lib \
      "${CARGO_HOME:-$HOME/.cargo}/registry/src"; do
    [ -d "$folder" ] || continue
    count=$(count_files "$folder")
    if [ "$count" -ge "$files_min" ] && { [ -z "$best" ] || [ "$count" -lt "$best_count" ]; } &&
        [ "$(sample_ratio "$folder")" -ge "$ratio_min" ]; then
      best=$folder best_count=$count
    fi
  done
  echo "${best:-/usr}"
}

work=$(mktemp -d)
tree=${1:-$(choose)}
image=$work/demo.shale
mount=$work/mount
mkdir "$mount"
clean() {
  status=$?
  trap - EXIT
  if mountpoint -q "$mount"; then
    "$shale" umount "$mount" || fusermount3 -u "$mount" || fusermount3 -uz "$mount" || true
  fi
  mountpoint -q "$mount" || rm -rf "$work"
  exit $status
}
trap clean EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

seconds() { date +%s.%N; }
since() { awk -v a="$1" -v b="$(seconds)" 'BEGIN { printf "%.1f", b - a }'; }
mib() { awk -v n="$1" 'BEGIN { printf "%.1f", n / 1048576 }'; }
step() { printf '\n== %s\n' "$*"; }

files=$(count_files "$tree")
plain=$(find "$tree" -xdev -type f -printf '%s\n' 2>/dev/null | awk '{ n += $1 } END { printf "%d", n }')
step "the tree: $tree, $files files, $(mib "$plain") MiB"

step "shale create --recompress $tree -o demo.shale"
start=$(seconds)
"$shale" create --recompress=on "$tree" -o "$image"
create=$(since "$start")
# Compressed files that are stored as what is in them, if there are any.
"$shale" info "$image" | grep 'compressed streams' || true

step "shale mount demo.shale"
start=$(seconds)
"$shale" mount "$image" "$mount"
mounted=$(since "$start")
ls "$mount" | head -n 5

step "diff -r --no-dereference: every byte, every name, every link"
start=$(seconds)
# Of two devices, pipes or sockets diff only says that both are one: that is equality here.
if ! diff -r --no-dereference "$tree" "$mount" > "$work/diff" 2>&1; then
  if grep -vE '^File .* is a (.*) while file .* is a \1$' "$work/diff" | grep . | head -n 20; then
    echo "demo: the mount differs from the tree" >&2
    exit 1
  fi
fi
compare=$(since "$start")
echo "no difference"

step "rsync -nacXAH --delete --itemize-changes: every attribute, ACL and hard link"
start=$(seconds)
rsync -nacXAH --delete --itemize-changes "$tree/" "$mount/" > "$work/rsync" 2>&1 || {
  cat "$work/rsync"
  echo "demo: rsync could not compare" >&2
  exit 1
}
if [ -s "$work/rsync" ]; then
  head -n 20 "$work/rsync"
  echo "demo: attributes differ" >&2
  exit 1
fi
attributes=$(since "$start")
echo "nothing to change"

step "shale umount"
"$shale" umount "$mount"
mountpoint -q "$mount" && { echo "demo: still mounted" >&2; exit 1; }

stored=$(stat -c %s "$image")

# What other programs make of it. They are not installed for this.
others=()
if command -v xz > /dev/null; then
  step "tar | xz -T0"
  xz_len=$(tar -C "$tree" --one-file-system -cf - . 2>/dev/null | xz -T0 -c | wc -c)
  others+=("tar | xz" "$(mib "$xz_len") MiB")
fi
if command -v mksquashfs > /dev/null; then
  step "mksquashfs -comp zstd"
  mksquashfs "$tree" "$work/demo.squashfs" -comp zstd -no-progress -quiet > /dev/null 2>&1 || true
  if [ -s "$work/demo.squashfs" ]; then
    others+=("mksquashfs, zstd" "$(mib "$(stat -c %s "$work/demo.squashfs")") MiB")
  fi
fi

step "result"
printf '%-28s %12s\n' \
  "tree" "$(mib "$plain") MiB" "image" "$(mib "$stored") MiB" "${others[@]}" \
  "ratio" "$(awk -v a="$plain" -v b="$stored" 'BEGIN { printf "%.2f", a / b }')" \
  "create, verified" "$create s" "mount" "$mounted s" \
  "compare bytes by diff" "$compare s" "compare attributes by rsync" "$attributes s"
echo "demo: the mount of $files files equals its source"
