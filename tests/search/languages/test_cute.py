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


def test_a_users_error_is_cut_out_of_the_packages_frames() -> None:
    message = (
        'Traceback (most recent call last):\n  File "site-packages/nvidia_cutlass_dsl/x.py", line 3, in y\n'
        "\x1b[91mcutlass.base_dsl.common.DSLRuntimeError: DSLRuntimeError: name 'foo' is not defined\x1b[0m\n  more"
    )
    assert Cute("sm_90").explain(message).startswith("cutlass.base_dsl.common.DSLRuntimeError")
    assert "\x1b" not in Cute("sm_90").explain(message)
