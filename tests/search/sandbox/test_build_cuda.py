"""Native parts for GPUs, compiled in the sandbox; a compiler is enough, no GPU is needed."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from kb.runtime import cpp, nvcc, torch_inline
from search.languages.cuda import Cuda
from search.outcome import BuildFailed
from search.sandbox.build import Builder
from search.sandbox.faults import Fault
from search.sandbox.zygote import Zygote

pytestmark = pytest.mark.skipif(nvcc.cuda_home() is None, reason="nvcc is not on this machine")
KERNEL = 'extern "C" __global__ void twice(float* x) {{ {} x[threadIdx.x] *= 2; }}'


@pytest.fixture(scope="module")
def zygote() -> Iterator[Zygote]:
    zygote = Zygote()
    yield zygote
    zygote.close()


@pytest.fixture
def builder(zygote: Zygote, tmp_path: Path) -> Builder:
    return Builder(zygote, Cuda("sm_90"), tmp_path, 120)


def _source(text: str, flags: str = "") -> str:
    return f"from kb.native import load_cuda\nM = load_cuda({text!r}, {flags!r})\n"


@pytest.mark.slow
def test_a_cubin_is_built_once_and_ptxas_account_is_kept(builder: Builder) -> None:
    source = _source(KERNEL.format(""), "-Xptxas -v")
    ((key, path),) = builder.build(source).items()
    assert Path(path).read_bytes()[:4] == b"\x7fELF"
    first = Path(path).stat().st_ino
    assert builder.build(source) == {key: path}
    assert Path(path).stat().st_ino == first
    assert "Compiling entry function 'twice' for 'sm_90a'" in builder.remarks(source)[key]


@pytest.mark.slow
def test_devices_do_not_share_machine_code(zygote: Zygote, tmp_path: Path) -> None:
    source = _source(KERNEL.format(""))
    builds = [
        Builder(zygote, Cuda(name), tmp_path, 60).build(source) for name in ("sm_80", "sm_90")
    ]
    (keys, paths) = ({key for one in builds for key in one}, {path for one in builds for path in one.values()})  # fmt: skip
    assert (len(keys), len(paths)) == (1, 2)


def test_inline_assembly_is_allowed(builder: Builder) -> None:
    assert builder.build(_source(KERNEL.format('asm volatile("membar.gl;");')))


@pytest.mark.parametrize("wanted", ["/etc/passwd", "/proc/self/environ"])
def test_a_source_cannot_include_files_outside_the_toolkit(builder: Builder, wanted: str) -> None:
    with pytest.raises(Fault) as caught:
        builder.build(_source(f'#include "{wanted}"\n' + KERNEL.format("")))
    outcome = caught.value.outcome
    assert isinstance(outcome, BuildFailed)
    assert "root:" not in outcome.detail
    assert "LC_ALL" not in outcome.detail


def test_a_fault_is_told_with_its_line_and_code(builder: Builder) -> None:
    with pytest.raises(Fault) as caught:
        builder.build(_source("\n\n" + KERNEL.format("nope;")))
    outcome = caught.value.outcome
    assert isinstance(outcome, BuildFailed)
    assert outcome.reason.startswith(
        'it does not compile: kernel.cu line 3: identifier "nope" is undefined in: extern "C"'
    )


def test_what_ptxas_refuses_is_told(builder: Builder) -> None:
    with pytest.raises(Fault) as caught:
        builder.build(_source(KERNEL.format("__shared__ float s[100000]; s[threadIdx.x] = x[0]; x[1] = s[5];")))  # fmt: skip
    assert "too much shared data" in caught.value.outcome.reason


EXTENSION = r'''
from torch.utils.cpp_extension import load_inline
CUDA = """
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>
__global__ void k(const float* x, float* y, int n) {
  int i = blockIdx.x * 256 + threadIdx.x; if (i < n) y[i] = x[i] * 2;
}
torch::Tensor doubled(torch::Tensor x) {
  TORCH_CHECK(x.dim() == 1, "expected one dimension");
  auto y = torch::empty_like(x);
  const at::cuda::OptionalCUDAGuard guard(device_of(x));
  if (x.is_cuda()) k<<<(x.numel() + 255) / 256, 256, 0, at::cuda::getCurrentCUDAStream()>>>(x.data_ptr<float>(), y.data_ptr<float>(), (int)x.numel());
  if (x.is_cuda()) C10_CUDA_KERNEL_LAUNCH_CHECK();
  return y;
}
int64_t stream() { return reinterpret_cast<int64_t>(c10::cuda::getCurrentCUDAStream().stream()); }
"""
extension = load_inline(name="built_before", cpp_sources=["torch::Tensor doubled(torch::Tensor x); int64_t stream();"],
                        cuda_sources=[CUDA], functions=["doubled", "stream"], extra_cuda_cflags=["-O3"], verbose=False)
'''


@pytest.mark.slow
def test_an_inline_extension_is_built_and_imported_by_the_call_that_asked_for_it(
    builder: Builder, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch
    from torch.utils import cpp_extension

    built = builder.build(EXTENSION)
    assert ["k" in said for said in builder.remarks(EXTENSION).values()] == [True]
    monkeypatch.setattr(cpp, "prebuilt", built)
    monkeypatch.setattr(cpp, "sealed", True)
    monkeypatch.setattr(cpp_extension, "load_inline", torch_inline.load_inline_prebuilt)
    names: dict[str, object] = {}
    exec(EXTENSION, names)
    extension = names["extension"]
    assert extension.doubled(torch.ones(3)).shape == (3,)  # type: ignore[attr-defined]
    with pytest.raises(RuntimeError, match="expected one dimension"):
        extension.doubled(torch.ones(3, 2))  # type: ignore[attr-defined]
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda _: 1 << 40, raising=False)
    assert extension.stream() == 1 << 40  # type: ignore[attr-defined]
    with pytest.raises(RuntimeError, match="not found in the file"):
        cpp_extension.load_inline(name="other", cpp_sources="")


@pytest.mark.slow
def test_a_fault_in_an_extension_is_told_where_its_author_wrote_it(builder: Builder) -> None:
    with pytest.raises(Fault) as caught:
        builder.build(
            "load_inline(name='x', cpp_sources='', cuda_sources='#include <vector>\\n__global__ void k() { nope; }', "
            "no_implicit_headers=True)"
        )
    assert 'cuda_sources line 2: identifier "nope" is undefined' in caught.value.outcome.reason
