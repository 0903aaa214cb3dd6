//! Examples and related pages of each subcommand, for the man pages.

/// A command, and what it does.
type Example = (&'static str, &'static str);

/// Returns the examples and the related pages of a subcommand; the empty name is `shale` itself.
pub fn of(name: &str) -> (&'static [Example], &'static [&'static str]) {
    match name {
        "" => (
            &[
                ("shale create project -o project.shale", "Packs a directory."),
                ("shale mount project.shale /mnt", "Mounts the image."),
                ("shale umount /mnt", "Unmounts it."),
                ("shale extract project.shale -C restored", "Unpacks it."),
            ],
            &[
                "shale-create(1)",
                "shale-mount(1)",
                "shale-extract(1)",
                "shale-info(1)",
                "shale-check(1)",
                "shale(5)",
                "mount.shale(8)",
            ],
        ),
        "create" => (
            &[
                ("shale create ~/project -o project.shale", "Packs a directory at level 6."),
                ("shale create -1 logs -o logs.shale", "Packs quickly."),
                (
                    "shale create app=/opt/app conf=/etc base.tar.zst=/ -o system.shale",
                    "Packs several sources, each below a directory of the image.",
                ),
                (
                    "shale create ~ -o home.shale --exclude-caches --exclude '*.o' --max-size 1G",
                    "Leaves out caches, object files and files of more than 1 GiB.",
                ),
                (
                    "shale create app -o app.shale --rule '*.log: level=9' --rule '/bin/: codec=lz4'",
                    "Packs some files smaller, and others so that they are read faster.",
                ),
                (
                    "shale create dist -o dist.shale --all-root --mtime 2024-01-31T00:00:00Z",
                    "Gives the same bytes on every machine.",
                ),
                (
                    "tar c /etc | shale create - -o etc.shale --parity 5%",
                    "Packs a tar archive from a pipe, protected against damage.",
                ),
                (
                    "shale create /srv --base week.shale -o monday.shale",
                    "Makes a thin image: only what is new over the base.",
                ),
            ],
            &["shale-rewrite(1)", "shale-info(1)", "shale-mount(1)", "shale(5)"],
        ),
        "bundle" => (
            &[
                (
                    "shale bundle app.dir -o app --run bin/app",
                    "Makes one file that runs; ./app --appimage-help tells more.",
                ),
                (
                    "shale bundle app.dir -o app --run bin/app --train -- --version",
                    "Runs the program once, with --version, and stores what it reads first.",
                ),
                (
                    "shale bundle app.shale -o app --run bin/app",
                    "Takes an image as it is, with its signature.",
                ),
            ],
            &["shale-create(1)", "shale-sign(1)", "shale-mount(1)", "fusermount3(1)"],
        ),
        "rewrite" => (
            &[("shale rewrite old.shale -o new.shale -9", "Packs an image again at level 9.")],
            &["shale-create(1)", "shale-parity(1)"],
        ),
        "mount" => (
            &[
                ("shale mount image.shale /mnt", "Mounts an image; returns when the mount works."),
                (
                    "shale mount a.shale=/mnt/a b.shale=/mnt/b -o cache=512M",
                    "Mounts two images from one process with one cache.",
                ),
                (
                    "shale mount --view kernel -o allow_other root.shale /mnt",
                    "Mounts the view of the kernel for all users.",
                ),
            ],
            &[
                "mount.shale(8)",
                "shale-umount(1)",
                "shale-mounts(1)",
                "shale-stats(1)",
                "fusermount3(1)",
            ],
        ),
        "umount" => (
            &[
                ("shale umount /mnt/a /mnt/b", "Unmounts two images."),
                ("shale umount --all", "Unmounts every image."),
            ],
            &["shale-mount(1)", "shale-mounts(1)", "umount(8)"],
        ),
        "ls" => (
            &[
                ("shale ls -l image.shale src", "Lists a directory with attributes."),
                ("shale ls -lhS image.shale", "Lists the largest files first."),
            ],
            &["shale-tree(1)", "shale-du(1)", "shale-find(1)"],
        ),
        "tree" => (
            &[("shale tree -d image.shale", "Shows the directories.")],
            &["shale-ls(1)", "shale-du(1)"],
        ),
        "browse" => (
            &[
                ("shale browse image.shale", "Walks through an image; ? shows the keys."),
                (
                    "shale browse https://example.org/image.shale",
                    "The same with an image on a web server: only what is looked at is fetched.",
                ),
            ],
            &["shale-ls(1)", "shale-find(1)", "shale-extract(1)", "shale-report(1)"],
        ),
        "du" => (
            &[("shale du -h image.shale", "Shows how large the directories are.")],
            &["shale-ls(1)", "shale-info(1)"],
        ),
        "stat" => (
            &[("shale stat image.shale etc/passwd", "Shows all metadata of a file.")],
            &["shale-ls(1)", "shale-dump(1)"],
        ),
        "cat" => (
            &[("shale cat image.shale 'logs/*.log' | less", "Shows files.")],
            &["shale-extract(1)", "shale-grep(1)"],
        ),
        "find" => (
            &[(
                "shale find image.shale -name '*.so' -size +1M",
                "Finds shared libraries of more than 1 MiB.",
            )],
            &["shale-grep(1)", "shale-ls(1)", "find(1)"],
        ),
        "grep" => (
            &[("shale grep timeout image.shale", "Searches all files of an image.")],
            &["shale-find(1)", "grep(1)"],
        ),
        "diff" => (
            &[("shale diff old.shale new.shale", "Lists what was added, removed and changed.")],
            &["shale-verify(1)", "shale-snapshots(1)"],
        ),
        "compact" => (
            &[
                ("shale compact logs.shale -o small.shale", "Copies what the snapshots need."),
                (
                    "shale compact logs.shale --keep latest -o newest.shale",
                    "Copies the newest snapshot only.",
                ),
            ],
            &["shale-forget(1)", "shale-merge(1)", "shale-append(1)"],
        ),
        "forget" => (
            &[
                (
                    "shale forget home.shale --keep-daily 7 --keep-monthly 12",
                    "Shows which snapshots would stay and which would go.",
                ),
                (
                    "shale forget home.shale --keep-last 10 -o new.shale",
                    "Copies the last ten snapshots.",
                ),
            ],
            &["shale-compact(1)", "shale-snapshots(1)"],
        ),
        "merge" => (
            &[
                ("shale merge a.shale=/a b.shale=/b -o both.shale", "Puts two trees side by side."),
                (
                    "shale merge 2025.shale 2026.shale --snapshots -o all.shale",
                    "Keeps all snapshots of both.",
                ),
                (
                    "shale merge --thick monday.shale -o whole.shale",
                    "Joins a thin image and its base.",
                ),
            ],
            &["shale-compact(1)", "shale-append(1)"],
        ),
        "delta" => (
            &[
                ("shale delta v1.shale v2.shale -o v1-v2.delta", "Makes an update for v1.shale."),
                ("shale delta v1.shale build/root -o v1-v2.delta", "Makes it from a directory."),
            ],
            &["shale-patch(1)", "shale-create(1)", "shale-append(1)"],
        ),
        "patch" => (
            &[
                ("shale patch v1.shale v1-v2.delta -o v2.shale", "Makes a new image."),
                ("shale patch root.shale v1-v2.delta", "Adds the snapshot to the image itself."),
            ],
            &["shale-delta(1)", "shale-compact(1)", "shale-verify(1)"],
        ),
        "split" => (
            &[
                (
                    "shale split home.shale --size 4G -o /media/disk/",
                    "Cuts an image into parts of 4 GiB.",
                ),
                ("shale ls /media/disk/home.shale.1-of-3", "Reads all parts."),
                ("cat home.shale.*-of-3 > home.shale", "Joins them."),
            ],
            &["shale-create(1)", "cat(1)"],
        ),
        "append" => (
            &[
                ("shale append home.shale ~", "Adds a snapshot of a directory."),
                (
                    "shale append logs.shale --add 2026-11-23=/var/log/day",
                    "Adds a directory to the newest tree.",
                ),
                ("shale append logs.shale --remove '*.tmp'", "Leaves files out of the next tree."),
            ],
            &["shale-create(1)", "shale-snapshots(1)", "shale-diff(1)"],
        ),
        "cache" => (
            &[
                ("shale cache list", "Lists the images of which something is cached."),
                ("shale cache clear --all", "Removes all that is cached."),
            ],
            &["shale-mount(1)", "shale-info(1)"],
        ),
        "cache list" | "cache clear" | "cache dir" => (&[], &["shale-cache(1)"]),
        "serve" => (
            &[("shale serve photos.shale", "Shows the image to a browser on this machine.")],
            &["shale-mount(1)", "shale-ls(1)"],
        ),
        "snapshots" => (
            &[("shale snapshots image.shale", "Lists the snapshots.")],
            &["shale-diff(1)", "shale-info(1)"],
        ),
        "extract" => (
            &[
                ("shale extract image.shale", "Extracts into the current directory."),
                (
                    "shale extract image.shale -C /restore 'etc/*'",
                    "Extracts what is in /etc to another directory.",
                ),
                ("shale extract --dry-run image.shale", "Shows what would be extracted."),
            ],
            &["shale-cat(1)", "shale-export(1)"],
        ),
        "export" => (
            &[("shale export image.shale -o image.tar.zst", "Converts an image to a tar archive.")],
            &["shale-extract(1)", "tar(1)"],
        ),
        "info" => (
            &[
                ("shale info image.shale", "Answers in ten lines."),
                ("shale info --json image.shale", "Prints all figures as JSON."),
            ],
            &["shale-du(1)", "shale-dump(1)"],
        ),
        "report" => (
            &[("shale report image.shale -o report.html", "Writes a page for a browser.")],
            &["shale-info(1)", "shale-du(1)"],
        ),
        "sum" => (
            &[("shale sum image.shale > SHA256SUMS", "Writes a list for `sha256sum -c`.")],
            &["shale-verify(1)", "sha256sum(1)"],
        ),
        "check" => (
            &[
                ("shale check image.shale", "Verifies every byte."),
                ("shale check --subset 1/7 image.shale", "Verifies a seventh."),
            ],
            &["shale-repair(1)", "shale-verify(1)"],
        ),
        "repair" => (
            &[("shale repair damaged.shale -o restored.shale", "Restores an image bit for bit.")],
            &["shale-check(1)", "shale-parity(1)"],
        ),
        "parity" => (&[], &["shale-parity-add(1)", "shale-parity-remove(1)", "shale-repair(1)"]),
        "parity add" => (
            &[("shale parity add image.shale --parity 5%", "Adds parity of 5 %.")],
            &["shale-parity-remove(1)", "shale-repair(1)"],
        ),
        "parity remove" => (
            &[("shale parity remove image.shale", "Removes all parity.")],
            &["shale-parity-add(1)"],
        ),
        "keygen" => (
            &[("shale keygen me.key", "Makes me.key and me.key.pub.")],
            &["shale-sign(1)", "shale-verify(1)"],
        ),
        "sign" => (
            &[("shale sign image.shale --key me.key", "Writes image.shale.sig.")],
            &["shale-keygen(1)", "shale-verify(1)"],
        ),
        "verify" => (
            &[
                ("shale verify image.shale --key me.key.pub", "Verifies a signature."),
                (
                    "shale verify image.shale --against /srv/data",
                    "Compares an image with a directory.",
                ),
            ],
            &["shale-sign(1)", "shale-diff(1)", "shale-check(1)"],
        ),
        "dump" => (&[], &["shale-info(1)", "shale-stat(1)", "shale(5)"]),
        "mounts" => (&[], &["shale-mount(1)", "shale-umount(1)", "findmnt(8)"]),
        "stats" => {
            (&[("shale stats /mnt", "Shows requests and their latencies.")], &["shale-mount(1)"])
        }
        "completions" => (
            &[(
                "shale completions bash > ~/.local/share/bash-completion/completions/shale",
                "Installs completions for one user.",
            )],
            &["bash(1)", "zsh(1)", "fish(1)"],
        ),
        "man" => {
            (&[("shale man --dir /usr/local/share/man/man1", "Writes all pages.")], &["man(1)"])
        }
        "exit-codes" => (&[], &["shale-check(1)", "shale-diff(1)"]),
        _ => (&[], &[]),
    }
}
