#!/usr/bin/env python3
"""What packing costs by stage, and what that means for machines with many processors.

Packs each tree several times, in turn with the others, and takes medians of the processor time of each
stage from `create --json`. Then it computes how long a build takes with more threads than this
machine has. Stages that overlap form a phase. A phase ends when the thread that decides has done
its own work, when all threads together have done theirs, and when the section that is written last
is written: sections are summed and written one after the other. No more threads compress than
frames, with their references, fit into the memory for those on their way.

The model is compared with the clock at the threads that this machine has: `measured` beside `model`.

usage: many_threads.py --shale BINARY [--rounds N] [--level N]... [--threads N]... TREE...
"""
import argparse
import json
import os
import statistics
import subprocess
import tempfile

# Stages that run at the same time, where contents wait until all are known, and where they do not.
ORDERED = [["read"], ["order"], ["segment"], ["refer"], ["compress", "write"], ["tables"]]
STREAMED = [["read", "compress", "write"], ["order"], ["segment"], ["refer"], ["tables"]]


def pack(shale, tree, level, threads, image):
    command = [shale, "create", tree, "-o", image, "-q", "-f", "--no-verify", "--json",
               f"-{level}", "--threads", str(threads)]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def medians(runs):
    """Median CPU seconds of each stage: of the deciding thread, and of all others."""
    names = {stage["name"] for run in runs for stage in run["stages"]}
    found = {}
    for name in names:
        of_runs = [next((s for s in run["stages"] if s["name"] == name), None) for run in runs]
        found[name] = tuple(
            statistics.median(stage[key] if stage else 0.0 for stage in of_runs)
            for key in ("deciding_seconds", "helping_seconds")
        )
    return found


def frames_on_their_way(run):
    """Frames that are compressed at a time, as far as memory for them goes."""
    mean = run["plain_bytes"] / run["frames"] * (1 + run["references"] / run["frames"])
    return max(2, run["flight_bytes_max"] / mean)


def seconds(stages, run, threads, level):
    total = run["scan_cpu_seconds"] / threads
    for phase in STREAMED if level < 4 else ORDERED:
        deciding = sum(stages.get(name, (0, 0))[0] for name in phase)
        helping = sum(stages.get(name, (0, 0))[1] for name in phase)
        working = min(threads, frames_on_their_way(run)) if "compress" in phase else threads
        one_by_one = stages.get("write", (0, 0))[1] if "write" in phase else 0
        total += max(deciding, (deciding + helping) / working, one_by_one)
    return total


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--shale", required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--level", type=int, action="append")
    parser.add_argument("--threads", type=int, action="append", help="threads of the model")
    parser.add_argument("trees", nargs="+")
    args = parser.parse_args()
    here = os.cpu_count()
    cases = [(level, tree) for level in args.level or [6] for tree in args.trees]
    runs = {case: [] for case in cases}
    with tempfile.TemporaryDirectory() as scratch:
        image = os.path.join(scratch, "x.shale")
        for round_number in range(args.rounds + 1):
            for level, tree in cases:
                run = pack(args.shale, tree, level, here, image)
                if round_number > 0:  # the first warms the page cache
                    runs[level, tree].append(run)
    counts = args.threads or [16, 64]
    print(f"load {os.getloadavg()[0]:.1f}")
    head = ["tree", "level", "CPU s", "deciding", f"{here} threads: measured s, model"]
    head += [f"{count} threads: s, speed-up" for count in counts]
    print("| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    details = []
    for level, tree in cases:
        of_case = runs[level, tree]
        stages, run = medians(of_case), of_case[0]
        everything = sum(map(sum, stages.values()))
        share = sum(stage[0] for stage in stages.values()) / everything
        alone = seconds(stages, run, 1, level)
        clock = statistics.median(run["seconds"] for run in of_case)
        row = [os.path.basename(tree.rstrip("/")), str(level), f"{everything:.2f}", f"{share:.1%}",
               f"{clock:.2f}, {seconds(stages, run, here, level):.2f}"]
        for count in counts:
            modelled = seconds(stages, run, count, level)
            row.append(f"{modelled:.2f}, {alone / modelled:.1f}")
        print("| " + " | ".join(row) + " |", flush=True)
        by_stage = (f"{name} {d + h:.2f} ({d:.2f})" for name, (d, h) in stages.items() if d + h >= 0.005)
        details.append(f"{row[0]} -{level}: " + ", ".join(by_stage))
    print("\nCPU seconds by stage, in brackets of the thread that decides:\n")
    print("\n".join(details))


if __name__ == "__main__":
    main()
