#!/usr/bin/env python3
"""Compares what Cargo.lock builds in with deny.toml: licences, bans, sources.

usage: deny.py          Ends with status 1 if something is not allowed.

Reads `cargo metadata` only, so it needs no network and no further program. Known vulnerabilities are in a
database that has to be downloaded: where cargo-deny is installed, it is asked for those; else that is said.
"""
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent


def allowed(expression, allow):
    """Whether a licence expression (SPDX, `/` as its old OR) can be met by what is allowed."""
    tokens = re.findall(r"\(|\)|[^\s()]+", expression.replace("/", " OR "))
    at = 0

    def licence():
        nonlocal at
        if at >= len(tokens):
            raise ValueError("it ends early")
        word = tokens[at]
        at += 1
        if word == "(":
            met = either()
            if at >= len(tokens) or tokens[at] != ")":
                raise ValueError("a bracket is open")
            at += 1
            return met
        if at + 1 < len(tokens) and tokens[at] == "WITH":
            word = f"{word} WITH {tokens[at + 1]}"
            at += 2
        return word in allow

    def both():
        nonlocal at
        met = licence()
        while at < len(tokens) and tokens[at] == "AND":
            at += 1
            met = licence() and met
        return met

    def either():
        nonlocal at
        met = both()
        while at < len(tokens) and tokens[at] == "OR":
            at += 1
            met = both() or met
        return met

    met = either()
    if at != len(tokens):
        raise ValueError(f"{tokens[at]} is not understood")
    return met


def problems(metadata, rules):
    """One line for each crate that is not as the rules say."""
    allow = set(rules["licenses"]["allow"])
    exceptions = {one["crate"]: set(one["allow"]) for one in rules["licenses"].get("exceptions", [])}
    banned = {ban["crate"] for ban in rules["bans"].get("deny", [])}
    members = set(metadata["workspace_members"])
    for package in metadata["packages"]:
        name = f"{package['name']} {package['version']}"
        if package["name"] in banned:
            yield f"{name}: deny.toml bans it"
        source = package["source"] or ""
        if source and not (source.startswith("registry+") and source.endswith("/crates.io-index")):
            yield f"{name}: comes from {source}, which is not crates.io"
        try:
            if not allowed(package["license"] or "", allow | exceptions.get(package["name"], set())):
                yield f"{name}: licence {package['license']} is not allowed"
        except ValueError as error:
            yield f"{name}: licence {package['license']}: {error}"
        if package["id"] in members:
            for need in package["dependencies"]:
                if need["req"] == "*" and not need.get("path"):
                    yield f"{name}: any version of {need['name']} would do"


def self_test():
    """The evaluator is right about what it decides."""
    allow = {"MIT", "Zlib", "Apache-2.0 WITH LLVM-exception"}
    for expression, met in [
        ("MIT", True), ("GPL-2.0", False), ("MIT OR GPL-2.0", True), ("MIT AND GPL-2.0", False),
        ("GPL-2.0/MIT", True), ("(GPL-2.0 OR Zlib) AND MIT", True), ("Apache-2.0", False),
        ("Apache-2.0 WITH LLVM-exception OR GPL-2.0", True), ("GPL-2.0 OR MIT AND GPL-3.0", False),
    ]:
        assert allowed(expression, allow) == met, expression
    for broken in ["", "(MIT", "MIT Zlib", "MIT AND"]:
        try:
            allowed(broken, allow)
        except ValueError:
            continue
        raise AssertionError(f"`{broken}` is taken for an expression")


def main():
    self_test()
    rules = tomllib.loads((ROOT / "deny.toml").read_text())
    output = subprocess.run(
        ["cargo", "metadata", "--format-version", "1", "--locked"],
        cwd=ROOT, check=True, stdout=subprocess.PIPE,
    ).stdout
    metadata = json.loads(output)
    found = sorted(problems(metadata, rules))
    for line in found:
        print(f"deny: {line}")
    versions = {}
    for package in metadata["packages"]:
        versions.setdefault(package["name"], set()).add(package["version"])
    for name, several in sorted(versions.items()):
        if len(several) > 1:
            print(f"deny: note: {name} is built in {len(several)} versions: {', '.join(sorted(several))}")
    print(f"deny: {len(metadata['packages'])} crates, {len(found)} not allowed")
    if shutil.which("cargo-deny"):
        status = subprocess.run(["cargo", "deny", "check", "advisories"], cwd=ROOT).returncode
        if status != 0:
            return 1
    else:
        print("deny: advisories were not looked at, as cargo-deny is not installed")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
