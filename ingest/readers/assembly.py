"""Assembly cut along functions: PTX, listings of SASS, and the instructions of AMD's GPUs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePosixPath

from ingest.readers import Block, ParsedFile, Section
from kb.records.types import Scope
from kb.tokens import count_tokens

PART = 330  # tokens
_HEAD = 100_000  # characters in which a listing says what it is for
_NAMES = 6  # parts of a mangled name that are worth reading
_LABEL = re.compile(r"^(?:\$\w+|\.?L[\w.$]*|LBB\w+):")
_NESTED = re.compile(r"_Z(?:N[rVK]*)?(?:St|S_)?L?([0-9]{1,3})")
_LENGTH = re.compile(r"([0-9]{1,3})")
_DEBUGGING = re.compile(r"^\s*\.(?:loc|file|cfi_\w+|ident|addrsig\w*)\b")
_DEBUG_DATA = re.compile(r"^\s*\.section\s+\.debug")
_AFTER_DATA = re.compile(r"^\s*(?:\}|\.section\s+(?!\.debug)|\.text\b)")


class _Assembly:
    """Cuts at the lines that begin a function; the subclasses know them."""

    starts: re.Pattern[str]  # group "name": the function's
    target: re.Pattern[str]  # group 1: the architecture that it is for
    vendor = "nvidia"

    def read(self, text: str, path: str) -> ParsedFile:
        """Read a listing: a section for each function, and one for what comes before them."""
        title = PurePosixPath(path).name
        lines = _without_debugging(text.expandtabs().split("\n"))
        begins = [
            (_with_comments(lines, number), found.group("name"), number)
            for number, line in enumerate(lines)
            if (found := self.starts.match(line))
        ]
        starts = [*(start for start, *_ in begins), len(lines)]
        sections = [_section((title,), lines[: starts[0]], "")]
        for (start, name, head), end in zip(begins, starts[1:], strict=True):
            sections.append(_section((title, readable(name)), lines[start:end], lines[head]))
        kept = tuple(one for one in sections if one.blocks)
        return ParsedFile(
            kind="document", title=title, body=text, sections=kept, scope=self._scope(text)
        )

    def _scope(self, text: str) -> Scope:
        """Return where a listing applies: it is for one architecture, and says so at its head."""
        found = self.target.search(text, 0, _HEAD)
        named = () if found is None else (self._architecture(found.group(1)),)
        return Scope(vendor=(self.vendor,), architecture=named)

    def _architecture(self, name: str) -> str:
        return f"sm_{name}"


class Ptx(_Assembly):
    """PTX (PTX ISA, section 10.1: .entry is a kernel, .func a function)."""

    target = re.compile(r"^\s*\.target\s+sm_(\d+)", re.MULTILINE)

    starts = re.compile(
        r"^\s*(?:\.(?:visible|weak|extern|common)\s+)*\.(?:entry|func)\s+(?:\([^)]*\)\s*)?(?P<name>[\w$.]+)"
    )


class Sass(_Assembly):
    """What cuobjdump and nvdisasm print of a program for NVIDIA's GPUs."""

    target = re.compile(r"(?:code for sm_|EF_CUDA_SM|\.target\s+sm_)(\d+)")

    starts = re.compile(r"^\s*(?:Function\s*:\s*|\.section\s+\.text\.)(?P<name>[\w$.]+)")


class Amdgcn(_Assembly):
    """What LLVM prints for AMD's GPUs."""

    starts = re.compile(r"^\s*\.globl\s+(?P<name>[\w$.]+)")
    target = re.compile(r"\.amdgcn_target\s+\"[\w-]*--(gfx\w+)")
    vendor = "amd"

    def _architecture(self, name: str) -> str:
        return name


def readable(name: str) -> str:
    """Return a function's name with the words of its mangled form before it, if it has one.

    Only the identifiers are taken from it (Itanium C++ ABI, section 5.1.2): what a question asks for.
    """
    if not name.startswith("_Z"):
        return name
    words: list[str] = []
    found = _NESTED.match(name)
    while found and len(words) < _NAMES:
        word = name[found.end() : found.end() + int(found.group(1))]
        words.append(word)
        found = _LENGTH.match(name, found.end() + len(word))
    return f"{'::'.join(words)} ({name[:120]})" if words else name


def _without_debugging(lines: Sequence[str]) -> list[str]:
    """Leave out what tells a debugger of the source's lines and types: often most of a file."""
    kept: list[str] = []
    inside = False
    for line in lines:
        if _DEBUG_DATA.match(line):
            inside = True
        elif inside and _AFTER_DATA.match(line):
            inside = False
            if line.strip() == "}":
                continue
        if not inside and not _DEBUGGING.match(line):
            kept.append(line)
    return kept


def _with_comments(lines: Sequence[str], number: int) -> int:
    while number and lines[number - 1].lstrip().startswith("//"):
        number -= 1
    return number


def _section(trail: tuple[str, ...], lines: Sequence[str], head: str) -> Section:
    """Cut a function at its labels and blank lines; each part but the first repeats its head."""
    parts: list[list[str]] = [[]]
    used = 0
    for group in _groups(lines):
        cost = count_tokens("\n".join(group))
        if parts[-1] and used + cost > PART:
            parts.append([])
            used = 0
        parts[-1] += group
        used += cost
    texts = ["\n".join(part).strip("\n").rstrip() for part in parts]
    texts = [text for text in texts if any(one.isalnum() for one in text)]
    lead = f"{head.rstrip()[:200]} // … continued\n" if head else ""
    blocks = (
        Block(text=text if not number else f"{lead}{text}", kind="code")
        for number, text in enumerate(texts)
    )
    return Section(trail=trail, blocks=tuple(blocks))


def _groups(lines: Sequence[str]) -> list[list[str]]:
    """Return basic blocks, or eight lines at a time where one is long."""
    groups: list[list[str]] = [[]]
    for line in lines:
        if groups[-1] and (not line.strip() or _LABEL.match(line.strip()) or len(groups[-1]) >= 8):
            groups.append([])
        groups[-1].append(line)
    return groups
