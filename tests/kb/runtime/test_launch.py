"""Launches of CUDA kernels from Python on a real device."""

import ctypes
import re
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from kb.native import load_cuda, tensor_map
from kb.runtime.bundle import standalone
from kb.runtime.cuda import CudaModule
from kb.runtime.nvcc import has_nvrtc, nvrtc_compile, sm_name

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no NVIDIA GPU on this machine"),
]
SOURCE = r"""
#include <cuda_fp16.h>
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
extern "C" __global__ void scale(const float* __restrict__ x, float* __restrict__ y, int n, float s) {
  int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = x[i] * s; }
__global__ void mixed(float* y, bool b, unsigned char c, short h, int i, long long l, double d, float f,
                      unsigned u, half hf) {
  y[0] = b; y[1] = c; y[2] = h; y[3] = i; y[4] = (float)l; y[5] = (float)d; y[6] = f; y[7] = (float)u;
  y[8] = __half2float(hf); }
template <class T> __global__ void two(T* y, T v) { y[threadIdx.x] = v; }
template __global__ void two<float>(float*, float);
template __global__ void two<int>(int*, int);
struct Pair { int a; float b; };
struct Wide { int a[5]; };
extern "C" __global__ void pair(float* y, Pair p, Wide w) { y[0] = p.a; y[1] = p.b; y[2] = w.a[4]; }
extern "C" __global__ void large(float* y, int n) {
  extern __shared__ float s[];
  for (int i = threadIdx.x; i < n; i += blockDim.x) s[i] = i;
  __syncthreads();
  if (threadIdx.x == 0) y[0] = s[n - 1]; }
extern "C" __global__ void together(float* y) {
  auto grid = cg::this_grid();
  if (threadIdx.x == 0) y[blockIdx.x] = blockIdx.x;
  grid.sync();
  if (blockIdx.x == 0 && threadIdx.x == 0) { float t = 0; for (int i = 0; i < gridDim.x; ++i) t += y[i]; y[0] = t; } }
"""
CLUSTER = r"""
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
extern "C" __global__ void neighbour(float* y) {
  auto cluster = cg::this_cluster();
  __shared__ float v;
  if (threadIdx.x == 0) v = cluster.block_rank();
  cluster.sync();
  float* other = cluster.map_shared_rank(&v, (cluster.block_rank() + 1) % cluster.num_blocks());
  if (threadIdx.x == 0) y[blockIdx.x] = *other;
  cluster.sync(); }
"""
hopper = pytest.mark.skipif(
    torch.cuda.is_available() and torch.cuda.get_device_capability() < (9, 0),
    reason="needs a device of compute capability 9.0",
)


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CudaModule]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield load_cuda(SOURCE)


@pytest.fixture
def x() -> torch.Tensor:
    return torch.randn(1 << 16, device="cuda")


def test_a_kernel_runs_on_tensors_and_numbers(module: CudaModule, x: torch.Tensor) -> None:
    y = torch.empty_like(x)
    module.scale((x.numel() + 255) // 256, 256, x, y, x.numel(), 2.0)
    assert torch.equal(y, x * 2)
    module.scale(((x.numel() + 255) // 256, 1, 1), [256], x, y, x.numel(), 3)
    assert torch.equal(y, x * 3)


def test_numbers_become_what_the_signature_says(module: CudaModule) -> None:
    y = torch.empty(9, device="cuda")
    module.mixed(1, 1, y, True, 200, -5, -7, 1 << 20, 2.5, 0.25, 4_000_000_000, 1.5)
    assert y.tolist() == [1, 200, -5, -7, 1 << 20, 2.5, 0.25, 4e9, 1.5]


def test_instances_of_a_template_are_chosen_by_their_mangled_names(module: CudaModule) -> None:
    y = torch.empty(4, device="cuda")
    with pytest.raises(AttributeError, match="several are called so") as caught:
        module.two(1, 4, y, 2.0)
    (real,) = {name for name in re.findall(r"_Z3two\w+", str(caught.value)) if "If" in name}
    module[real](1, 4, y, ctypes.c_float(2.5))
    assert y.tolist() == [2.5] * 4
    with pytest.raises(TypeError, match="pass a ctypes value"):
        module[real](1, 4, y, 2.5)


def test_structures_are_passed_by_value(module: CudaModule) -> None:
    class Pair(ctypes.Structure):
        _fields_ = (("a", ctypes.c_int), ("b", ctypes.c_float))

    y = torch.empty(3, device="cuda")
    module.pair(1, 1, y, Pair(3, 1.5), (ctypes.c_int * 5)(0, 1, 2, 3, 9))
    assert y.tolist() == [3, 1.5, 9]


def test_large_shared_memory_is_asked_for_by_itself(module: CudaModule) -> None:
    y = torch.zeros(1, device="cuda")
    module.large(1, 256, y, 20_000, shared=80_000)
    assert y.item() == 19_999
    assert module.large.resident_blocks(256, 80_000) >= 1


def test_a_cooperative_grid_can_be_synchronised(module: CudaModule) -> None:
    y = torch.zeros(64, device="cuda")
    module.together(64, 32, y, cooperative=True)
    assert y[0].item() == sum(range(64))


@hopper
@pytest.mark.parametrize("blocks", [4, 16])
def test_blocks_of_a_cluster_see_each_others_memory(blocks: int) -> None:
    y = torch.zeros(blocks, device="cuda")
    load_cuda(CLUSTER).neighbour(blocks, 32, y, cluster=blocks)
    assert y.tolist() == [*range(1, blocks), 0]


@pytest.mark.parametrize(
    ("change", "pattern"),
    [
        ({2: 1.5}, r"argument 3 \(int n\): 1.5 of type float does not fit"),
        ({2: 1 << 40}, r"argument 3 \(int n\)"),
        ({2: "x"}, r"argument 3 \(int n\): expected a number, found a tensor"),
        ({0: "cpu"}, r"argument 1 .*expected a tensor on the GPU, found one on cpu"),
        ({1: 2.5}, r"argument 2 \(float\* __restrict__ y\): 2.5 of type float"),
        ({3: None, 2: None}, "takes 4 arguments"),
    ],
)
def test_an_argument_that_does_not_fit_is_named(
    module: CudaModule, x: torch.Tensor, change: dict[int, object], pattern: str
) -> None:
    args: list[object] = [x, x.clone(), 5, 2.0]
    for place, value in change.items():
        args[place] = {"x": x, "cpu": x.cpu()}.get(value, value) if isinstance(value, str) else value  # fmt: skip
    if pattern == "takes 4 arguments":
        args = args[:2]
    with pytest.raises(TypeError, match=pattern):
        module.scale(1, 32, *args)


def test_what_the_driver_refuses_is_told_and_the_device_stays_usable(
    module: CudaModule, x: torch.Tensor
) -> None:
    y = torch.empty_like(x)
    with pytest.raises(RuntimeError, match=r"launching scale.*2048.*INVALID_VALUE"):
        module.scale(1, 2048, x, y, 5, 1.0)
    with pytest.raises(RuntimeError, match="asking for 300000 bytes"):
        module.scale(1, 32, x, y, 5, 1.0, shared=300_000)
    with pytest.raises(AttributeError, match="there is none; the module has"):
        module.nothing_such(1, 32)
    module.scale(256, 256, x, y, x.numel(), 2.0)
    assert torch.equal(y, x * 2)


def test_a_launch_goes_to_torchs_stream_and_into_its_graphs(
    module: CudaModule, x: torch.Tensor
) -> None:
    y = torch.zeros_like(x)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        module.scale(256, 256, x, y, x.numel(), 5.0)
    stream.synchronize()
    assert torch.equal(y, x * 5)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        module.scale(256, 256, x, y, x.numel(), 6.0)
    y.zero_()
    graph.replay()
    assert torch.equal(y, x * 6)


def test_threads_may_launch_one_kernel(module: CudaModule, x: torch.Tensor) -> None:
    outputs = [torch.zeros_like(x) for _ in range(4)]

    def work(number: int) -> None:
        for _ in range(50):
            module.scale(256, 256, x, outputs[number], x.numel(), float(number))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    torch.cuda.synchronize()
    assert all(torch.equal(y, x * number) for number, y in enumerate(outputs))


TMA = r"""
#include <cuda.h>
#include <cuda/barrier>
using barrier = cuda::barrier<cuda::thread_scope_block>;
namespace cde = cuda::device::experimental;
#pragma nv_diag_suppress static_var_with_dynamic_init
extern "C" __global__ void copy(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b) {
  __shared__ alignas(128) float tile[16][64];
  __shared__ barrier bar;
  if (threadIdx.x == 0) { init(&bar, blockDim.x); cde::fence_proxy_async_shared_cta(); }
  __syncthreads();
  barrier::arrival_token token;
  if (threadIdx.x == 0) {
    cde::cp_async_bulk_tensor_2d_global_to_shared(&tile, &a, blockIdx.x * 64, blockIdx.y * 16, bar);
    token = cuda::device::barrier_arrive_tx(bar, 1, sizeof(tile));
  } else token = bar.arrive();
  bar.wait(std::move(token));
  for (int i = threadIdx.x; i < 16 * 64; i += blockDim.x) tile[i / 64][i % 64] += 1.f;
  cde::fence_proxy_async_shared_cta();
  __syncthreads();
  if (threadIdx.x == 0) {
    cde::cp_async_bulk_tensor_2d_shared_to_global(&b, blockIdx.x * 64, blockIdx.y * 16, &tile);
    cde::cp_async_bulk_commit_group();
    cde::cp_async_bulk_wait_group_read<0>();
  }
}
"""


@hopper
def test_a_tensor_map_serves_the_copy_engine() -> None:
    a = torch.randn(250, 512, device="cuda")  # the last tile reaches beyond the tensor
    b = torch.zeros_like(a)
    load_cuda(TMA).copy((8, 16), 128, tensor_map(a, (16, 64)), tensor_map(b, (16, 64)))
    assert torch.equal(b, a + 1)
    with pytest.raises(ValueError, match="the last one contiguous"):
        tensor_map(a.t(), (16, 64))
    with pytest.raises(ValueError, match="cannot describe complex64"):
        tensor_map(a.to(torch.complex64), (16, 64))


@pytest.mark.skipif(not has_nvrtc(), reason="NVRTC is not on this machine")
def test_nvrtc_compiles_where_nvcc_is_missing(tmp_path: Path, x: torch.Tensor) -> None:
    text, cubin = tmp_path / "k.cu", tmp_path / "k.cubin"
    text.write_text(SOURCE)
    words = ["--use_fast_math", "-O3", "-Xptxas", "-v"]
    said = nvrtc_compile(text, cubin, sm_name(torch.cuda.get_device_capability()), words)
    assert "registers" in said
    y = torch.empty_like(x)
    CudaModule(cubin.read_bytes(), SOURCE).scale(256, 256, x, y, x.numel(), 9.0)
    assert torch.equal(y, x * 9)


def test_a_copied_loader_runs_a_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    source = (
        "import torch\nfrom kb.native import load_cuda\n"
        "M = load_cuda('extern \"C\" __global__ void one(float* x) { x[threadIdx.x] = 1; }')\n"
        "x = torch.zeros(4, device='cuda')\nM.one(1, 4, x)\n"
    )
    names: dict[str, object] = {"__name__": "copied"}
    exec(compile(standalone(source), "copied", "exec"), names)
    assert names["x"].tolist() == [1, 1, 1, 1]  # type: ignore[attr-defined]
