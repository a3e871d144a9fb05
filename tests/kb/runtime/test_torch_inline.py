import subprocess
import sys

import pytest

from kb.runtime import cpp
from kb.runtime.torch_inline import inline_key, load_inline_prebuilt

INSTALLED = """
import sys, time
import torch
from kb.runtime import cpp, torch_inline
cpp.sealed = True
assert "torch.utils.cpp_extension" not in sys.modules
torch_inline.install()
{}
"""


def _run(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", INSTALLED.format(code)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_string_and_a_list_of_it_ask_for_one_extension() -> None:
    assert inline_key({"name": "x", "cpp_sources": "a", "functions": "f"}) == inline_key(
        {"name": "x", "cpp_sources": ["a"], "functions": ["f"], "cuda_sources": None}
    )
    assert inline_key({"name": "x", "cpp_sources": ["a", "b"]}) != inline_key(
        {"name": "x", "cpp_sources": ["ab"]}
    )


def test_what_was_not_built_is_not_built_now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpp, "sealed", True)
    with pytest.raises(RuntimeError, match="load_inline: this source was not found in the file"):
        load_inline_prebuilt("x", "int f();", functions=["f"])


@pytest.mark.slow
@pytest.mark.parametrize(
    "way",
    [
        "from torch.utils.cpp_extension import load_inline",
        "import torch.utils.cpp_extension as e; load_inline = e.load_inline",
        "load_inline = torch.utils.cpp_extension.load_inline",
        "from torch.utils import cpp_extension; load_inline = cpp_extension.load_inline",
    ],
)
def test_every_way_to_load_inline_finds_what_was_built_before(way: str) -> None:
    said = _run(
        f"{way}\n"
        "assert load_inline is torch_inline.load_inline_prebuilt\n"
        "assert 'setuptools' not in sys.modules\n"
        "try: load_inline('x', '')\n"
        "except RuntimeError as error: print(error)"
    )
    assert said.startswith("load_inline: this source was not found")


@pytest.mark.slow
def test_the_rest_of_torchs_module_is_there_when_it_is_asked_for() -> None:
    said = _run(
        "from torch.utils.cpp_extension import CUDA_HOME, load_inline, include_paths\n"
        "import torch.utils.cpp_extension as real\n"
        "assert real.load_inline is load_inline is torch_inline.load_inline_prebuilt\n"
        "print(len(include_paths()) > 0)"
    )
    assert said == "True"
