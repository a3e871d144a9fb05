"""The parts of a record's text: YAML front matter, what it says, a recipe's template."""

from __future__ import annotations

import re

_TEMPLATE = re.compile(r"^```jinja\n(.*?)^```", re.MULTILINE | re.DOTALL)


def split_template(body: str) -> tuple[str, str | None]:
    """Split the body of an idea into what it says and its recipe's template, None without one."""
    found = _TEMPLATE.search(body)
    return _TEMPLATE.sub("", body).strip(), found.group(1) if found else None


def split_front_matter(text: str) -> tuple[str | None, str]:
    """Split `text` into its YAML front matter (None where there is none) and its body."""
    lines = text.split("\n")
    if not lines or lines[0].rstrip() != "---":
        return None, text
    for number, line in enumerate(lines[1:], start=1):
        if line.rstrip() == "---":
            return "\n".join(lines[1:number]), "\n".join(lines[number + 1 :])
    return None, text


def without_key(front: str, key: str) -> str:
    """Return front matter without one of its keys, its other lines as they were written."""
    kept: list[str] = []
    inside = False
    for line in front.split("\n"):
        inside = line.startswith(f"{key}:") or (inside and line[:1] in (" ", "-", ""))
        if not inside:
            kept.append(line)
    return "\n".join(kept)
