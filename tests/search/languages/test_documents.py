"""The notes on a language hold a whole answer: it is compiled as the judge would."""

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

import hardware_docs
from kb.runtime import nvcc
from search.languages.cuda import Cuda
from search.languages.triton import Triton


def example(language: str) -> str:
    """Return the answer that the notes show."""
    text = (Path(hardware_docs.__file__).parent / "languages" / f"{language}.md").read_text()
    found = re.search(r"```python\n(.*?)```", text, re.DOTALL)
    assert found is not None
    assert "class ModelNew" in found[1]
    return found[1]


@pytest.mark.slow
@pytest.mark.skipif(nvcc.cuda_home() is None, reason="nvcc is not on this machine")
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90", "sm_120"])
def test_the_cuda_answer_compiles(architecture: str, tmp_path: Path) -> None:
    language = Cuda(architecture)
    (unit,) = language.units(example("cuda"))
    flags = " ".join(unit.flags)
    said = nvcc.compile_cubin(unit.source, flags, language.architecture, tmp_path / "k.cubin")
    assert "scale_relu" in said
    assert " 0 bytes spill stores" in said


@pytest.fixture
def module(tmp_path: Path) -> Any:
    pytest.importorskip("triton", reason="triton is not installed")
    path = tmp_path / "notes_on_triton.py"
    path.write_text(example("triton"))
    spec = importlib.util.spec_from_file_location("notes_on_triton", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_triton_answer_compiles(
    module: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    signature = {"x_ptr": "*fp32", "y_ptr": "*fp32", "n": "i32", "s": "fp32", "BLOCK": "constexpr"}
    source = ASTSource(module.scale_relu_kernel, signature=signature, constexprs={(4,): 1024})
    compiled = triton.compile(source, target=GPUTarget("cuda", 90, 32))
    assert "maximumf" in compiled.asm["ttir"] or "maxnumf" in compiled.asm["ttir"]
    assert Triton("sm_90").units(example("triton")) == ()


@pytest.mark.skipif(
    importlib.util.find_spec("cutlass") is None, reason="nvidia-cutlass-dsl is not installed"
)
@pytest.mark.filterwarnings("default")  # the package's own, of which this test says nothing
def test_the_cute_answer_compiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUTE_DSL_ARCH", "sm_90a")
    monkeypatch.setenv("CUTE_DSL_NO_CACHE", "1")
    path = tmp_path / "notes_on_cute.py"
    path.write_text(example("cute"))
    spec = importlib.util.spec_from_file_location("notes_on_cute", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "notes_on_cute", module)
    spec.loader.exec_module(module)
    import cutlass
    from cutlass.cute.runtime import make_fake_compact_tensor

    def flat() -> Any:
        return make_fake_compact_tensor(cutlass.Float32, (4096,), stride_order=(0,), assumed_align=16)  # fmt: skip

    compiled = cutlass.cute.compile(module.scale_relu, flat(), flat(), 4096, cutlass.Float32(2.0))
    assert compiled is not None


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no NVIDIA GPU on this machine")
@pytest.mark.parametrize("language", ["cuda", "triton"])
def test_the_answer_is_right_on_a_device(
    language: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    path = tmp_path / f"answer_in_{language}.py"
    path.write_text(example(language))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    answer = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(answer)
    x = torch.randn(1000, 100, device="cuda")
    assert torch.equal(answer.ModelNew(2.5)(x), torch.relu(x * 2.5))
