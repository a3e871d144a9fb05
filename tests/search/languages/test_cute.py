from importlib.util import find_spec

import pytest

from search.languages import LANGUAGES, Unbuildable
from search.languages.cute import Cute


def test_the_language_is_registered() -> None:
    assert isinstance(LANGUAGES.create("cute", "sm_90"), Cute)


@pytest.mark.skipif(find_spec("cutlass") is not None, reason="the package is installed")
@pytest.mark.parametrize("text", ["import cutlass", "import cutlass.cute as cute", "    from cutlass import cute"])  # fmt: skip
def test_without_its_package_the_message_says_what_to_install(text: str) -> None:
    source = f"if True:\n{text if text[0] == ' ' else '    ' + text}\n"
    with pytest.raises(Unbuildable, match=r"pip install 'kernel-kb\[cute\]'"):
        Cute("sm_90").units(source)


def test_a_module_of_a_similar_name_is_not_the_package() -> None:
    assert Cute("sm_90").units("import cutlassish\n") == ()


def test_a_users_error_is_told_with_its_line_and_without_colours() -> None:
    message = (  # of nvidia-cutlass-dsl 4.8.1
        "\n\x1b[91m\x1b[1merror:\x1b[0m NameError in `scale_relu`: name 'nope' is not defined\n"
        "  \x1b[94m-->\x1b[0m candidate.py:14\n   |\n13 |     if i < n:\n14 |         v = x[i] * nope\n"
        "   |         \x1b[91m^\x1b[0m\n  \x1b[94m= note:\x1b[0m Caused exception: name 'nope' is not defined\n"
    )
    told = "line 14: NameError in `scale_relu`: name 'nope' is not defined"
    assert Cute("sm_90").explain(message) == told


def test_frames_of_the_package_are_left_out() -> None:
    message = (
        'Traceback (most recent call last):\n  File "nvidia_cutlass_dsl/x.py", line 3, in y\n'
        "cutlass.base_dsl.common.DSLRuntimeError: the layout is not static\n"
    )
    told = "cutlass.base_dsl.common.DSLRuntimeError: the layout is not static"
    assert Cute("sm_90").explain(message) == told
