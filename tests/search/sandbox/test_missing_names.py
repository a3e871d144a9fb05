from __future__ import annotations

import linecache
import sys
import types

import pytest

from search.sandbox.missing_names import missing_names
from search.sandbox.runner import NAME, describe

LACKS = """
import math, os.path
import json.decoder as decoder
from fractions import Fraction, Fractoin
from json import scanner, skanner
import textwrap as T

def answer(x):
    math.sqrt2(x)
    os.path.joyn("a")
    decoder.JSONDecoder().nothing
    T.dedents(x); T.dedent(x)
    x.nothing.at_all
    math.pi.nothing
"""


@pytest.fixture
def known(monkeypatch):
    def know(source: str) -> None:
        monkeypatch.setitem(
            linecache.cache, NAME, (len(source), None, source.splitlines(keepends=True), NAME)
        )

    return know


def test_all_names_that_modules_lack_are_told_with_what_is_there(known) -> None:
    known(LACKS)
    told = missing_names("module 'math' has no attribute 'sqrt2'", NAME)
    assert told == (
        "not there, of all that it names: fractions.Fractoin (there is Fraction), json.skanner (there is scanner), "
        "math.sqrt2 (there is sqrt, isqrt), os.path.joyn (there is join), T.dedents (there is dedent, indent)"
    )


def test_what_is_reported_of_something_else_has_no_such_line(known) -> None:
    known(LACKS)
    assert missing_names("division by zero", NAME) == ""
    known("import math\nmath.sqrt(2)\n")
    assert missing_names("'Tensor' object has no attribute 'nothing'", NAME) == ""
    known("def (")
    assert missing_names("module 'math' has no attribute 'sqrt2'", NAME) == ""


def test_a_candidate_that_raises_is_told_of_the_others_too(known) -> None:
    source = "import math\ndef run():\n    math.sinus(1)\n    math.cosinus(1)\n"
    known(source)
    namespace: dict[str, object] = {}
    exec(compile(source, NAME, "exec"), namespace)
    with pytest.raises(AttributeError) as caught:
        namespace["run"]()
    first, second = describe(caught.value)["message"].splitlines()
    assert first == "module 'math' has no attribute 'sinus'"
    assert "math.cosinus (there is" in second


def test_a_module_that_makes_its_names_when_they_are_asked_for_may_fail(known, monkeypatch) -> None:
    lazy = types.ModuleType("lazy")

    def make(name: str) -> object:
        raise ImportError(f"{name} needs a package that is not here")

    lazy.__getattr__ = make
    monkeypatch.setitem(sys.modules, "lazy", lazy)
    known("import lazy\nimport math\nlazy.heavy(1)\nmath.sinus(1)\n")
    told = missing_names("module 'math' has no attribute 'sinus'", NAME)
    assert "math.sinus (there is sin" in told
    assert "heavy" not in told
