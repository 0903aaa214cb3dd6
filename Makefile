# The commands a person types. Each installs the tools that it needs and that are missing
# (scripts/need.sh).

PREFIX ?= /usr/local
# mount(8) and fsck(8) look for helpers here and nowhere below PREFIX.
SBINDIR ?= /sbin
DESTDIR ?=
CARGO_TARGET_DIR ?= target
FUZZ_SECONDS ?= 60
SOAK_SECONDS ?= 3600
# A tree that is on every machine; for numbers that mean something, name your own.
TREES ?= /usr/include
# A relative path would mean another folder to every program that is started elsewhere.
override CARGO_TARGET_DIR := $(abspath $(CARGO_TARGET_DIR))
export CARGO_TARGET_DIR
SHALE = $(CARGO_TARGET_DIR)/release/shale
# The executable that `shale bundle` puts before an image; its name ends with the processor.
MACHINE ?= $(shell uname -m)
RUNTIME = $(CARGO_TARGET_DIR)/bundle/runtime-$(MACHINE)

.PHONY: help build demo check test soak install uninstall bench fuzz golden tidy

help:
	@echo "make build     the shale command, in target/release"
	@echo "make runtime   the static runtime of bundles, in target/bundle"
	@echo "make demo      pack a tree of this machine, mount it, compare every byte and attribute"
	@echo "make check     what to run before a commit: no root, no network, a few minutes"
	@echo "make test      everything, as CI runs it; a skipped test is a failure"
	@echo "make soak      an hour of fuzzing, stress, damage and kills (SOAK_SECONDS)"
	@echo "make test-python  the Python package, in a virtual environment"
	@echo "make test-engines  the Python package on Ray and Spark"
	@echo "make wheel     the Python package: wheels with and without the compiled module, in target/wheels"
	@echo "make install   shale into PREFIX (default /usr/local), mount.shale and other helpers into SBINDIR (/sbin)"
	@echo "make install-capi  libshale, for C: library, header and pkg-config file"
	@echo "make uninstall takes them away again"
	@echo "make deb       a Debian package, in target/deb"
	@echo "make dist      a tarball with a static command, in target/dist"
	@echo "make sbom      the crates that are built in, as CycloneDX"
	@echo "make bench     measure against other programs, on TREES"
	@echo "make fuzz      search for inputs that break the reader (FUZZ_SECONDS a target)"
	@echo "make golden    write golden images of this format version that are not there yet"

rust:
	@command -v cargo >/dev/null 2>&1 || { \
	  echo "cargo is missing: install Rust 1.95 or newer (rustup.rs)" >&2; exit 1; }
.PHONY: rust

build: rust
	@scripts/need.sh cc=build-essential cmake
	cargo build --release --package shale-cli

.PHONY: runtime
runtime: rust
	@scripts/runtime.sh $(RUNTIME)

demo: build
	@SHALE=$(SHALE) scripts/demo.sh $(TREE)

check: rust
	@scripts/test.sh check

test: rust
	@scripts/test.sh test

soak: rust
	@SOAK_SECONDS=$(SOAK_SECONDS) scripts/soak.sh

.PHONY: test-python test-engines wheel
wheel: rust
	@scripts/wheel.sh

test-python:
	@scripts/test-python.sh

test-engines: rust
	@scripts/test-engines.sh

NAMES = mkfs.shale mount.shale mount.fuse.shale fsck.shale
BASH_COMPLETIONS = $(PREFIX)/share/bash-completion/completions
ZSH_COMPLETIONS = $(PREFIX)/share/zsh/site-functions
FISH_COMPLETIONS = $(PREFIX)/share/fish/vendor_completions.d
COMPLETIONS = $(BASH_COMPLETIONS)/shale $(ZSH_COMPLETIONS)/_shale $(FISH_COMPLETIONS)/shale.fish
MAN = $(DESTDIR)$(PREFIX)/share/man
# STRIP=true installs the command with its line numbers.
STRIP ?= strip

install: build runtime
	install -D -m 755 -s --strip-program=$(STRIP) $(SHALE) $(DESTDIR)$(PREFIX)/bin/shale
	install -D -m 755 $(RUNTIME) $(DESTDIR)$(PREFIX)/lib/shale/runtime-$(MACHINE)
	install -d $(DESTDIR)$(SBINDIR) $(MAN)/man1 $(dir $(COMPLETIONS:%=$(DESTDIR)%))
	for name in $(NAMES); do ln -sf $(abspath $(PREFIX))/bin/shale $(DESTDIR)$(SBINDIR)/$$name; done
	$(SHALE) man --dir $(MAN)/man1
	install -D -m 644 docs/man/shale.5 $(MAN)/man5/shale.5
	install -D -m 644 docs/man/mount.shale.8 $(MAN)/man8/mount.shale.8
	$(SHALE) completions bash > $(DESTDIR)$(BASH_COMPLETIONS)/shale
	$(SHALE) completions zsh > $(DESTDIR)$(ZSH_COMPLETIONS)/_shale
	$(SHALE) completions fish > $(DESTDIR)$(FISH_COMPLETIONS)/shale.fish

.PHONY: deb dist sbom
deb: build runtime
	@SHALE=$(SHALE) RUNTIME=$(RUNTIME) scripts/deb.sh

dist: rust
	@scripts/dist.sh

sbom: rust
	@scripts/sbom.py

.PHONY: build-capi install-capi uninstall-capi
build-capi: rust
	@scripts/need.sh cc=build-essential cmake
	cargo build --release --package shale-capi

CAPI = crates/shale-capi
VERSION = $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
CAPI_LIBRARY = $(CARGO_TARGET_DIR)/release/libshale_capi
LIBDIR = $(DESTDIR)$(PREFIX)/lib

install-capi: build-capi
	install -D -m 644 $(CAPI)/include/shale.h $(DESTDIR)$(PREFIX)/include/shale.h
	install -D -m 755 $(CAPI_LIBRARY).so $(LIBDIR)/libshale.so.$(VERSION)
	install -D -m 644 $(CAPI_LIBRARY).a $(LIBDIR)/libshale.a
	ln -sf libshale.so.$(VERSION) $(LIBDIR)/libshale.so.0
	ln -sf libshale.so.0 $(LIBDIR)/libshale.so
	install -d $(LIBDIR)/pkgconfig
	sed 's|@PREFIX@|$(abspath $(PREFIX))|; s|@VERSION@|$(VERSION)|' $(CAPI)/shale.pc.in > $(LIBDIR)/pkgconfig/shale.pc

uninstall-capi:
	rm -f $(DESTDIR)$(PREFIX)/include/shale.h $(LIBDIR)/pkgconfig/shale.pc
	rm -f $(LIBDIR)/libshale.a $(LIBDIR)/libshale.so $(LIBDIR)/libshale.so.0 $(LIBDIR)/libshale.so.$(VERSION)

uninstall:
	rm -f $(DESTDIR)$(PREFIX)/bin/shale $(COMPLETIONS:%=$(DESTDIR)%)
	rm -f $(NAMES:%=$(DESTDIR)$(SBINDIR)/%)
	rm -f $(DESTDIR)$(PREFIX)/lib/shale/runtime-$(MACHINE)
	rmdir $(DESTDIR)$(PREFIX)/lib/shale 2>/dev/null || true
	rm -f $(MAN)/man1/shale.1 $(MAN)/man1/shale-*.1 $(MAN)/man5/shale.5 $(MAN)/man8/mount.shale.8

# Needs root, as it mounts images and drops caches.
bench: build
	@scripts/need.sh python3 fusermount3=fuse3 mksquashfs=squashfs-tools squashfuse_ll=squashfuse \
	  mkfs.erofs=erofs-utils wimcapture=wimtools zpaq lrzip xz=xz-utils zstd
	python3 bench/bench.py --shale $(SHALE) --out out/bench $(TREES)

fuzz: rust
	@scripts/need.sh cc=build-essential cmake
	@FUZZ_SECONDS=$(FUZZ_SECONDS) scripts/fuzz.sh

golden: build
	@SHALE=$(SHALE) scripts/golden.sh

tidy: rust
	cargo xtask tidy
