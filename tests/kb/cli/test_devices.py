from __future__ import annotations

import shutil
from pathlib import Path

from kb.app.doctor.devices import counters, gpu
from kb.config import Home
from search.targets.cuda import read_device


def test_each_part_of_a_gpu_is_one_finding(tmp_path: Path) -> None:
    found = {finding.part: finding for finding in gpu(Home(root=tmp_path))}
    assert {"gpu", "triton", "nvcc"} <= set(found)
    if read_device() is None:
        assert found["gpu"].state == "off"
        assert "no NVIDIA device or driver here" in found["gpu"].detail
        assert "ncu" not in found
    else:
        assert {"gpu record", "gpu torch", "ncu"} <= set(found)
        assert "driver" in found["gpu"].detail
    assert (found["nvcc"].state == "works") == (shutil.which("nvcc") is not None)


def test_what_counters_of_the_processor_there_are_is_said(tmp_path: Path) -> None:
    (found,) = counters(Home(root=tmp_path))
    assert found.state in {"works", "off"}
    if found.state == "off":
        assert "no hardware counters of the processor: " in found.detail
