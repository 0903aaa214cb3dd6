# Functions for scripts that test the Python package; they run `.` on this file in the folder of the project.

# new_venv NAME EXTRAS: makes a virtual environment below the target folder, unless it is there, and installs the
# package in it. Sets `target` and `venv`.
new_venv() {
  scripts/need.sh python3
  target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
  venv=$target/$1-venv
  python3 -c 'import venv, ensurepip' 2>/dev/null || scripts/need.sh ensurepip=python3-venv
  if [ ! -x "$venv/bin/python" ]; then
    mkdir -p "$target"
    python3 -m venv "$venv"
  fi
  # Building leaves files beside the sources, so a copy is built.
  local copy=$target/$1-package
  rm -rf "$copy"
  cp -r python "$copy"
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "$copy[$2]"
}

# with_module: puts the compiled module of a debug build into the environment until the script ends. `make wheel`
# packs that of a release build.
with_module() {
  [ -e "$target/debug/lib_native.so" ] || cargo build --quiet --workspace
  module=$("$venv/bin/python" -c 'import os, shalefs; print(os.path.dirname(shalefs.__file__))')/_native.abi3.so
  cp "$target/debug/lib_native.so" "$module"
  trap 'rm -f "$module"' EXIT
}
