#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""pictures.py [--check]: draws docs/pictures/NAME.txt as NAME.svg, or says which SVG is not what its text gives.

A text has a line each for the title, for a zone (a frame with a name), a box, and an arrow between two boxes:

  title TEXT
  zone X Y WIDTH HEIGHT TEXT
  box NAME X Y WIDTH KIND TITLE | line | line     KIND: owner, trusted, host (what the host sees), plain
  arrow FROM TO [TEXT]                            at the sides that face each other
"""
import glob
import os
import sys
from xml.sax.saxutils import escape

FOLDER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "docs/pictures")
LINE, HEAD = 17, 26
STYLE = """text{font:13px sans-serif;fill:#1d2733}.b{font-weight:bold}.s{font-size:12px}.m{text-anchor:middle}
rect{stroke:#64748b;rx:6}.zone{fill:none;stroke-dasharray:5 4}.owner{fill:#d6eadf}.trusted{fill:#d7e3f8}.host{fill:#f6dfc8}
.plain{fill:#edf0f3}line{stroke:#475569;stroke-width:1.5;marker-end:url(#a)}
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


def draw(text):
    out, boxes, right, bottom, title = [], {}, 0, 0, ""

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
