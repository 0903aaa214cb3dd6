#!/bin/sh
# Mounts the image that rd.shale=DEVICE names, with a place for changes over it:
#
#   rd.shale=DEVICE [shaleimage=/PATH] [shaleoptions=OPTIONS] [shaleoverlay=tmpfs|none|DEVICE]
#
# The parameters are those of contrib/initramfs-tools/scripts/shale.
# shellcheck disable=SC2154

shale_fail() {
  warn "shale: $1"
  [ -e /run/shale/log ] && cat /run/shale/log >&2
  die "shale: $1"
}

shale_mount() {
  device=$(cat /tmp/shale.device)
  image=$(getarg shaleimage=)
  options=$(getarg shaleoptions=)
  overlay=$(getarg shaleoverlay=) || overlay=tmpfs
  modprobe -q fuse
  mkdir -p /run/shale/device /run/shale/image /run/shale/changes
  if [ -n "$image" ]; then
    mount -o ro "$device" /run/shale/device || shale_fail "cannot mount $device"
    image=/run/shale/device/${image#/}
  else
    image=$device
  fi
  # In the foreground, so that the driver is this process and keeps its name.
  @shale mount --foreground -o "allow_other,dev,suid${options:+,$options}" "$image" /run/shale/image \
    </dev/null >/run/shale/log 2>&1 &
  driver=$!
  until grep -q ' /run/shale/image fuse' /proc/mounts; do
    kill -0 "$driver" 2>/dev/null || shale_fail "cannot mount $image"
    sleep 0.1
  done
  if [ "$overlay" = none ]; then
    mount --move /run/shale/image "$NEWROOT" || shale_fail "cannot move the image"
    return
  fi
  modprobe -q overlay
  if [ "$overlay" = tmpfs ]; then
    mount -t tmpfs -o mode=755 tmpfs /run/shale/changes
  else
    mount "$(label_uuid_to_dev "$overlay")" /run/shale/changes
  fi || shale_fail "there is no place for changes"
  mkdir -p /run/shale/changes/upper /run/shale/changes/work
  mount -t overlay -o lowerdir=/run/shale/image,upperdir=/run/shale/changes/upper,workdir=/run/shale/changes/work \
    overlay "$NEWROOT" || shale_fail "cannot mount the overlay"
}

[ -e /tmp/shale.device ] && ! ismounted "$NEWROOT" && shale_mount
