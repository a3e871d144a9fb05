"""Foreign text as it may be looked at: models, documents, compilers and file names say what they like."""

from __future__ import annotations

import io
import re
import sys

# Bidirectional controls, invisible spaces, interlinear marks, tags and lone surrogates; C1 controls.
_HIDDEN = re.compile(
    "[\u0080-\u009f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f]")
_COLOURS = re.compile("(\x1b\\[[0-9;]*m)")  # that rich writes


def visible(text: str) -> str:
    """Return `text` with every character that hides, or steers a terminal, shown as a sign of its own."""
    text = _CONTROL.sub(_picture, text.replace("\r\n", "\n"))
    return _HIDDEN.sub(lambda found: f"⟦U+{ord(found.group()):04X}⟧", text)


def _picture(found: re.Match[str]) -> str:
    code = ord(found.group())
    return "\u2421" if code == 0x7F else chr(0x2400 + code)


class TerminalOutput(io.TextIOWrapper):
    """Standard output where it is a terminal: what it is given is shown, and steers nothing but colours."""

    def write(self, text: str, /) -> int:
        """Write `text`."""
        parts = _COLOURS.split(text)
        super().write(
            "".join(one if place % 2 else visible(one) for place, one in enumerate(parts))
        )
        return len(text)


def guard_output() -> None:
    """Have standard output take any text: a terminal is steered by none, and a file or a pipe fails at none."""
    out = sys.stdout
    if not isinstance(out, io.TextIOWrapper):
        return
    if out.isatty():
        sys.stdout = TerminalOutput(
            out.buffer, encoding=out.encoding, errors="backslashreplace", line_buffering=True
        )
    else:
        # A lone surrogate, which is no UTF-8: so it stands in JSON as well.
        out.reconfigure(errors="backslashreplace")
