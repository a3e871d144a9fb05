"""Winners in the formats of those whose tasks they solve: a solution in JSON, or GPU MODE's ``submission.py``."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from kb.errors import TaskError
from search.formats.gpumode import takes_tuple
from search.formats.schema import KernelDefinition, load_definition
from search.languages.written import written_in

SolutionForm = Literal["sol-execbench", "flashinfer-bench"]
_AUTHOR = "kernel-kb"
_FILE, _ENTRY = "main.py", "run_kernel"
# What each calls the language of a Python file, by that of its kernels.
_LANGUAGES: dict[str, dict[str, str]] = {
    "sol-execbench": {"": "pytorch", "triton": "triton", "cute": "cute_dsl", "cuda": "pytorch"},
    "flashinfer-bench": {"": "python", "triton": "triton", "cute": "python", "cuda": "python"},
}
_NARROW = ("float16", "bfloat16")


@dataclass(frozen=True, slots=True, kw_only=True)
class SolutionTitle:
    """What a solution is called and runs on.

    Attributes:
        hardware: as its format writes it: ``B200`` or ``LOCAL`` in SOL-ExecBench, ``NVIDIA_H100`` in flashinfer-bench.
    """

    name: str
    form: SolutionForm
    hardware: str


def write_solution(path: Path, source: str, title: SolutionTitle) -> str:
    """Return the JSON of a solution of a definition: one Python file that returns its outputs.

    Args:
        path: of the definition.
        source: of a candidate that defines ``ModelNew``, and needs no `kb`.

    Raises:
        TaskError: it is no definition, or the candidate's kernels are for a processor.
    """
    definition = load_definition(path)
    known = _LANGUAGES[title.form]
    spec: dict[str, object] = {
        "target_hardware": [title.hardware],
        "entry_point": f"{_FILE}::{_ENTRY}",
        "dependencies": ["torch", *(["triton"] if "triton" in written_in(source) else [])],
        "destination_passing_style": False,
    }
    languages = _languages(source) or ("",)
    named = list(dict.fromkeys(known[one] for one in languages))
    if title.form == "sol-execbench":
        spec["languages"] = named
    else:
        spec["language"] = named[0]
    values = {
        "name": title.name,
        "definition": definition.name,
        "author": _AUTHOR,
        "spec": spec,
        "sources": [{"path": _FILE, "content": f"{source.rstrip()}\n\n\n{_entry(definition)}"}],
    }
    return json.dumps(values, indent=2) + "\n"


def write_submission(path: Path, source: str) -> str:
    """Return the ``submission.py`` of a task of GPU MODE.

    Args:
        path: of its ``task.yml``.
        source: of a candidate that defines ``ModelNew``, and needs no `kb`.

    Raises:
        TaskError: it is no task of GPU MODE, or the candidate's kernels are for a processor.
    """
    _languages(source)
    given = "*data" if takes_tuple(path) else "data"
    return (
        f"{source.rstrip()}\n\n\n_kb_models = []\n\n\ndef custom_kernel(data):\n"
        "    if not _kb_models:\n        _kb_models.append(ModelNew())\n"
        f"    return _kb_models[0]({given})\n"
    )


def _languages(source: str) -> tuple[str, ...]:
    found = written_in(source)
    if "cpp" in found:
        raise TaskError(
            "expected kernels for a GPU, found C++ for a processor: name a run whose target is a GPU"
        )
    return found


def _entry(definition: KernelDefinition) -> str:
    """Return the function that is called, whose outputs have the definition's types."""
    names = ", ".join(definition.inputs)
    types = [f"torch.{one.dtype}" if one.dtype in _NARROW else "None" for one in definition.outputs.values()]  # fmt: skip
    return (
        f"import torch\n\n_kb_models = []\n_kb_types = ({', '.join(types)},)\n\n\ndef {_ENTRY}({names}):\n"
        "    if not _kb_models:\n        _kb_models.append(ModelNew())\n"
        f"    return _kb_narrowed(_kb_models[0]({names}))\n\n\n"
        "def _kb_narrowed(found):\n"
        "    values = found if isinstance(found, (tuple, list)) else (found,)\n"
        "    made = tuple(\n"
        "        value if wanted is None else value.to(wanted) for value, wanted in zip(values, _kb_types)\n"
        "    )\n"
        "    return made if len(made) > 1 else made[0]\n"
    )
