#!/usr/bin/env python3
"""Draws one benchmark run as SVG without any library: image size against the time of cold random reads.

usage: plot.py RESULTS.json > PICTURE.svg     (RESULTS: {"title", "note", "rows"}, rows as bench.py writes them)
"""
import json
import math
import sys
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 760, 420
LEFT, RIGHT, TOP, BOTTOM = 64, 24, 46, 56
STYLE = ("text{fill:#333}.grid{stroke:#ddd}.note{fill:#666}.paper{fill:#fff}"
         "@media(prefers-color-scheme:dark){text{fill:#ddd}.grid{stroke:#444}.note{fill:#aaa}.paper{fill:#111}}")
OURS, OTHERS = "#c8341f", "#2f6fb5"


def log_ticks(low, high):
    """1-2-5 steps inside [low, high]."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    return [10.0 ** d * m for d in decades for m in (1, 2, 5) if low <= 10.0 ** d * m * 1.0001 <= high * 1.0002]


def linear_ticks(low, high):
    """About six round steps inside [low, high]."""
    step = next(10.0 ** d * m for d in range(-3, 9) for m in (1, 2, 5) if (high - low) / (10.0 ** d * m) <= 7)
    return [step * n for n in range(math.ceil(low / step), math.floor(high / step) + 1)]


def size_speed_svg(title, rows, note=""):
    """One point a row that was mounted; a dashed line for each program whose output has to be unpacked."""
    mounted = [(row["peer"], row["size"] / 1e6, max(row["random"]["wall"], 1e-3))
               for row in rows if row.get("size") and row.get("random", {}).get("wall")]
    solid = [(row["peer"], row["size"] / 1e6) for row in rows if row.get("size") and "random" not in row]
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
           f'font-family="system-ui, sans-serif" font-size="12">', f"<title>{escape(title)}</title>"]
    words = [f"{name}: {size:.0f} MB, {seconds:.2f} s" for name, size, seconds in mounted]
    out += [f"<desc>{escape('; '.join(words + [f'{n}: {s:.0f} MB, has to be unpacked' for n, s in solid]))}</desc>",
            f"<style>{STYLE}</style>", f'<rect class="paper" width="{WIDTH}" height="{HEIGHT}"/>',
            f'<text x="{LEFT}" y="22" font-size="15" font-weight="600">{escape(title)}</text>']
    if not mounted:
        return "\n".join(out + [f'<text x="{LEFT}" y="80">no program was measured</text></svg>', ""])
    sizes, times = [p[1] for p in mounted] + [s for _, s in solid], [p[2] for p in mounted]
    x_low, x_high = min(sizes) * 0.85, max(sizes) * 1.12
    y_low, y_high = min(times) / 1.4, max(times) * 1.6

    def x_of(size):
        return LEFT + (WIDTH - LEFT - RIGHT) * (size - x_low) / (x_high - x_low)

    def y_of(seconds):
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * math.log(seconds / y_low) / math.log(y_high / y_low)

    for tick in linear_ticks(x_low, x_high):
        out.append(f'<line class="grid" x1="{x_of(tick):.1f}" y1="{TOP}" x2="{x_of(tick):.1f}" y2="{HEIGHT - BOTTOM}"/>'
                   f'<text class="note" x="{x_of(tick):.1f}" y="{HEIGHT - BOTTOM + 18}" '
                   f'text-anchor="middle">{tick:g} MB</text>')
    for tick in log_ticks(y_low, y_high):
        out.append(f'<line class="grid" x1="{LEFT}" y1="{y_of(tick):.1f}" x2="{WIDTH - RIGHT}" y2="{y_of(tick):.1f}"/>'
                   f'<text class="note" x="{LEFT - 8}" y="{y_of(tick) + 4:.1f}" text-anchor="end">{tick:g} s</text>')
    for line, (name, size) in enumerate(solid):
        x = x_of(size)
        out.append(f'<line x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{HEIGHT - BOTTOM}" stroke="#888" '
                   f'stroke-dasharray="4 4"/><text class="note" x="{x + 6:.1f}" y="{TOP + 14 + 16 * line}">'
                   f'{escape(name)}: {size:.0f} MB, has to be unpacked</text>')
    spots = [(x_of(size), y_of(seconds)) for _, size, seconds in mounted]
    taken = [(x - 6, x + 6, y - 6, y + 6) for x, y in spots]
    for (name, _, _), (x, y) in zip(mounted, spots):
        ours, width = name.startswith("shale"), 7 * len(name)
        # Right of the point, else above or below it: the first place that covers no point and no label.
        places = [(x + 10, y + 4), (x - width / 2, y - 12), (x - width / 2, y + 20), (x - width - 10, y + 4)]
        boxes = [(left, left + width, base - 10, base + 2) for left, base in places]
        free = [i for i, (l, r, t, b) in enumerate(boxes)
                if not any(l < r2 and l2 < r and t < b2 and t2 < b for l2, r2, t2, b2 in taken)]
        chosen = free[0] if free else 0
        taken.append(boxes[chosen])
        weight = ' font-weight="600"' if ours else ""
        out.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{6 if ours else 5}" fill="{OURS if ours else OTHERS}"/>'
                   f'<text x="{places[chosen][0]:.1f}" y="{places[chosen][1]:.1f}"{weight}>{escape(name)}</text>')
    out += [f'<text class="note" x="{LEFT}" y="{HEIGHT - 12}">Across: image size. Up: time to read 1,000 random files, '
            f'cold, logarithmic. {escape(note)}</text></svg>', ""]
    return "\n".join(out)


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as file:
        run = json.load(file)
    sys.stdout.write(size_speed_svg(run["title"], run["rows"], run.get("note", "")))
