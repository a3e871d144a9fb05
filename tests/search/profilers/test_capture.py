from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
import torch

from search.profilers.capture import capture, warm_up
from search.profilers.timeline import doubt, own_share, read_capture

GPU = torch.cuda.is_available()


def test_without_a_device_only_the_host_is_told():
    if GPU:
        pytest.skip("a device is here")
    x = torch.randn(1000)
    told = json.loads(json.dumps(capture(lambda: torch.tanh(x * 2), calls=4)))
    timeline = read_capture(told, 10.0)
    assert timeline.calls == 4
    assert timeline.kernels == ()
    assert own_share(timeline.kernels) is None
    assert 0 < timeline.host_seconds < 1


def test_what_a_call_raises_is_not_swallowed_and_the_next_capture_works():
    def fails() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        capture(fails)
    assert capture(lambda: None, calls=1)["calls"] == 1


@pytest.mark.gpu
@pytest.mark.skipif(not GPU, reason="needs an NVIDIA device, none is here")
def test_kernels_copies_and_fills_of_a_call_are_seen(tmp_path: Path) -> None:
    a = torch.randn(2048, 2048, device="cuda")
    host = torch.randn(1 << 20)

    def call() -> torch.Tensor:
        return (
            torch.tanh(a @ a).sum() + host.to("cuda").sum() + torch.zeros(1 << 20, device="cuda")[0]
        )

    warm_up()
    call()
    began = time.perf_counter()
    told = json.loads(json.dumps(capture(call, calls=3, scratch=str(tmp_path))))
    timeline = read_capture(told, time.perf_counter() - began)
    assert list(tmp_path.iterdir()) == []
    names = {kernel.name for kernel in timeline.kernels}
    assert any("gemm" in name or "cutlass" in name for name in names), names
    assert "at::native::vectorized_elementwise_kernel" in names
    assert any(name.startswith("Memcpy HtoD") for name in names)
    product = next(kernel for kernel in timeline.kernels if kernel.grid)
    assert product.registers > 32
    assert own_share(timeline.kernels) == 0
    assert 0 < timeline.busy_seconds <= timeline.span_seconds
    assert timeline.profile(1e-3)["launches"] >= 5
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    call()
    end.record()
    torch.cuda.synchronize()
    seconds = begin.elapsed_time(end) / 1e3
    assert doubt(timeline, seconds) is None
    assert doubt(timeline, 20 * seconds) is not None


@pytest.mark.gpu
@pytest.mark.skipif(not GPU, reason="needs an NVIDIA device, none is here")
def test_a_replayed_graph_shows_its_kernels() -> None:
    x = torch.randn(1 << 16, device="cuda")
    for _ in range(3):
        torch.tanh(x * 2)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(5):
            torch.tanh(x * 2)
    timeline = read_capture(capture(graph.replay, calls=2), 10.0)
    assert timeline.launches == 10


@pytest.mark.gpu
@pytest.mark.skipif(not GPU, reason="needs an NVIDIA device, none is here")
def test_a_label_of_the_program_is_no_kernel() -> None:
    x = torch.randn(1 << 16, device="cuda")

    def call() -> None:
        with torch.profiler.record_function("own_kernel"):
            torch.tanh(x)

    call()
    timeline = read_capture(capture(call), 10.0, ["own_kernel"])
    assert own_share(timeline.kernels) == 0
