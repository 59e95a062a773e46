"""The elements of an SVG file that stands alone: no scripts, no fonts or files from elsewhere.

Colours follow the reader's preference for light or dark. Nothing needs CSS variables, which many
programs that draw SVG do not know.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from xml.sax.saxutils import escape

from tidelog.explain.printable_text import printable

if TYPE_CHECKING:
    from collections.abc import Iterable

CODEC_CLASSES: Final = {
    "none": "c-none",
    "gzip": "c-gzip",
    "snappy": "c-snappy",
    "lz4": "c-lz4",
    "zstd": "c-zstd",
}
"""Style of each codec by Kafka's name."""
UNKNOWN_CODEC: Final = "c-other"
WIDTH: Final = 1200
"""Width of a page; all lengths are in its units."""
MONO_ADVANCE: Final = 0.61
"""Width of a character of a monospaced font, in its size; a little more than most fonts have."""

# Each line: selector, property, colour on light ground, colour on dark ground.
_COLOURS: Final = """\
.bg fill #ffffff #0f141b
.ink fill #1d2530 #e7ebf1
.muted fill #657184 #98a4b5
.halo stroke #ffffff #0f141b
.rule stroke #dde2e9 #2a3340
.seg fill #eceff4 #1d2631
.closed fill #4a5a70 #a9b5c6
.active fill #b9c2cf #4c5a6d
.below fill #e3e7ed #232d3a
.gap stroke #ffffff #0f141b
.veil fill #ffffff #0f141b
.c-none fill #a3afbf #77859a
.c-gzip fill #e5a50a #dba53a
.c-snappy fill #4a9ad8 #5ba7e4
.c-lz4 fill #1f9e83 #38b79a
.c-zstd fill #7a5fd0 #9b87ea
.c-other fill #b3528f #d27db4
.own fill #4a5a70 #a9b5c6
.aborted fill #d43d56 #f2788d
.open fill #d97706 #f4ab4f
.txn-aborted fill #d43d56 #f2788d
.txn-aborted stroke #d43d56 #f2788d
.txn-open fill #d97706 #f4ab4f
.txn-open stroke #d97706 #f4ab4f
.abort stroke #d43d56 #f2788d
.commit stroke #1f8f4f #55c584
.damage fill #d43d56 #f2788d
.loss fill #b3213b #ff93a4
.hole stroke #b3213b #ff93a4
.taken fill #b5482a #f0906a
.clean fill #1f9e83 #38b79a
.dirty fill #e5a50a #dba53a
.hatch stroke #657184 #98a4b5
.m-start stroke #657184 #98a4b5
.m-stable stroke #d97706 #f4ab4f
.m-watermark stroke #2563eb #74a9ff
.m-end stroke #1d2530 #e7ebf1
.m-recovery stroke #1f8f4f #55c584
"""
_SHAPES: Final = """\
text{font-size:12px;\
font-family:system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue","DejaVu Sans",sans-serif}
.mono{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;\
font-size:11px}
.title{font-size:20px;font-weight:600}
.small{font-size:10px}
.end{text-anchor:end}
.halo{stroke-width:4px;paint-order:stroke;stroke-linejoin:round}
.rule,.mark,.hole,.abort,.commit{fill:none}
.mark{stroke-width:1.5}
.hole{stroke-width:2.5;stroke-dasharray:4 2}
.faint{opacity:.4;stroke-dasharray:2 3}
.gap{stroke-width:.6}
.veil{opacity:.72}
.txn-aborted,.txn-open{fill-opacity:.14;stroke-width:1}
.txn-open{stroke-dasharray:4 2}
.abort,.commit{stroke-width:1.6;stroke-linecap:round;stroke-linejoin:round}
.loss{font-weight:600}
.clean,.dirty{opacity:.45}
.hatch{stroke-width:1;opacity:.5}
"""


def _style_sheet() -> str:
    rows = [line.split() for line in _COLOURS.splitlines()]
    light = "".join(f"{name}{{{key}:{colour}}}\n" for name, key, colour, _ in rows)
    dark = "".join(f"{name}{{{key}:{colour}}}\n" for name, key, _, colour in rows)
    media = f"@media (prefers-color-scheme:dark){{\n{dark}}}\n"
    return f"\n{_SHAPES}{light}{media}"


STYLE_SHEET: Final = _style_sheet()
"""What is in the element ``style``, the same in all files: a page may allow it by its hash."""


def patterns() -> str:
    """Return the hatchings: ``hidden`` for what readers do not see, ``bad`` for damage."""

    def hatching(name: str, shape: str) -> str:
        return (
            f'<pattern id="{name}" width="6" height="6" patternUnits="userSpaceOnUse"'
            f' patternTransform="rotate(45)">{shape}</pattern>\n'
        )

    hidden = hatching("hidden", '<path class="hatch" d="M0 0V6"/>')
    bad = hatching("bad", '<rect class="damage" width="3.5" height="6"/>')
    return f"<defs>\n{hidden}{bad}</defs>\n"


def page(height: float, title: str, description: str, body: str) -> str:
    """Return a whole SVG file."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {number(height)}"'
        f' width="{WIDTH}" height="{number(height)}" role="img" aria-labelledby="title desc">\n'
        f'<title id="title">{safe(title)}</title>\n<desc id="desc">{safe(description)}</desc>\n'
        f"<style>{STYLE_SHEET}</style>\n{patterns()}"
        f'<rect class="bg" width="{WIDTH}" height="{number(height)}"/>\n{body}</svg>\n'
    )


def safe(text: str) -> str:
    """Return text for an element or an attribute, without what XML does not allow."""
    return escape(printable(text), {'"': "&quot;", "'": "&#39;"})


def number(value: float) -> str:
    """Return a coordinate with at most two decimals."""
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text in {"", "-0"} else text


def rect(
    box: tuple[float, float, float, float], classes: str, title: str = "", extra: str = ""
) -> str:
    """Return a rectangle; ``box`` is left, top, width, height, ``title`` its tooltip."""
    x, y, width, height = map(number, box)
    start = f'<rect class="{classes}" x="{x}" y="{y}" width="{width}" height="{height}"{extra}'
    return f"{start}><title>{safe(title)}</title></rect>\n" if title else f"{start}/>\n"


def linked(target: str, elements: str) -> str:
    """Return elements that lead to ``target``; nobody steps through them one by one with a key."""
    return f'<a href="{safe(target)}" tabindex="-1">{elements}</a>\n'


def path(shape: str, classes: str, title: str = "") -> str:
    """Return a path; nothing for an empty one."""
    if not shape:
        return ""
    start = f'<path class="{classes}" d="{shape}"'
    return f"{start}><title>{safe(title)}</title></path>\n" if title else f"{start}/>\n"


def text(x: float, y: float, content: str, classes: str) -> str:
    """Return a line of text, with its baseline at ``y``."""
    return f'<text class="{classes}" x="{number(x)}" y="{number(y)}">{safe(content)}</text>\n'


def boxes(found: Iterable[tuple[float, float]], top: float, height: float) -> str:
    """Return the shape of boxes from left to right, given as (start, end); touching ones join."""
    shapes: list[str] = []
    start, end = 0.0, -1.0

    def add() -> None:
        if end > start:
            shapes.append(
                f"M{number(start)} {number(top)}H{number(end)}v{number(height)}H{number(start)}z"
            )

    for left, right in found:
        if left - end < 0.05 and end >= start:
            end = max(end, right)
            continue
        add()
        start, end = left, right
    add()
    return "".join(shapes)


def mono_width(content: str, size: float = 11) -> float:
    """Return about how wide a text of monospaced characters is."""
    return len(content) * size * MONO_ADVANCE
