"""Triton's compilations in the judge's hands: with the real Triton, ptxas and sandbox, and no device."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from search.judging.cuda.compiling import Compiler
from search.sandbox.zygote import Zygote

pytest.importorskip("triton")

PTX = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry twice(.param .u64 data)
{
    .reg .b64 %a;
    .reg .f32 %f;
    ld.param.u64 %a, [data];
    ld.global.f32 %f, [%a];
    add.f32 %f, %f, %f;
    st.global.f32 [%a], %f;
    ret;
}
"""


@pytest.fixture(scope="module")
def compiler(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Compiler]:
    zygote = Zygote()
    yield Compiler(zygote, tmp_path_factory.mktemp("builds"), 60.0)
    zygote.close()


def ptx(text: str = PTX, **more: object) -> dict[str, object]:
    return {"what": "ptx", "text": text, "arch": "sm_90a", "fmad": True, "options": "", **more}


@pytest.mark.slow
def test_a_kernel_is_compiled_and_named(compiler: Compiler) -> None:
    told, names, report = compiler.answer(ptx())
    assert Path(told["path"]).read_bytes()[:4] == b"\x7fELF"
    assert names == {"twice"}
    assert "registers" in report


def test_the_same_text_is_compiled_once(compiler: Compiler) -> None:
    first, _, _ = compiler.answer(ptx())
    before = Path(first["path"]).stat().st_ino
    again, names, _ = compiler.answer(ptx())
    assert again == first
    assert Path(first["path"]).stat().st_ino == before
    assert names == {"twice"}


def test_text_that_is_no_ptx_is_answered_with_what_ptxas_says(compiler: Compiler) -> None:
    told, _, _ = compiler.answer(ptx(PTX.replace("add.f32", "add.f33")))
    assert "ptxas failed" in str(told["error"])


@pytest.mark.parametrize(
    ("options", "arch"),
    [
        ("--output-file /tmp/x", "sm_90a"),
        ("-o x", "sm_90a"),
        ("", "sm_90; rm"),
        ("@file", "sm_90a"),
    ],
)
def test_options_that_reach_beyond_the_code_are_refused(
    compiler: Compiler, options: str, arch: str
) -> None:
    told, names, _ = compiler.answer(ptx(options=options, arch=arch))
    assert "not allowed" in str(told["error"])
    assert not names


@pytest.mark.parametrize(
    "request_",
    [
        None,
        [],
        {},
        {"what": "sh", "text": "ls"},
        {"what": "ptx"},
        {"what": "ptx", "text": 1, "arch": None},
        {"what": "c"},
    ],
)
def test_what_is_no_compilation_is_refused(compiler: Compiler, request_: object) -> None:
    told, _, _ = compiler.answer(request_)
    assert "error" in told


def test_a_c_source_cannot_read_the_users_files(compiler: Compiler, tmp_path: Path) -> None:
    secret = tmp_path / "secret.h"
    secret.write_text("int secret = 42;\n")
    pytest.importorskip("triton.backends.nvidia.driver").libcuda_dirs.cache_clear()
    driver = pytest.importorskip("triton.backends.nvidia.driver")
    original, driver.libcuda_dirs = driver.libcuda_dirs, lambda: [str(tmp_path)]
    driver.library_dirs.cache_clear()
    try:
        told, _, _ = compiler.answer({"what": "c", "text": f'#include "{secret}"\n'})
    finally:
        driver.libcuda_dirs = original
        driver.library_dirs.cache_clear()
    assert "Permission denied" in str(told["error"])
