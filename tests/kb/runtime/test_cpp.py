import ctypes
import shutil
import sys
from pathlib import Path

import pytest

from kb.runtime import cpp

SOURCE = 'extern "C" int twice(int x) { return 2 * x; }'


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


def test_a_source_is_compiled_once_and_found_again(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cpp.load_cpp(SOURCE).twice(21) == 42
    (built,) = (cache / "kb" / "native").iterdir()
    assert built.suffix == ".so"

    def never(*_: object) -> None:
        raise AssertionError("compiled again")

    monkeypatch.setattr(cpp, "_compile", never)
    assert cpp.load_cpp(SOURCE).twice(4) == 8


def test_flags_are_part_of_the_name_and_their_spacing_is_not() -> None:
    assert cpp.native_key("x", "-O2  -w") == cpp.native_key("x", "-O2 -w")
    assert cpp.native_key("x", "-O2") != cpp.native_key("x")


def test_a_prebuilt_object_comes_before_the_compiler(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cpp.load_cpp(SOURCE)
    (built,) = (cache / "kb" / "native").iterdir()
    elsewhere = shutil.copy(built, cache / "other.so")
    monkeypatch.setattr(cpp, "prebuilt", {cpp.native_key("another text"): str(elsewhere)})
    monkeypatch.setattr(cpp, "sealed", True)
    assert cpp.load_cpp("another text").twice(1) == 2
    with pytest.raises(RuntimeError, match="literal string"):
        cpp.load_cpp("a third text")


@pytest.mark.usefixtures("cache")
def test_the_compilers_message_is_handed_on() -> None:
    with pytest.raises(RuntimeError, match="undeclared"):
        cpp.load_cpp("int f() { return undeclared; }")


@pytest.mark.usefixtures("cache")
def test_a_missing_compiler_is_told_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(RuntimeError, match=r"g\+\+ was not found: install it"):
        cpp.load_cpp(SOURCE)


def test_the_module_stands_alone() -> None:
    # `kb best` copies its text into the winning file.
    namespace: dict[str, object] = {"__name__": "copied"}
    text = Path(cpp.__file__).read_text()
    assert "from kb" not in text
    exec(compile(text, "copied", "exec"), namespace)
    assert callable(namespace["load_cpp"])
    assert ctypes


def test_a_c_function_becomes_one_of_pythons_own(cache: Path) -> None:
    library = cpp.load_cpp(
        """
        extern "C" { void* PyLong_AsVoidPtr(void*); void Py_IncRef(void*); }
        extern "C" void* scale(void* none, void* const* a, long count) {
          float* x = (float*)PyLong_AsVoidPtr(a[0]);
          for (long i = 0; i < 3; ++i) x[i] *= 2 * count;
          Py_IncRef(none);
          return none;
        }
        """
    )
    assert cache.exists()
    scale = cpp.method(library.scale)
    values = (ctypes.c_float * 3)(1, 2, 3)
    references = sys.getrefcount(None)
    for _ in range(1000):
        assert scale(ctypes.addressof(values)) is None
        values[:] = 1, 2, 3
    assert abs(sys.getrefcount(None) - references) < 100
    scale(ctypes.addressof(values))
    assert list(values) == [2, 4, 6]
    with pytest.raises(TypeError, match="keyword"):
        scale(x=1)
