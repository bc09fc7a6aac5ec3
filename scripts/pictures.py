#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""pictures.py [--check]: draws docs/pictures/NAME.txt as NAME.svg, or says which SVG is not what its text gives.

A text has a line each for the title, for a zone (a frame with a name), a box, and an arrow between two boxes:

  title TEXT
  zone X Y WIDTH HEIGHT TEXT
  box NAME X Y WIDTH KIND TITLE | line | line     KIND: owner, trusted, host (what the host sees), plain
  arrow FROM TO [TEXT]                            at the sides that face each other
  plot MEMBER LOW HIGH TEXT                       a member of records in docs/benchmarks by size, both scales logarithmic
  series FILE KEY=VALUE,... | VARIANT | TEXT      a line of the plot
"""
import glob
import json
import math
import os
import sys
from xml.sax.saxutils import escape

FOLDER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "docs/pictures")
LINE, HEAD = 17, 26
STYLE = """text{font:13px sans-serif;fill:#1d2733}.b{font-weight:bold}.s{font-size:12px}.m{text-anchor:middle}
rect{stroke:#64748b;rx:6}.zone{fill:none;stroke-dasharray:5 4}.owner{fill:#d6eadf}.trusted{fill:#d7e3f8}.host{fill:#f6dfc8}
.plain{fill:#edf0f3}.e{text-anchor:end}polyline{fill:none;stroke-width:2}.l0{stroke:#2563eb}.l1{stroke:#c2410c}.l2{stroke:#15803d}.l3{stroke:#7e22ce}
line{stroke:#475569;stroke-width:1.5;marker-end:url(#a)}
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.owner{fill:#234536}.trusted{fill:#24406b}.host{fill:#5e4024}.plain{fill:#30363d}
line{stroke:#9aa7b5}marker path{fill:#9aa7b5}}"""


def side(box, towards):
    """Where an arrow leaves the box on its way to the middle of another one."""
    x, y, width, height = box
    dx, dy = towards[0] + towards[2] / 2 - x - width / 2, towards[1] + towards[3] / 2 - y - height / 2
    overlap_x = min(x + width, towards[0] + towards[2]) - max(x, towards[0])
    overlap_y = min(y + height, towards[1] + towards[3]) - max(y, towards[1])
    if overlap_x > overlap_y:
        middle = max(x, towards[0]) + overlap_x / 2 if overlap_x > 0 else x + width / 2
        return middle, y + height if dy > 0 else y
    middle = max(y, towards[1]) + overlap_y / 2 if overlap_y > 0 else y + height / 2
    return x + width if dx > 0 else x, middle


def across(size):
    return 80 + (math.log2(size) - 12) * 30


def height_of(value, low, high):
    return 336 - 300 * math.log(value / low) / math.log(high / low)


def series(name, wanted, variant, member):
    """(size, value) of the points of a variant; its ratio is 1 where it is what others are compared with."""
    with open(f"{FOLDER}/../benchmarks/{name}", encoding="utf-8") as file:
        for record in map(json.loads, file):
            point = record.get("parameters", {})
            if record.get("variant") == variant and "size_bytes" in point and all(point.get(k) == v for k, v in wanted.items()):
                yield point["size_bytes"], record.get(member, 1)


def draw(text):
    out, boxes, right, bottom, title, lines_drawn = [], {}, 0, 0, "", 0

    def put(x, y, words, kind=""):
        out.append(f'<text x="{x:g}" y="{y:g}" class="{kind}">{escape(words)}</text>')

    def frame(x, y, width, height, kind):
        nonlocal right, bottom
        right, bottom = max(right, x + width), max(bottom, y + height)
        out.append(f'<rect x="{x}" y="{y}" width="{width}" height="{height}" class="{kind}"/>')

    for line in text.splitlines():
        word, _, rest = line.strip().partition(" ")
        if word == "title":
            title = rest
        elif word == "zone":
            x, y, width, height, words = rest.split(" ", 4)
            frame(int(x), int(y), int(width), int(height), "zone")
            put(int(x) + 10, int(y) + 18, words, "b")
        elif word == "box":
            name, x, y, width, kind, words = rest.split(" ", 5)
            lines = words.split(" | ")
            box = (int(x), int(y), int(width), HEAD + LINE * (len(lines) - 1) + 6)
            boxes[name] = box
            frame(*box, kind)
            put(box[0] + box[2] / 2, box[1] + 20, lines[0], "b m")
            for i, more in enumerate(lines[1:], 1):
                put(box[0] + box[2] / 2, box[1] + 20 + LINE * i, more, "s m")
        elif word == "arrow":
            start, end, *words = rest.split(" ", 2)
            (x1, y1), (x2, y2) = side(boxes[start], boxes[end]), side(boxes[end], boxes[start])
            out.append(f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}"/>')
            upright = abs(y2 - y1) > abs(x2 - x1)
            if words and upright:
                put((x1 + x2) / 2 + 6, (y1 + y2) / 2 + 4, words[0], "s")
            elif words:
                put((x1 + x2) / 2, (y1 + y2) / 2 - 6, words[0], "s m")
        elif word == "plot":
            member, low, high, words = rest.split(" ", 3)
            low, high = float(low), float(high)
            put(10, 20, words, "b")
            frame(70, 36, 560, 300, "plain")
            for value in sorted({low, high} | {d * 10.0 ** e for d in (1, 2, 5) for e in range(-1, 13)}):
                if low <= value <= high and (high / low < 20 or f"{value:e}"[0] == "1"):
                    put(64, height_of(value, low, high) + 4, f"{value / (1e9 if low >= 1e6 else 1):g}", "s e")
            for power in range(12, 31, 3):
                put(across(2 ** power), 354, f"{2 ** (power % 10)} {'KMG'[power // 10 - 1]}iB", "s m")
            bottom = 364
        elif word == "series":
            name, wanted, variant, words = [part.strip() for part in rest.replace(" ", "|", 1).split("|")]
            points = sorted(series(name, dict(pair.split("=") for pair in wanted.split(",") if pair), variant, member))
            path = " ".join(f"{across(size):g},{height_of(value, low, high):.1f}" for size, value in points)
            out.append(f'<polyline points="{path}" class="l{lines_drawn % 4}"/>')
            put(across(points[-1][0]) + 8, height_of(points[-1][1], low, high) + 4, words, "s")
            lines_drawn, right = lines_drawn + 1, 800
        elif word:
            sys.exit(f"pictures.py: not understood: {line}")
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {right + 10} {bottom + 10}" role="img">',
        f"<title>{escape(title)}</title><style>{STYLE}</style>",
        '<defs><marker id="a" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0L8 4L0 8z" fill="#475569"/></marker></defs>', *out, "</svg>", ""])


def main():
    stale = []
    for path in sorted(glob.glob(os.path.join(FOLDER, "*.txt"))):
        svg, made = path[:-4] + ".svg", draw(open(path, encoding="utf-8").read())
        if sys.argv[1:] != ["--check"]:
            open(svg, "w", encoding="utf-8").write(made)
        elif not os.path.exists(svg) or open(svg, encoding="utf-8").read() != made:
            stale.append(f"docs/pictures/{os.path.basename(svg)}: not what its text gives: scripts/pictures.py")
    print("\n".join(stale), end="\n" if stale else "")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
