# The words a person types. Each installs what it needs and is missing (scripts/need.sh).

PREFIX ?= /usr/local
# mount(8) and fsck(8) look for helpers here and nowhere below PREFIX.
SBINDIR ?= /sbin
DESTDIR ?=
CARGO_TARGET_DIR ?= target
FUZZ_SECONDS ?= 60
# A tree that is on every machine; for numbers that mean something, name your own.
TREES ?= /usr/include
# A relative path would mean another folder to every program that is started elsewhere.
override CARGO_TARGET_DIR := $(abspath $(CARGO_TARGET_DIR))
export CARGO_TARGET_DIR
SHALE = $(CARGO_TARGET_DIR)/release/shale

.PHONY: help build demo test install uninstall bench fuzz golden tidy

help:
	@echo "make build     the shale command, in target/release"
	@echo "make demo      pack a tree of this machine, mount it, compare every byte and attribute"
	@echo "make test      all checks, as CI runs them"
	@echo "make install   shale into PREFIX (default /usr/local), mount.shale and its kin into SBINDIR (/sbin)"
	@echo "make uninstall takes them away again"
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

demo: build
	@SHALE=$(SHALE) scripts/demo.sh $(TREE)

test: rust
	@scripts/test.sh

NAMES = mkfs.shale mount.shale fsck.shale
BASH_COMPLETIONS = $(PREFIX)/share/bash-completion/completions

install: build
	install -D -m 755 $(SHALE) $(DESTDIR)$(PREFIX)/bin/shale
	install -d $(DESTDIR)$(SBINDIR) $(DESTDIR)$(PREFIX)/share/man/man1
	for name in $(NAMES); do ln -sf $(abspath $(PREFIX))/bin/shale $(DESTDIR)$(SBINDIR)/$$name; done
	$(SHALE) man --dir $(DESTDIR)$(PREFIX)/share/man/man1
	install -d $(DESTDIR)$(BASH_COMPLETIONS)
	$(SHALE) completions bash > $(DESTDIR)$(BASH_COMPLETIONS)/shale

uninstall:
	rm -f $(DESTDIR)$(PREFIX)/bin/shale $(DESTDIR)$(BASH_COMPLETIONS)/shale
	rm -f $(NAMES:%=$(DESTDIR)$(SBINDIR)/%)
	rm -f $(DESTDIR)$(PREFIX)/share/man/man1/shale.1 $(DESTDIR)$(PREFIX)/share/man/man1/shale-*.1

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
