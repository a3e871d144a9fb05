"""Prompts cut at their headings, so that a reader opens the part that they look for."""

from __future__ import annotations

_FENCE = "```"


def parts(text: str) -> list[tuple[str, str]]:
    """Return the parts of a prompt, each with its heading; "" for what comes before the first one.

    Only headings of the first level count, and none within a fence: a quoted document has its own.
    """
    found: list[tuple[str, list[str]]] = [("", [])]
    fence = ""
    for line in text.split("\n"):
        bare = line.lstrip()
        if bare.startswith(_FENCE):
            run = bare[: len(bare) - len(bare.lstrip("`"))]
            if not fence:
                fence = run
            elif bare.strip() == bare[: len(run)] and len(run) >= len(fence):
                fence = ""
        if not fence and line.startswith("# "):
            found.append((line[2:].strip(), []))
        else:
            found[-1][1].append(line)
    joined = [(head, "\n".join(lines).strip("\n")) for head, lines in found]
    return [(head, body) for head, body in joined if head or body.strip()]
