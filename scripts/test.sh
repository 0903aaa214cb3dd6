#!/usr/bin/env bash
# Runs the checks of the project, with a summary at the end.
#
# usage: test.sh [check|test]     environment: CARGO_TARGET_DIR as for cargo
#
# check  what an engineer runs before a commit: no root and no network, a few minutes. Tests that
#        need more are left out (those in crates/shale-tests/tests/it/long) or say `skipped:`.
# test   everything, as CI runs it (default). Missing tools are installed. A test that is skipped is
#        a failure: the machine lacks something that CI has to have.
#
# Every stage runs even if an earlier one failed, so one run shows everything there is to fix. Ends
# with status 1 if a stage failed. Reads no input, leaves no mount and no process.
set -uo pipefail
cd "$(dirname "$0")/.."
exec < /dev/null
export CARGO_TERM_COLOR=${CARGO_TERM_COLOR:-never}

tier=${1:-test}
case $tier in
  check | test) ;;
  *) echo "usage: test.sh [check|test]" >&2; exit 2 ;;
esac
command -v cargo >/dev/null 2>&1 || {
  echo "test: cargo is missing; install Rust 1.95 or newer (rustup.rs)" >&2
  exit 1
}
if [ "$tier" = test ]; then
  scripts/need.sh cc=build-essential cmake git fusermount3=fuse3 rsync getfattr=attr getfacl=acl \
    setcap=libcap2-bin mmdebstrap diff=diffutils bsdtar=libarchive-tools python3 \
    mksquashfs=squashfs-tools zip unzip cpio setpriv=util-linux mkfs.ext4=e2fsprogs \
    dpkg-deb=dpkg compress=ncompress lzip brotli nginx=nginx-light skopeo umoci 7zz=7zip xorriso \
    genisoimage mkfs.erofs=erofs-utils gcab cabextract curl rclone cadaver \
    mount.davfs=davfs2 openssl node=nodejs npm age findmnt=util-linux \
    tmux matchpathcon=selinux-utils mtree=mtree-netbsd || exit 1
fi

# Syncing costs nothing in memory. `make test` stays on the disk, as users are.
if [ "$tier" = check ] && [ "$(df -m --output=avail /dev/shm 2>/dev/null | tail -n 1)" -ge 4096 ] 2>/dev/null; then
  export TMPDIR=/dev/shm
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
mkdir -p "$target" || exit 1

# room: prints the free space where programs are built and where tests keep their trees and images.
room() {
  printf 'free: %s MB in %s, %s MB in %s\n' \
    "$(df -m --output=avail "$target" | tail -n 1 | tr -d ' ')" "$target" \
    "$(df -m --output=avail "$work" | tail -n 1 | tr -d ' ')" "${work%/*}"
}

names=() results=() times=()
passed=0 failed=0 skipped=0

# stage NAME COMMAND...: runs the command, shows its output, counts its tests.
stage() {
  local name=$1 log=$work/log start=$SECONDS status
  shift
  printf '\n=== %s: %s\n' "$name" "$*"
  "$@" 2>&1 | tee "$log"
  status=${PIPESTATUS[0]}
  grep -h 'skipped: \|SKIPPED: ' "$log" | sed "s/^/$name: /" >> "$work/skipped"
  counts=$(awk '/^test result:/ { for (i = 1; i < NF; i++) {
      if ($(i + 1) == "passed;") p += $i
      if ($(i + 1) == "failed;") f += $i
      if ($(i + 1) == "ignored;") s += $i } }
    /skipped: |SKIPPED: / { s += 1 }
    END { print p + 0, f + 0, s + 0 }' "$log")
  read -r p f s <<< "$counts"
  # A stage that runs no tests counts as one.
  if [ $((p + f)) -eq 0 ]; then
    if [ "$status" -eq 0 ]; then p=1; else f=1; fi
  elif [ "$status" -ne 0 ] && [ "$f" -eq 0 ]; then
    f=1
  fi
  passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
  names+=("$name") times+=($((SECONDS - start)))
  if [ "$status" -eq 0 ]; then
    results+=("ok, $p passed")
  else
    results+=("FAILED, $f of $((p + f))")
    # A linker or a test on a full disk does not always name the reason.
    room
  fi
}

# unhung CARGO...: runs cargo. Whenever half an hour has passed, says which processes there are and what
# they wait for, and kills the program that cargo runs, so that it goes on with the next one.
unhung() {
  local shell=$BASHPID watcher status
  {
    until timeout 1800 tail --pid="$shell" -f /dev/null; do
      echo "test: this takes too long: $*"
      ps -eo pid,ppid,stat,etime,wchan:32,args | cut -c 1-200
      pkill -KILL -P "$(pgrep -P "$shell" -x "$1")"
    done
  } &
  watcher=$!
  "$@"
  status=$?
  kill "$watcher"
  return "$status"
}

shell_syntax() {
  local script
  for script in scripts/*.sh bench/*.sh .ci/run; do
    [ -e "$script" ] || continue
    bash -n "$script" || return 1
  done
}

# beside NAME COMMAND...: starts the command, whose output and status `ended NAME` gives later.
beside() {
  local name=$1
  shift
  { "$@" > "$work/$name" 2>&1; echo $? > "$work/$name.status"; } &
}

ended() {
  cat "$work/$1"
  return "$(cat "$work/$1.status")"
}

demo_nasty() {
  local tree=$work/nasty
  mkdir "$tree" && "$target/debug/shale-tree" nasty "$tree" 1 && scripts/demo.sh "$tree"
}

room
stage "format" cargo fmt --all --check
stage "tidy" cargo xtask tidy
stage "shell" shell_syntax
stage "deny" python3 scripts/deny.py
stage "clippy" cargo clippy --quiet --workspace --all-targets -- -D warnings
# A program of an earlier run must not hide that this one does not build.
rm -f "$target/debug/shale" "$target/debug/shale-tree"
# All stages build the whole workspace, its tests included. A part of it, or programs alone, have other
# features, and a later stage would build most crates again.
stage "build" cargo build --quiet --workspace --lib --bins --tests
export SHALE=$target/debug/shale
# Many tests wait for a disk or a process: with two of them for each core no core waits.
export RUST_TEST_THREADS=${RUST_TEST_THREADS:-$(($(nproc) * 2))}
if [ "$tier" = check ]; then
  stage "tests" unhung cargo test --no-fail-fast --workspace --tests -- --skip long::
else
  # They wait for packages most of the time.
  beside s3 scripts/test-s3.sh
  beside stores scripts/test-stores.sh
  # The output of tests that pass is shown for the reasons of those that were skipped.
  stage "tests" unhung cargo test --no-fail-fast --workspace --tests -- --show-output
  stage "examples" cargo test --no-fail-fast --workspace --doc
  stage "python" scripts/test-python.sh
  wait
  stage "s3" ended s3
  stage "stores" ended stores
  stage "demo" demo_nasty
fi

printf '\n=== summary\n'
for i in "${!names[@]}"; do
  printf '%-10s %6d s   %s\n' "${names[$i]}" "${times[$i]}" "${results[$i]}"
done
printf 'total      %6d s\n\n' "$SECONDS"
if [ "$tier" = test ] && [ "$skipped" -gt 0 ]; then
  cat "$work/skipped"
  echo "test: what is skipped here is not tested anywhere"
  failed=$((failed + skipped))
fi
printf '%d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
[ "$failed" -eq 0 ]
