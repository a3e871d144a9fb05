"""What a candidate's text costs the judge before it is run is bounded."""

import pytest

from search.languages import Unbuildable, cute, triton
from search.languages.cpp import Cpp
from search.languages.literals import LONGEST_FLAGS, LONGEST_SOURCE, calls, parse
from search.languages.native_parts import NativeParts
from search.languages.triton import Triton

DOUBLING = "A0 = 'int x;'\n" + "".join(f"A{n + 1} = A{n} + A{n}\n" for n in range(40))
MILLION = "".join(DOUBLING.splitlines(keepends=True)[:18])
# A list that holds a list twice, and so on: following it takes 2 to the power of 60 steps.
TANGLED = "A0 = ['f']\n" + "".join(f"A{n + 1} = [A{n}, A{n}]\n" for n in range(60))


def _value(text: str) -> object:
    (call,) = calls(parse(text), {"load_cpp": ("source", "flags")})
    return call.values.get("source")


@pytest.mark.parametrize("terms", [2, 900])
def test_a_sum_of_many_terms_is_put_together(terms: int) -> None:
    assert _value(f"load_cpp({' + '.join(['chr'.join(chr(39) * 2)] * terms)})") == "chr" * terms


def test_lists_are_put_together_in_order() -> None:
    assert _value("A = ['a']\nload_cpp(A + ['b', 'c'] + A)") == ["a", "b", "c", "a"]


def test_a_sum_of_different_kinds_is_not_known() -> None:
    assert _value("load_cpp('a' + ['b'])") is None
    assert _value("load_cpp(1 + 2)") is None


def test_constants_that_double_line_by_line_are_given_up() -> None:
    assert _value(DOUBLING + "load_cpp(A3)") == "int x;" * 8
    assert _value(DOUBLING + "load_cpp(A40)") is None


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        (f"load_cpp('{'x' * LONGEST_SOURCE}')", "are the most"),
        (f"{MILLION}B = A17 + A17 + A16\nload_cpp(B)", f"line 20: load_cpp: source .* {LONGEST_SOURCE} are"),
        (f"load_cpp('int x;', '{'-O2 ' * LONGEST_FLAGS}')", "flags of .* characters"),
        ("load_cpp('// \\ud800')", "surrogate"),
        ("load_cpp('', '\\udc00')", "surrogate"),
        ("x = '\ud800'", "not valid Python"),
        ("\n".join(f"load_cpp('int x{n};')" for n in range(17)), "line 17: .* more than 16"),
        ("load_cpp('int x;')\n" * 65, "more than 16"),
        (f"{TANGLED}load_cpp(A60)", "literal strings"),
    ],
    ids=["source", "folded", "flags", "half", "half flag", "half file", "parts", "calls", "tangled"],
)  # fmt: skip
def test_what_is_beyond_any_kernel_is_told(text: str, pattern: str) -> None:
    with pytest.raises(Unbuildable, match=pattern):
        Cpp().units(text)


@pytest.mark.parametrize(
    "functions", ["3", "[['f']]", "[[['f']], 3]", "{'f': 1}", "{'f': ['g']}", "A60"]
)
def test_functions_of_another_form_are_told(functions: str) -> None:
    text = f"{TANGLED}load_inline(name='m', cpp_sources='int f();', functions={functions})"
    with pytest.raises(Unbuildable, match="functions is a name"):
        NativeParts("sm_90").units(text)


@pytest.mark.parametrize("name", ["3", "A60", "'m' + 'n' * 2", "'a b'"])
def test_a_name_of_another_form_is_told(name: str) -> None:
    with pytest.raises(Unbuildable, match=r"name is a Python identifier|not known are name"):
        NativeParts("sm_90").units(f"{TANGLED}load_inline(name={name}, cpp_sources='')")


def test_sources_that_are_listed_a_thousand_times_are_bounded_together() -> None:
    many = f"{DOUBLING}load_inline(name='m', cpp_sources=[{'A12, ' * 1000}])"
    with pytest.raises(Unbuildable, match="are the most"):
        NativeParts("sm_90").units(many)


# The times of what follows grew with the square of the length: these took from minutes to hours.
def test_blank_lines_are_no_work() -> None:
    assert not cute.imports_cute("\n" * 1_000_000)
    assert cute.imports_cute("\n" * 1_000_000 + "    import cutlass.cute as cute")


def test_a_forged_error_message_is_explained_at_once() -> None:
    assert Triton("sm_90").explain("at 1:1:\n" * 500_000)
    assert triton.explained("at 1:1:\n" * 150 + "def k():\n    x\n    ^\nno x\n").startswith(
        "no x in: x"
    )


def test_a_long_name_in_a_compilers_message_is_no_work() -> None:
    parts = NativeParts("sm_90")
    assert parts.explain(
        "x" * 200_000 + "\n" + "a.b" * 100_000 + "\nkernel.cu(3): error: no ;"
    ).startswith("kernel.cu line 3: no ;")


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("kernel.cu(7): error: expected a ';'", "kernel.cu line 7: expected a ';'"),
        ("/tmp/build-x1/kernel.cu(7): error #20: no", "kernel.cu line 7: no"),
        ("my-file.cu(7): catastrophic error: no", "file.cu line 7: no"),
        ("/usr/include/a.h:12:3: fatal error: no", "a.h line 12: no"),
        ("cpp_sources:2:1: error: no", "cpp_sources line 2: no"),
    ],
)
def test_places_are_told_as_before(line: str, told: str) -> None:
    assert NativeParts("sm_90").explain(line) == told
