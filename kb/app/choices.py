"""What a task leaves open: which author writes, in which language; and what cannot work is refused early."""

from __future__ import annotations

import shutil
from importlib.util import find_spec

from kb.app.models import check_models, model_is_configured
from kb.config import Home
from kb.errors import ConfigError, TaskError, ToolchainError
from kb.records.schema import TargetRecord
from search.task import TaskFile


def check_settings(settings: TaskFile, place: str) -> None:
    """Refuse what cannot work before anything that takes time; `place`: see `kb.app.device`."""
    from search.policies import make_policy

    make_policy(settings.search)
    if choose_author(settings) != "recipes" and model_is_configured(settings):
        check_models(Home.find(), settings)
    if settings.language == "cute" and place in {"cuda", "dry"} and not find_spec("cutlass"):
        raise ToolchainError(
            "language cute needs NVIDIA's package, which is not installed: pip install 'kernel-kb[cute]' "
            "(nvidia-cutlass-dsl), or use triton or cuda"
        )
    if settings.evaluator == "local" and place == "cpu" and shutil.which("g++") is None:
        raise ToolchainError(
            "no C++ compiler: expected g++ on PATH, found none: install your system's g++ "
            "(build-essential)"
        )


def choose_language(name: str, target: TargetRecord) -> str:
    """Return the language to write in: the target's first that kb can judge, or the named one."""
    from search.languages import LANGUAGES

    if name != "auto":
        LANGUAGES.check(name)
        if name not in target.languages:
            raise TaskError(
                f"language {name!r} does not run on {target.name}: it takes {', '.join(target.languages)}"
            )
        return name
    known = set(LANGUAGES)
    for language in target.languages:
        if language in known:
            return language
    raise TaskError(
        f"target {target.name!r} is described, not judged: it takes {', '.join(target.languages)}, kb judges "
        f"{', '.join(LANGUAGES)}: name another target"
    )


def choose_author(settings: TaskFile) -> str:
    """Return the author's name: a language model where one is configured, else recipes."""
    from search.authors import AUTHORS

    configured = model_is_configured(settings)
    if settings.author == "auto":
        return "llm" if configured else "recipes"
    name = AUTHORS.check(settings.author)
    if name == "llm" and not configured:
        raise ConfigError(
            "author llm needs a model: set `model: {name: …, base_url: …}` in the task, or KB_MODEL"
        )
    return name
