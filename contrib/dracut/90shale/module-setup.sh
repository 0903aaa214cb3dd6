#!/bin/bash
# Puts ShaleFS into an initramfs of dracut. See docs/guide/root-file-system.md. Install the directory as
# /usr/lib/dracut/modules.d/90shale.

# shale_command: prints where the command is. dracut does not look where `make install` puts it.
shale_command() {
  PATH=$PATH:/usr/local/bin command -v shale
}

check() {
  shale_command > /dev/null || {
    derror "shale: the command is not installed"
    return 1
  }
  # Only where it is asked for: dracut --add shale.
  return 255
}

depends() {
  echo base
}

installkernel() {
  instmods fuse overlay loop erofs
}

install() {
  inst_multiple cat grep mkdir mount sleep
  inst "$(shale_command)" /usr/bin/shale
  # systemd ends all processes before it starts the final system and before it powers off, but not
  # those whose name begins with this character: the driver of the root file system has to stay.
  ln -sf shale "${initdir}/usr/bin/@shale"
  inst_hook cmdline 90 "$moddir/parse-shale.sh"
  inst_hook mount 50 "$moddir/mount-shale.sh"
}
