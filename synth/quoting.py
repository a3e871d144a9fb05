"""Quoting: documents and candidates enter a prompt as data, never as instructions."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

_BACKTICKS = re.compile(r"`+")
_LABEL = re.compile(r"[^A-Za-z0-9_+#.-]")

# Turn markers of chat templates. Servers turn them into control tokens wherever they stand, so a
# quoted one could end the user's turn.
_CONTROL = re.compile(
    r"<\|(?P<bar>[^|<>\n]{1,40})\|>"
    r"|<(?P<slash>/?)(?P<turn>start_of_turn|end_of_turn|bos|eos|s)>"
    r"|\[(?P<inst>/?INST)\]"
    r"|<<(?P<sys>/?SYS)>>"
)

_INSTRUCTION = re.compile(
    r"(?:ignore|disregard|forget|override)\s+(?:(?:all|any|every|each|of|the|your|my|these|those)\s+)*"
    r"(?:previous|prior|above|earlier|preceding|foregoing|other|system|task'?s?)\b"
    r"|(?:ignore|disregard|forget|override)\s+(?:(?:all|any|the|your|these)\s+)*"
    r"(?:instructions|rules|constraints|prompt|task)\b"
    r"|\byou\s+are\s+(?:now|no\s+longer)\b"
    r"|\b(?:new|updated|real|actual)\s+(?:system\s+)?(?:instructions?|prompt)\s*:"
    r"|\bsystem\s+prompt\b"
    r"|^[ \t]*(?:#+[ \t]*)?(?:system|assistant|user)[ \t]*:"
    r"|\b(?:reply|respond|answer)\s+(?:only|just|instead)\s+with\b"
    r"|\b(?:do\s+not|don't|never)\s+(?:tell|mention|reveal|inform)\b"
    r"|\binstead\s+of\s+(?:the\s+|your\s+)?(?:task|answering)\b",
    re.IGNORECASE | re.MULTILINE,
)


def fence(text: str, label: str = "") -> str:
    """Return `text` as a fenced block that nothing inside it can close.

    The fence is longer than any run of backticks inside, which is CommonMark's rule (section 4.5),
    and turn markers of chat templates are broken up by `defuse`.
    """
    body = defuse(text).strip("\n")
    longest = max((len(run) for run in _BACKTICKS.findall(body)), default=0)
    bar = "`" * max(3, longest + 1)
    return f"{bar}{_LABEL.sub('', label)}\n{body}\n{bar}"


def defuse(text: str) -> str:
    """Break up turn markers of chat templates, so that no server reads them as control tokens.

    What is inserted is white space, which changes no Python, C++ or CUDA outside its strings.
    """
    return _CONTROL.sub(_split, text.replace("\r\n", "\n").replace("\r", "\n"))


def _split(match: re.Match[str]) -> str:
    marker = match.group()
    return f"{marker[0]} {marker[1:-1]} {marker[-1]}"


def one_line(text: str, width: int = 200) -> str:
    """Return `text` on one line, cut to `width` characters, with nothing that opens a fence."""
    line = defuse(" ".join(text.split())).replace("```", "'''")
    return line if len(line) <= width else line[: width - 1] + "…"


@lru_cache(maxsize=1024)
def instructions(text: str) -> tuple[str, ...]:
    """Return the lines of a quoted text that talk to its reader as if they were the prompt."""
    found = []
    for line in text.splitlines():
        if _INSTRUCTION.search(line) or _CONTROL.search(line):
            found.append(one_line(line, 100))
    return tuple(found)


def shorten(text: str, tokens: int, count: Callable[[str], int], *, ending: float = 0.25) -> str:
    """Cut whole lines out of `text` until it counts at most `tokens`.

    A source begins with what it is, a compiler with its first error, so that most of what stays is
    from the start. Returns "" where not one line fits.

    Args:
        ending: share of what stays that is from the end; 0 cuts the end off.
    """
    if count(text) <= tokens:
        return text
    lines = text.split("\n")
    low, high = 0, len(lines) - 1
    while low < high:
        middle = (low + high + 1) // 2
        if count(_cut(lines, middle, ending)) <= tokens:
            low = middle
        else:
            high = middle - 1
    return _cut(lines, low, ending) if low else ""


def _cut(lines: list[str], keep: int, ending: float) -> str:
    tail = int(ending * keep)
    marker = f"[... {len(lines) - keep} of {len(lines)} lines left out ...]"
    return "\n".join([*lines[: keep - tail], marker, *(lines[-tail:] if tail else ())])
