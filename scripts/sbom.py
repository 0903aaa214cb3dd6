#!/usr/bin/env python3
"""Writes the software bill of materials of the shale command, as CycloneDX JSON.

usage: sbom.py [--package NAME]       (default: shale-cli; the result goes to standard output)

Lists every crate that is built into the command, with version, licence, source and checksum. Uses what Cargo has
already downloaded; needs no network. The same lock file gives the same bytes: there is no clock and no serial number.
"""

import argparse
import json
import subprocess
import sys
import tomllib


def metadata():
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--offline", "--filter-platform", host()]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def host():
    said = subprocess.run(["rustc", "-vV"], check=True, stdout=subprocess.PIPE, text=True).stdout
    return next(line.split()[1] for line in said.splitlines() if line.startswith("host:"))


def built_in(found, name):
    """Returns the ids of all crates that `name` is built from, without tests and build scripts."""
    nodes = {node["id"]: node for node in found["resolve"]["nodes"]}
    waiting = [package["id"] for package in found["packages"] if package["name"] == name]
    if not waiting:
        sys.exit(f"sbom: there is no package {name}")
    seen = set(waiting)
    while waiting:
        for dependency in nodes[waiting.pop()]["deps"]:
            is_normal = any(kind["kind"] is None for kind in dependency["dep_kinds"])
            if is_normal and dependency["pkg"] not in seen:
                seen.add(dependency["pkg"])
                waiting.append(dependency["pkg"])
    return seen, nodes


def component(package, checksums):
    name, version = package["name"], package["version"]
    made = {
        "type": "library",
        "bom-ref": f"{name}@{version}",
        "name": name,
        "version": version,
        "purl": f"pkg:cargo/{name}@{version}",
    }
    if package.get("description"):
        made["description"] = " ".join(package["description"].split())
    if package.get("license"):
        made["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
    if (name, version) in checksums:
        made["hashes"] = [{"alg": "SHA-256", "content": checksums[name, version]}]
    return made


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--package", default="shale-cli")
    name = parser.parse_args().package
    found = metadata()
    with open(found["workspace_root"] + "/Cargo.lock", "rb") as file:
        lock = tomllib.load(file)["package"]
    checksums = {(p["name"], p["version"]): p["checksum"] for p in lock if "checksum" in p}
    ids, nodes = built_in(found, name)
    packages = {package["id"]: package for package in found["packages"]}
    ref = {id: f"{packages[id]['name']}@{packages[id]['version']}" for id in ids}
    chosen = sorted((packages[id] for id in ids), key=lambda p: (p["name"], p["version"]))
    main_component = next(component(p, checksums) for p in chosen if p["name"] == name)
    bill = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {**main_component, "type": "application"}},
        "components": [component(p, checksums) for p in chosen if p["name"] != name],
        "dependencies": [
            {"ref": ref[id], "dependsOn": sorted(ref[d] for d in nodes[id]["dependencies"] if d in ids)}
            for id in sorted(ids, key=ref.get)
        ],
    }
    json.dump(bill, sys.stdout, indent=1, ensure_ascii=False)
    print()


if __name__ == "__main__":
    main()
