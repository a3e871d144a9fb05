"""Records of another project: the rules of ruff, one short text each, told by the program itself."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from kb.errors import ConfigError

PROGRAM = "ruff"


def write_rules(folder: Path) -> str:
    """Write one page for each rule to `folder` anew and return ruff's version.

    Raises:
        ConfigError: ruff is not installed, or does not tell its rules.
    """
    rules = json.loads(_told("rule", "--all", "--output-format", "json"))
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for rule in rules:
        if "Removed" not in rule["status"]:
            (folder / f"{rule['name']}.md").write_text(_page(rule), encoding="utf-8")
    return _told("--version").split()[-1]


def _page(rule: dict[str, Any]) -> str:
    heading = rule["name"] if rule["code"] is None else f"{rule['name']} ({rule['code']})"
    return f"# {heading}\n\n{rule['summary']}\n\n{rule['explanation'].strip()}\n"


def _told(*arguments: str) -> str:
    beside = Path(sys.executable).with_name(PROGRAM)
    program = str(beside) if beside.exists() else shutil.which(PROGRAM)
    if program is None:
        raise ConfigError(f"expected {PROGRAM}, found none: run pip install {PROGRAM}")
    try:
        done = subprocess.run([program, *arguments], check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise ConfigError(f"{program} {arguments[0]}: {error}: take a newer {PROGRAM}") from error
    return done.stdout
