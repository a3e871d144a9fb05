"""The source in a model's reply: found whatever stands around it, or what is wrong in one line."""

from __future__ import annotations

import ast
import json
import re
import textwrap
import warnings
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any

from synth.replies.edits import apply_edits, has_edits, without_edits

ANSWER = "ModelNew"
_THOUGHTS = ("think", "thinking", "thought", "reasoning")
_OPEN = re.compile(r"^[ \t]*(?P<bar>`{3,}|~{3,})(?P<label>[^`\n]*)$")
# A comment that stands for code: an ellipsis with such a word, or the rest of something large.
_LEFT_OUT = re.compile(
    r"(?:#|//|/\*)\s*[(\[]?(?:\.\.\.|…)\s*[(\[]?(?:the\s+)?"
    r"(?:rest|remainder|remaining|same|unchanged|existing|omitted|previous|other)\b"
    r"|(?:#|//|/\*)\s*[(\[]?(?:the\s+)?(?:rest|remainder)\s+of\s+(?:the\s+)?"
    r"(?:code|file|class|kernels?|implementation|model|program|module|source|function)\b"
    r"|(?:#|//|/\*)\s*[(\[]?(?:same\s+as\s+(?:before|above)|unchanged|existing\s+code|as\s+before)"
    r"\s*[)\]]?\s*(?:\.\.\.|…)",
    re.IGNORECASE,
)
_QUOTED = 8  # lines that may close a fence
_START = re.compile(r"^(?:import |from \w[\w.]* import |\"\"\"|'''|# )")


@dataclass(frozen=True, slots=True, kw_only=True)
class Extracted:
    """What a reply held.

    Attributes:
        source: a whole Python file that defines `ModelNew`, None where there is none.
        problem: what was wrong, in one line that a model can act upon; "" where nothing was.
    """

    source: str | None
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Block:
    label: str
    text: str
    closed: bool


def extract_source(text: str, finish: str = "stop", program: str | None = None) -> Extracted:
    """Find the whole Python file that defines `ModelNew`, or the edits that make it of `program`.

    Thinking blocks are dropped; labels of fences are not believed, the parser is; of several
    complete files the last one counts, because models correct themselves downwards; a file that
    was split over several fences is put together.

    Args:
        text: the reply.
        finish: why the model stopped: "length" means that the reply was cut off.
        program: what edits are applied to, None where an edit is no answer.
    """
    said = without_thoughts(text.replace("\r\n", "\n").replace("\ufeff", ""))
    if said is None or not said.strip():
        ended = said is None
        return _failed(
            "the reply ended inside its thinking block: think less, and give the file"
            if ended
            else "the reply is empty: a whole Python file in a fence labelled python is needed"
        )
    if program is not None and has_edits(said):
        whole = extract_source(without_edits(said), finish)
        return whole if whole.source is not None else _edited(said, program)
    blocks = _blocks(said)
    for block in reversed(blocks):
        if (block.closed or finish != "length") and _answers(block.text):
            return _checked(_joined(blocks, block))
    if not blocks:
        bare = _bare(said) if finish != "length" else None
        if bare is not None:
            return _checked(bare)
        return _failed(
            "the reply holds no fenced code: put the whole Python file in one fence labelled python"
        )
    return _failed(_trouble(blocks, finish))


def _edited(said: str, program: str) -> Extracted:
    edited = apply_edits(said, program)
    if edited.source is None:
        return _failed(edited.problem)
    tree = _parse(edited.source)
    if isinstance(tree, str):
        return _failed(f"the edited file is not Python ({tree}): mend the edits")
    if ANSWER not in _names(tree):
        return _failed(f"the edited file defines no class {ANSWER}: keep it")
    return _checked(edited.source)


def without_thoughts(text: str) -> str | None:
    """Return a reply without its thinking blocks, None where it ends inside one."""
    for name in _THOUGHTS:
        opens = re.compile(rf"(?im)^[ \t]*<{name}>")
        closes = re.compile(rf"(?i)</{name}>")
        opening, closing = opens.search(text), closes.search(text)
        # Some templates open the block in the prompt, so that the reply only closes it.
        if closing and (opening is None or closing.start() < opening.start()):
            text = text[closing.end() :]
            opening = opens.search(text)
        kept, end = [], 0
        while opening is not None:
            kept.append(text[end : opening.start()])
            closing = closes.search(text, opening.end())
            if closing is None:
                break
            end = closing.end()
            opening = opens.search(text, end)
        else:
            kept.append(text[end:])
        text = "".join(kept)
        if opening is not None and not text.strip():
            return None
    return text


def fences(text: str) -> tuple[str, ...]:
    """Return the contents of the fenced blocks of `text`, in order."""
    return tuple(block.text for block in _blocks(text))


def listed_under(key: str, text: str) -> list[Any] | None:
    """Return the list that the first JSON object with such a list has under `key`, None without one."""
    decoder = json.JSONDecoder(strict=False)
    for piece in (text, *fences(text)):
        start = piece.find("{")
        while start >= 0:
            try:
                loaded, _ = decoder.raw_decode(piece, start)
            except (ValueError, RecursionError):
                loaded = None
            listed = loaded.get(key) if isinstance(loaded, dict) else None
            if isinstance(listed, list):
                return listed
            start = piece.find("{", start + 1) if start < 4000 else -1
    for piece in (text[text.find("{") : text.rfind("}") + 1], *fences(text)):
        loaded = load_value(piece.strip())
        listed = loaded.get(key) if isinstance(loaded, dict) else None
        if isinstance(listed, list):
            return listed
    return None


def load_value(text: str) -> Any | None:
    """Return the JSON value or Python literal that `text` is, trailing commas or not; None for neither."""
    if not text.startswith(("{", "[")):
        return None
    for candidate in (text, re.sub(r",(\s*[}\]])", r"\1", text)):
        try:
            return json.loads(candidate, strict=False)
        except (ValueError, RecursionError):
            continue
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # invalid escapes are the model's business
        try:
            return ast.literal_eval(text)
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            return None  # TypeError: a set of dictionaries, as `{{}}`


def _blocks(text: str) -> tuple[_Block, ...]:
    lines = text.split("\n")
    found = []
    at = 0
    while at < len(lines):
        opened = _OPEN.match(lines[at])
        if opened is None:
            at += 1
            continue
        end = _closing(lines, at + 1, opened["bar"])
        content = textwrap.dedent("\n".join(lines[at + 1 : end]))
        found.append(
            _Block(label=opened["label"].strip().lower(), text=content, closed=end is not None)
        )
        at = len(lines) if end is None else end + 1
    return tuple(found)


def _closing(lines: list[str], start: int, bar: str) -> int | None:
    """Return the line that closes a fence: the first one, unless only a later one makes Python."""
    same = re.compile(rf"^[ \t]*{re.escape(bar[0])}{{{len(bar)},}}[ \t]*$")
    after = (number for number in range(start, len(lines)) if same.match(lines[number]))
    # A docstring may quote a fence; nobody quotes more than a few.
    ends = tuple(islice(after, _QUOTED))
    for end in ends:
        if _answers(textwrap.dedent("\n".join(lines[start:end]))):
            return end
    return ends[0] if ends else None


@lru_cache(maxsize=16)
def _parse(source: str) -> ast.Module | str:
    """Return the tree of `source`, or what is wrong with it.

    A source is looked at several times while its fence is found, and nothing changes its tree.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # invalid escapes are the candidate's business
        try:
            return ast.parse(source)
        except SyntaxError as error:
            return f"line {error.lineno}: {error.msg}"
        except (ValueError, RecursionError, MemoryError) as error:
            return f"{type(error).__name__}: {error}"


def _names(tree: ast.Module) -> set[str]:
    names = {node.name for node in tree.body if isinstance(node, ast.ClassDef)}
    for node in tree.body:
        if isinstance(node, ast.Assign):
            names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return names


def _answers(source: str) -> bool:
    if ANSWER not in source:
        return False
    tree = _parse(source)
    return isinstance(tree, ast.Module) and ANSWER in _names(tree)


def _joined(blocks: tuple[_Block, ...], answer: _Block) -> str:
    """Return the file of `answer`, with the fences before it where it cannot stand alone."""
    if re.search(r"^[^\S\n]*(?:import|from)\s", answer.text, re.MULTILINE):
        return answer.text
    before = blocks[: blocks.index(answer)]
    parts = [block.text for block in before if isinstance(_parse(block.text), ast.Module)]
    whole = "\n\n".join([*parts, answer.text])
    return whole if _answers(whole) else answer.text


def _bare(text: str) -> str | None:
    """Return a file that stands in the reply without a fence."""
    if ANSWER not in text:
        return None
    lines = text.split("\n")
    starts = [number for number, line in enumerate(lines) if _START.match(line)]
    for start in starts[:8]:  # a file begins at one of the first lines that look like code
        end = len(lines)
        for _ in range(8):
            piece = "\n".join(lines[start:end])
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    ast.parse(piece)
                except SyntaxError as error:
                    cut = start + (error.lineno or 1) - 1
                    # Prose after the file stands at the margin; a break inside it does not.
                    if not start < cut < end or lines[cut][:1].isspace():
                        break
                    end = cut
                    continue
                except (ValueError, RecursionError, MemoryError):
                    break
            if _answers(piece):
                return piece
            break
    return None


def _checked(source: str) -> Extracted:
    for number, line in enumerate(source.split("\n"), start=1):
        if _LEFT_OUT.match(line.lstrip()[:200]):
            shown = " ".join(line.split())[:60]
            return _failed(
                f"the source leaves parts out (line {number}: {shown}): write the whole file"
            )
    return Extracted(source=source.strip("\n") + "\n")


def _trouble(blocks: tuple[_Block, ...], finish: str) -> str:
    last = blocks[-1]
    if not last.closed and finish == "length":
        return (
            "the reply was cut off before the file ended "
            f"(after {last.text.count(chr(10)) + 1} lines): write a shorter file"
        )
    for block in reversed(blocks):
        if ANSWER in block.text:
            fault = _parse(block.text)
            if isinstance(fault, str):
                return f"the fenced source is not Python ({fault}): give one whole Python file"
            return f"{ANSWER} is not defined at the top level of the file: make it a class there"
    trees = [tree for tree in (_parse(block.text) for block in blocks) if not isinstance(tree, str)]
    classes = sorted({name for tree in trees for name in _names(tree)})
    if classes:
        return f"no fence defines class {ANSWER} (found {', '.join(classes[:5])}): define it"
    label = next((block.label for block in blocks if block.label), "")
    kind = f"labelled {label[:20]!r} " if label else ""
    return (
        f"the fence {kind}holds no Python file with class {ANSWER}: give the whole file, "
        "kernels included as strings"
    )


def _failed(problem: str) -> Extracted:
    return Extracted(source=None, problem=problem)
