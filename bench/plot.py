"""Draws one run as SVG without any library: image size against the time of a cold partial read."""
import math
from xml.sax.saxutils import escape

WIDTH, HEIGHT, MARGIN = 760, 460, 70


def ticks(low, high):
    """1-2-5 steps covering [low, high] on a log axis."""
    out, decade = [], 10 ** math.floor(math.log10(low))
    while decade <= high * 1.01:
        out += [decade * m for m in (1, 2, 5) if low * 0.99 <= decade * m <= high * 1.01]
        decade *= 10
    return out


def size_speed_svg(title, rows):
    """Points (size, seconds for one subdirectory); programs that cannot be mounted use extraction."""
    points = []
    for row in rows:
        seconds = row.get("subdirectory", {}).get("wall") or row.get("extract_wall")
        if row.get("size") and seconds:
            points.append((row["size"] / 1e6, max(seconds, 1e-3), row["peer"], "subdirectory" in row))
    head = (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
            f'font-family="sans-serif" font-size="11"><rect width="100%" height="100%" fill="white"/>'
            f'<text x="{WIDTH / 2}" y="24" text-anchor="middle" font-size="15">{escape(title)}: size and time to '
            f'read one subdirectory cold</text>')
    if not points:
        return head + f'<text x="{MARGIN}" y="80">no program was measured</text></svg>\n'
    x_low, x_high = min(p[0] for p in points) / 1.2, max(p[0] for p in points) * 1.5
    y_low, y_high = min(p[1] for p in points) / 1.3, max(p[1] for p in points) * 1.3

    def x_of(v):
        return MARGIN + (WIDTH - 2 * MARGIN) * math.log(v / x_low) / math.log(x_high / x_low)

    def y_of(v):
        return HEIGHT - MARGIN - (HEIGHT - 2 * MARGIN) * math.log(v / y_low) / math.log(y_high / y_low)

    out = [head]
    for t in ticks(x_low, x_high):
        out.append(f'<line x1="{x_of(t):.1f}" y1="{MARGIN}" x2="{x_of(t):.1f}" y2="{HEIGHT - MARGIN}" stroke="#ddd"/>'
                   f'<text x="{x_of(t):.1f}" y="{HEIGHT - MARGIN + 16}" text-anchor="middle">{t:g} MB</text>')
    for t in ticks(y_low, y_high):
        out.append(f'<line x1="{MARGIN}" y1="{y_of(t):.1f}" x2="{WIDTH - MARGIN}" y2="{y_of(t):.1f}" stroke="#ddd"/>'
                   f'<text x="{MARGIN - 6}" y="{y_of(t) + 4:.1f}" text-anchor="end">{t:g} s</text>')
    for size, seconds, name, mounted in points:
        colour = "#c33" if name.startswith("shale") else ("#36c" if mounted else "#999")
        out.append(f'<circle cx="{x_of(size):.1f}" cy="{y_of(seconds):.1f}" r="5" fill="{colour}"/>'
                   f'<text x="{x_of(size) + 8:.1f}" y="{y_of(seconds) + 4:.1f}">{escape(name)}</text>')
    out.append(f'<text x="{MARGIN}" y="{HEIGHT - 16}" fill="#666">red: ShaleFS; blue: mounted; grey: not mountable, '
               f'time to extract everything</text></svg>\n')
    return "".join(out)
