"""What reaches the driver at a launch, by a stand-in for it that is compiled against CUDA's own header."""

import ctypes
import json
import shutil
import subprocess
from collections.abc import Callable
from typing import Any

import pytest
import torch

from kb.runtime import launch as native_launch
from kb.runtime import nvcc
from kb.runtime.launch import Launcher
from kb.runtime.signature import signatures

HOME = nvcc.cuda_home()
pytestmark = pytest.mark.skipif(
    HOME is None or not (HOME / "include/cuda.h").is_file() or shutil.which("g++") is None,
    reason="g++ or CUDA's headers are not on this machine",
)
# k(const float* x, int n, double d, bool b): offsets 0, 8, 16, 24
DRIVER = r"""
#include <cuda.h>
#include <cstdio>
#include <cstring>
#include <string>
static std::string said;
static void say(const char* format, auto... values) { char text[256]; snprintf(text, sizeof text, format, values...); said += text; }
extern "C" {
CUresult cuFuncGetParamInfo(CUfunction, size_t index, size_t* offset, size_t* size) {
  const size_t offsets[] = {0, 8, 16, 24}, sizes[] = {8, 4, 8, 1};
  if (index >= 4) return CUDA_ERROR_INVALID_VALUE;
  *offset = offsets[index]; *size = sizes[index];
  return CUDA_SUCCESS;
}
CUresult cuFuncSetAttribute(CUfunction, CUfunction_attribute attribute, int value) {
  say("\"set %d\": %d, ", attribute, value);
  return value > 232448 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
CUresult cuFuncGetAttribute(int* value, CUfunction_attribute attribute, CUfunction) {
  *value = attribute == CU_FUNC_ATTRIBUTE_BINARY_VERSION ? 90 : attribute == CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES ? 4096 : 0;
  return CUDA_SUCCESS;
}
static int refusals = 0;
void refuse(int count) { refusals = count; }
CUresult cuLaunchKernelEx(const CUlaunchConfig* c, CUfunction f, void** parameters, void** extra) {
  if (refusals > 0) { --refusals; return CUDA_ERROR_INVALID_CONTEXT; }
  if (parameters != nullptr || extra[0] != CU_LAUNCH_PARAM_BUFFER_POINTER || extra[2] != CU_LAUNCH_PARAM_BUFFER_SIZE
      || extra[4] != CU_LAUNCH_PARAM_END) return CUDA_ERROR_UNKNOWN;
  say("\"grid\": [%u, %u, %u], \"block\": [%u, %u, %u], ", c->gridDimX, c->gridDimY, c->gridDimZ, c->blockDimX, c->blockDimY, c->blockDimZ);
  say("\"shared\": %u, \"stream\": %lu, \"function\": %lu, ", c->sharedMemBytes, (unsigned long)c->hStream, (unsigned long)f);
  for (unsigned i = 0; i < c->numAttrs; ++i) {
    const CUlaunchAttribute& a = c->attrs[i];
    if (a.id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) say("\"cluster\": [%u, %u, %u], ", a.value.clusterDim.x, a.value.clusterDim.y, a.value.clusterDim.z);
    else if (a.id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE) say("\"cooperative\": %d, ", a.value.cooperative);
    else if (a.id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION) say("\"overlap\": %d, ", a.value.programmaticStreamSerializationAllowed);
    else say("\"attribute\": %d, ", a.id);
  }
  const char* buffer = static_cast<const char*>(extra[1]);
  unsigned long x; int n; double d; bool b;
  memcpy(&x, buffer, 8); memcpy(&n, buffer + 8, 4); memcpy(&d, buffer + 16, 8); memcpy(&b, buffer + 24, 1);
  say("\"size\": %zu, \"x\": %lu, \"n\": %d, \"d\": %g, \"b\": %d, ", *static_cast<size_t*>(extra[3]), x, n, d, b);
  return CUDA_SUCCESS;
}
CUresult cuDeviceGet(CUdevice* device, int number) { *device = number; return CUDA_SUCCESS; }
CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice) { *context = nullptr; return CUDA_SUCCESS; }
CUresult cuCtxSetCurrent(CUcontext) { say("\"context\": true, "); return CUDA_SUCCESS; }
CUresult cuGetErrorName(CUresult status, const char** text) { *text = status == CUDA_ERROR_INVALID_VALUE ? "CUDA_ERROR_INVALID_VALUE" : "another"; return CUDA_SUCCESS; }
CUresult cuGetErrorString(CUresult, const char** text) { *text = "told by the driver"; return CUDA_SUCCESS; }
const char* heard() { static std::string kept; kept = said; said.clear(); return kept.c_str(); }
}
"""


class OnDevice(torch.Tensor):
    """A tensor that says that it is on a GPU."""

    is_cuda = True


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    folder = tmp_path_factory.mktemp("driver")
    (folder / "driver.cpp").write_text(DRIVER)
    command = ["g++", "-std=c++20", "-shared", "-fPIC", f"-I{HOME}/include", "driver.cpp", "-o", "driver.so"]  # fmt: skip
    subprocess.run(command, cwd=folder, check=True)
    return ctypes.CDLL(str(folder / "driver.so"))


@pytest.fixture
def launcher(driver: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch) -> Launcher:
    monkeypatch.setattr(native_launch, "_loaded", [driver])
    streams = iter([7, 7, 9, 9, 9])
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda _: next(streams), raising=False)  # fmt: skip
    declared = signatures("__global__ void k(const float* x, int n, double d, bool b)")["k"]
    return Launcher("k", ctypes.c_void_p(42), declared, 0)


@pytest.fixture
def heard(driver: ctypes.CDLL) -> Callable[[], dict[str, Any]]:
    driver.heard.restype = ctypes.c_char_p

    def read() -> dict[str, Any]:
        return json.loads("{" + driver.heard().decode().rstrip(", ") + "}")

    read()
    return read


X = torch.zeros(4).as_subclass(OnDevice)
PLAIN = (5, 64, 0, None, False, False)


@pytest.mark.slow
def test_grid_block_stream_and_arguments_arrive_where_the_driver_looks(
    launcher: Launcher, heard: Callable[[], dict[str, Any]]
) -> None:
    launcher.launch(((5, 6), (64, 2, 3), 0, None, False, False), (X, -3, 2.5, True))
    assert heard() == {
        "grid": [5, 6, 1], "block": [64, 2, 3], "shared": 0, "stream": 7, "function": 42,
        "size": 25, "x": X.data_ptr(), "n": -3, "d": 2.5, "b": 1,
    }  # fmt: skip


def test_what_changes_between_launches_is_told_anew(
    launcher: Launcher, heard: Callable[[], dict[str, Any]]
) -> None:
    launcher.launch(PLAIN, (X, 1, 1, False))
    launcher.launch((6, *PLAIN[1:]), (None, 2, 1.5, True))
    second = heard  # both are in one answer: the later words win
    told = second()
    assert (told["grid"], told["n"], told["x"], told["stream"]) == ([6, 1, 1], 2, 0, 7)
    launcher.launch((6, *PLAIN[1:]), (X, 3, 1.5, True))
    assert (told := heard())["stream"] == 9
    assert told["n"] == 3


def test_a_list_that_its_owner_changes_is_read_again(
    launcher: Launcher, heard: Callable[[], dict[str, Any]]
) -> None:
    grid = [1, 1]
    launcher.launch((grid, 32, 0, None, False, False), (X, 1, 1.0, True))
    grid[0] = 8
    launcher.launch((grid, 32, 0, None, False, False), (X, 1, 1.0, True))
    assert heard()["grid"] == [8, 1, 1]


def test_clusters_cooperation_and_shared_memory_are_asked_for_once(
    launcher: Launcher, heard: Callable[[], dict[str, Any]]
) -> None:
    launcher.launch((32, 64, 100_000, (16,), True, False), (X, 1, 1.0, True))
    told = heard()
    assert (told["cluster"], told["cooperative"]) == ([16, 1, 1], 1)
    assert (told["set 8"], told["set 14"]) == (100_000, 1)
    launcher.launch((16, 64, 50_000, None, True, False), (X, 1, 1.0, True))
    told = heard()
    assert "cluster" not in told
    assert "set 8" not in told
    assert (told["cooperative"], told["shared"]) == (1, 50_000)


def test_a_kernels_own_shared_memory_counts_to_what_needs_no_asking(
    launcher: Launcher, heard: Callable[[], dict[str, Any]]
) -> None:
    launcher.launch((32, 64, (44 << 10), None, False, False), (X, 1, 1.0, True))
    assert "set 8" not in heard()
    launcher.launch((32, 64, (44 << 10) + 16, None, False, False), (X, 1, 1.0, True))
    assert heard()["set 8"] == (44 << 10) + 16


def test_a_kernel_that_may_overlap_says_so_to_the_driver(
    launcher: Launcher, heard: Callable[[], dict[str, Any]]
) -> None:
    launcher.launch((32, 64, 0, (2,), True, True), (X, 1, 1.0, True))
    told = heard()
    assert (told["cluster"], told["cooperative"], told["overlap"]) == ([2, 1, 1], 1, 1)


def test_a_thread_without_a_context_gets_one(
    launcher: Launcher, driver: ctypes.CDLL, heard: Callable[[], dict[str, Any]]
) -> None:
    driver.refuse(1)
    launcher.launch(PLAIN, (X, 1, 1.0, True))
    assert heard()["context"] is True


def test_a_refused_setting_does_not_pass_for_the_one_before(
    launcher: Launcher, heard: Callable[[], dict[str, Any]]
) -> None:
    launcher.launch(PLAIN, (X, 1, 1.0, True))
    with pytest.raises(RuntimeError, match=r"asking for 300000 bytes .* for k: .*INVALID_VALUE: told by the driver"):  # fmt: skip
        launcher.launch((9, 64, 300_000, None, False, False), (X, 1, 1.0, True))
    heard()
    launcher.launch(PLAIN, (X, 1, 1.0, True))
    assert (told := heard())["grid"] == [5, 1, 1]
    assert told["shared"] == 0


@pytest.mark.parametrize(
    ("args", "pattern"),
    [
        ((X, 1.5, 1.0, True), r"k: argument 2 \(int n\): 1.5 of type float does not fit"),
        ((X, X, 1.0, True), r"argument 2 \(int n\): expected a number, found a tensor"),
        ((torch.zeros(2), 1, 1.0, True), r"argument 1 \(const float\* x\): expected a tensor on the GPU, found one on cpu"),
        ((X, 1, "x", True), r"argument 3 \(double d\): 'x' of type str"),
        ((X, 1), r"k takes 4 arguments \(const float\* x, int n, double d, bool b\), 2 were given"),
    ],
)  # fmt: skip
def test_an_argument_that_does_not_fit_is_named(
    launcher: Launcher, args: tuple[Any, ...], pattern: str
) -> None:
    with pytest.raises(TypeError, match=pattern):
        launcher.launch(PLAIN, args)


def test_ctypes_values_are_taken_by_their_value(
    launcher: Launcher, heard: Callable[[], dict[str, Any]]
) -> None:
    args = (ctypes.c_void_p(64), ctypes.c_int(3), ctypes.c_double(0.5), ctypes.c_bool(True))
    launcher.launch(PLAIN, args)
    told = heard()
    assert (told["x"], told["n"], told["d"], told["b"]) == (64, 3, 0.5, 1)
