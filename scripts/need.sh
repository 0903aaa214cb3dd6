#!/usr/bin/env bash
# Makes sure that commands are there: installs the Debian packages of those that are missing.
#
# usage: need.sh COMMAND[=PACKAGE]...     (PACKAGE is named like its command if it is not given)
# Does nothing, and asks nobody, where all commands are there. Ends with status 1 and a message that
# names what to install by hand where it cannot install. Never touches what is there already.
set -euo pipefail

missing=()
for item in "$@"; do
  command=${item%%=*}
  package=${item#*=}
  # Commands for the administrator are not in everybody's PATH.
  if ! PATH="$PATH:/usr/sbin:/sbin" command -v "$command" >/dev/null 2>&1; then
    missing+=("$package")
  fi
done
[ ${#missing[@]} -gt 0 ] || exit 0

fail() {
  echo "need: $1" >&2
  echo "need: please install by hand: ${missing[*]}" >&2
  exit 1
}

command -v apt-get >/dev/null 2>&1 || fail "this is no Debian (there is no apt-get)"
as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null 2>&1 || fail "installing needs root, and there is no sudo"
  # Without a terminal sudo must not ask for a password: it would wait for ever.
  if [ -t 0 ]; then as_root=(sudo); else as_root=(sudo -n); fi
fi

echo "need: installing ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
apt() { "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o=Dpkg::Use-Pty=0 "$@"; }
if ! log=$( { apt update && apt install -y --no-install-recommends "${missing[@]}"; } 2>&1 ); then
  printf '%s\n' "$log" | tail -n 20 >&2
  fail "apt-get could not install"
fi
