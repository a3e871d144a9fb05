from __future__ import annotations

from pathlib import Path

import pytest

from search.work.pools import WorkerOptions, local


def test_known_kernels_are_timed_anew_by_the_first_worker_of_each_device_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(local, "_PAUSE", 0.0)
    options = WorkerOptions(database=f"sqlite:///{tmp_path}/kb.sqlite", home=str(tmp_path))
    pool = local.LocalPool(["cpu", "cuda:0"], options)
    pool.start(recalibrate=True)
    try:
        first = dict(pool._workers)
        for worker in first.values():
            worker.kill()
            worker.wait()
        pool.tend()
        pool.tend()
        again = dict(pool._workers)
    finally:
        pool.close()
    assert all("--recalibrate" in worker.args for worker in first.values())
    assert again.keys() == first.keys()
    for device, worker in again.items():
        assert worker is not first[device]
        assert "--recalibrate" not in worker.args


@pytest.mark.slow
def test_a_pool_says_that_a_worker_ended_otherwise_than_well(tmp_path: Path) -> None:
    options = WorkerOptions(
        database=f"sqlite:///{tmp_path}/kb.sqlite", home=str(tmp_path), once=True
    )
    pool = local.LocalPool(["cuda:99"], options)
    pool.start()
    try:
        (worker,) = pool._workers.values()
        assert worker.wait(60) == pool.code == 2
    finally:
        pool.close()
