"""A picture of a terminal, as SVG, from what a program printed with colours.

Only what our reports use is understood: bold, dim, and the eight colours. The picture brings its own
background, so it looks the same in a light and in a dark page; it is text, so it can be searched, and
it is made of the output alone, so the same output gives the same bytes.
"""

import html
import re
import unicodedata

COLOURS = {30: "#6b7280", 31: "#ff7b72", 32: "#7ee787", 33: "#e3b341", 34: "#79c0ff", 35: "#d2a8ff", 36: "#76e3ea", 37: "#e6edf3"}
COLOURS |= {code + 60: colour for code, colour in COLOURS.items()}
CODE = re.compile(r"\x1b\[([0-9;]*)m")
CELL, LINE, MARGIN, BAR = 8.0, 19, 16, 30


def picture(title, lines, columns):
    """The picture of these lines, under a bar with a title."""
    width = MARGIN * 2 + CELL * columns
    height = BAR + MARGIN + LINE * len(lines) + 8
    said = html.escape(" ".join(CODE.sub("", line).strip() for line in lines[:3]))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" role="img">',
        f"<title>{html.escape(title)}</title><desc>{said}</desc>",
        "<style>text{font:13px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;"
        "fill:#e6edf3;white-space:pre}.bar{fill:#9aa4b2}.b{font-weight:700}.d{opacity:.65}</style>",
        f'<rect width="{width:.0f}" height="{height}" rx="8" fill="#0d1117"/>',
        f'<rect width="{width:.0f}" height="{BAR}" rx="8" fill="#161b22"/>',
        *(f'<circle cx="{MARGIN + 16 * at}" cy="15" r="5" fill="{colour}"/>' for at, colour in enumerate(["#ff5f57", "#febc2e", "#28c840"])),
        f'<text class="bar" x="{width / 2:.0f}" y="19" text-anchor="middle">{html.escape(title)}</text>',
    ]
    for row, line in enumerate(lines):
        y = BAR + MARGIN + LINE * row + 8
        parts += [span(text, at, y, style) for text, at, style in pieces(line)]
    parts.append("</svg>\n")
    return "\n".join(parts)


def pieces(line):
    """The runs of equal style in a line, each with its column."""
    style, column, at = set(), 0, 0
    for code in [*CODE.finditer(line), None]:
        text = line[at : code.start() if code else len(line)]
        if text.strip():
            lead = len(text) - len(text.lstrip())
            yield text.strip(), column + lead, frozenset(style)
        column += sum(2 if unicodedata.east_asian_width(each) in "WF" else 1 for each in text)
        if code is None:
            return
        at = code.end()
        for number in map(int, filter(None, (code[1] or "0").split(";"))):
            if number == 0:
                style.clear()
            elif number in (22, 39):
                style = {each for each in style if (each in ("b", "d")) != (number == 22)}
            else:
                style.add({1: "b", 2: "d"}.get(number) or COLOURS.get(number, ""))


def span(text, column, y, style):
    classes = " ".join(sorted(style & {"b", "d"}))
    colour = next((each for each in sorted(style) if each.startswith("#")), None)
    attributes = (f' class="{classes}"' if classes else "") + (f' style="fill:{colour}"' if colour else "")
    # The width is set, so that a machine with another font has the same columns.
    length = f' textLength="{CELL * len(text):.0f}"' if len(text) > 1 else ""
    return f'<text x="{MARGIN + CELL * column:.0f}" y="{y}"{length}{attributes}>{html.escape(text)}</text>'
