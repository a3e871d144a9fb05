import pytest

from kb.errors import ToolchainError
from kb.runtime.cpp import native_key
from search.languages import LANGUAGES, Unbuildable, Unit
from search.languages.cpp import Cpp


def test_the_language_is_registered() -> None:
    assert isinstance(LANGUAGES.create("cpp"), Cpp)


@pytest.mark.parametrize(
    "text",
    [
        "from kb.native import load_cpp\nL = load_cpp('int x;', '-O2')",
        "import kb.native\nL = kb.native.load_cpp(source='int x;', flags='-O2')",
        "S = 'int x;'\nF: str = '-O2'\ndef later():\n    return load_cpp(S, F)",
        "HEAD = 'int '\nL = load_cpp(HEAD + 'x;', '-O2')",
        "L = load_cpp('int ' 'x;', '-O2'); M = load_cpp('int x;', '-O2')",
    ],
)
def test_literals_and_constants_are_found_without_running_the_file(text: str) -> None:
    (unit,) = Cpp().units(text)
    assert (unit.source, unit.flags) == ("int x;", ("-O2",))
    assert unit.key == native_key("int x;", "-O2")


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ("load_cpp(input())", "line 1: load_cpp takes literal strings"),
        ("S = 'a'\nS = 'b'\nload_cpp(S)", "line 3: load_cpp takes literal"),
        ("load_cpp(f'{1}')", "literal"),
        ("load_cpp()", "literal"),
        ("load_cpp('x', '\"')", "No closing quotation"),
        ("def f(:", "line 1: "),
        ("x = '\0'", "not valid Python"),
    ],
)
def test_what_cannot_be_built_beforehand_is_told_with_its_line(text: str, pattern: str) -> None:
    with pytest.raises(Unbuildable, match=pattern):
        Cpp().units(text)


@pytest.mark.parametrize(
    "flag",
    ["-o/tmp/x", "-fplugin=x.so", "-I/home", "-include x", "-Wl,-rpath,x", "-B/tmp", "@file", "-wrapper sh", "-E",
     "-specs=x", "-l:x", "-save-temps", "-fdump-tree-all", "-DX=a/b", "kernel2.cpp", "-MD", "-L/"],
)  # fmt: skip
def test_flags_that_reach_files_or_programs_are_refused(flag: str) -> None:
    with pytest.raises(Unbuildable, match="not allowed"):
        Cpp().units(f"load_cpp('int x;', {flag!r})")


@pytest.mark.parametrize(
    "flags",
    ["-ffast-math -fno-math-errno", "-O3 -funroll-loops", "-mavx512f -mprefer-vector-width=512", "-DTILE=8",
     "-std=c++20", "-ffp-contract=fast", "--param=max-unroll-times=4"],
)  # fmt: skip
def test_flags_that_only_optimise_are_allowed(flags: str) -> None:
    assert Cpp().units(f"load_cpp('int x;', {flags!r})")


def test_a_compilers_message_is_cut_to_the_first_errors() -> None:
    message = "\n".join(
        ["kernel.cpp: In function 'void f()':"]
        + [f"kernel.cpp:{n}:3: error: 'x{n}' was not declared" for n in range(1, 9)]
        + ["kernel.cpp:9:1: note: suggested alternative"]
    )
    lines = Cpp().explain(message).splitlines()
    assert lines[0] == "line 1, column 3: 'x1' was not declared"
    assert len(lines) == 4


def test_a_message_of_another_kind_is_kept() -> None:
    assert "undefined reference" in Cpp().explain("/usr/bin/ld: undefined reference to `f'")
    assert Cpp().explain("something else\nhappened") == "something else\nhappened"


def test_no_compiler_is_one_line_that_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    unit = Unit(key="k", source="", flags=(), line=1)
    with pytest.raises(ToolchainError, match=r"g\+\+.*install it"):
        Cpp().command(unit, "a.cpp", "a.so")
