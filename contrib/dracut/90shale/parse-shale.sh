#!/bin/sh
# Takes rd.shale=DEVICE, and waits for the device. It is not root=, as systemd would mount that itself.

shaledevice=$(getarg rd.shale=)
if [ -n "$shaledevice" ]; then
  shaledevice=$(label_uuid_to_dev "$shaledevice")
  echo "$shaledevice" > /tmp/shale.device
  # What dracut looks at to know that somebody mounts the root file system.
  # shellcheck disable=SC2034
  root=shale rootok=1
  wait_for_dev "$shaledevice"
fi
