#!/usr/bin/env bash
# Makes a Debian package of the shale command with dpkg's tools, and checks it with lintian where that is installed.
#
# usage: deb.sh [FOLDER]             (default: target/deb)
# environment: SHALE, the command to pack (default: target/release/shale); RUNTIME, the runtime of bundles
# (default: target/bundle/runtime-MACHINE, as `make runtime` builds it); SOURCE_DATE_EPOCH, the time of all files
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/need.sh dpkg-deb=dpkg dpkg-shlibdeps=dpkg-dev strip=binutils

target=${CARGO_TARGET_DIR:-target}
shale=${SHALE:-$target/release/shale}
runtime=${RUNTIME:-$target/bundle/runtime-$(uname -m)}
out=${1:-$target/deb}
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
architecture=$(dpkg --print-architecture)
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tree=$work/tree
mkdir -p "$tree"
make -s -o build -o runtime install SHALE="$shale" RUNTIME="$runtime" DESTDIR="$tree" PREFIX=/usr SBINDIR=/usr/sbin \
  ZSH_COMPLETIONS=/usr/share/zsh/vendor-completions
# Debian wants links within /usr to be relative, and compressed man pages.
for name in "$tree"/usr/sbin/*; do ln -sfn ../bin/shale "$name"; done
find "$tree/usr/share/man" -type f -exec gzip -9n {} +

doc=$tree/usr/share/doc/shale
mkdir -p "$doc" "$tree/DEBIAN"
gzip -9nc CHANGELOG.md > "$doc/changelog.gz"
{
  printf 'Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\nUpstream-Name: ShaleFS\n\n'
  printf 'Files: *\nCopyright: 2026 the ShaleFS authors\nLicense: Expat or Apache-2.0\n\nLicense: Expat\n'
  sed -e '1,/Permission is hereby/{/Permission is hereby/!d}' -e 's/^$/./' -e 's/^/ /' LICENSE-MIT
  printf '\nLicense: Apache-2.0\n The full text is in /usr/share/common-licenses/Apache-2.0.\n'
} > "$doc/copyright"
mkdir -p "$tree/usr/share/lintian/overrides"
cat > "$tree/usr/share/lintian/overrides/shale" <<'OVERRIDES'
# It was made for no bug of Debian.
shale: initial-upload-closes-no-bugs
# The names of mkfs, mount and fsck are those of shale(1), which explains them.
shale: no-manual-page [usr/sbin/fsck.shale]
shale: no-manual-page [usr/sbin/mkfs.shale]
shale: no-manual-page [usr/sbin/mount.fuse.shale]
# The start of files that run on any machine.
shale: statically-linked-binary [usr/lib/shale/runtime-*]
# C libraries are built in, in the versions that were tested and that images depend on.
shale: embedded-library *
OVERRIDES
maintainer="${DEBFULLNAME:-ShaleFS authors} <${DEBEMAIL:-shale@localhost.localdomain}>"
if [ -z "${DEBEMAIL:-}" ]; then
  {
    echo "# Whoever publishes the package sets DEBEMAIL."
    echo "shale: bogus-mail-host *"
    echo "shale: bogus-mail-host-in-debian-changelog *"
  } >> "$tree/usr/share/lintian/overrides/shale"
fi
{
  printf 'shale (%s-1) unstable; urgency=medium\n\n' "$version"
  printf '  * Release %s; changelog.gz lists the changes.\n\n' "$version"
  printf ' -- %s  %s\n' "$maintainer" "$(date -Rud "@$SOURCE_DATE_EPOCH")"
} | gzip -9n > "$doc/changelog.Debian.gz"

# dpkg-shlibdeps wants a source package around it.
mkdir -p "$work/debian"
printf 'Source: shale\n\nPackage: shale\nArchitecture: any\n' > "$work/debian/control"
depends=$(cd "$work" && dpkg-shlibdeps -O -e"$tree/usr/bin/shale" 2>/dev/null | sed -n 's/^shlibs:Depends=//p')
cat > "$tree/DEBIAN/control" <<CONTROL
Package: shale
Version: $version-1
Architecture: $architecture
Maintainer: $maintainer
Installed-Size: $(du -sk --apparent-size "$tree/usr" | cut -f 1)
${depends:+Depends: $depends
}Recommends: fuse3
Section: utils
Priority: optional
Description: pack a tree of files into one small image that can be mounted
 ShaleFS packs a tree into one compressed read-only image. An image is about as
 small as a solid archive, and a read costs the same whether the image holds one
 day of logs or one year. Images are mounted through FUSE or through the EROFS
 of the kernel, checked, repaired, signed, searched and compared.
CONTROL
(cd "$tree" && find usr -type f -print0 | sort -z | xargs -0 md5sum > DEBIAN/md5sums)
find "$tree" -type d -exec chmod 755 {} +
mkdir -p "$out"
package=$out/shale_$version-1_$architecture.deb
dpkg-deb --root-owner-group -Zxz --build "$tree" "$package" > /dev/null
echo "deb: $package, $(stat -c %s "$package") bytes"
if command -v lintian > /dev/null; then
  lintian --fail-on error,warning "$package"
else
  echo "deb: lintian is not installed, so the package was not checked"
fi
