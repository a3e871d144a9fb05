from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from search.work.pools import WorkerOptions, local


def test_known_kernels_are_timed_anew_by_the_first_worker_of_each_device_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started: list[list[str]] = []
    now = [0.0]

    def start(command: list[str], **_: Mapping[str, Any]) -> SimpleNamespace:
        started.append(command)
        return SimpleNamespace(poll=lambda: 1)

    monkeypatch.setattr(local.subprocess, "Popen", start)
    monkeypatch.setattr(local.time, "monotonic", lambda: now[0])
    pool = local.LocalPool(["cpu", "cuda:0"], WorkerOptions(database="sqlite://"))
    pool.start(recalibrate=True)
    pool.tend()
    now[0] = 60.0
    pool.tend()
    assert [command.count("--recalibrate") for command in started] == [1, 1, 0, 0]
