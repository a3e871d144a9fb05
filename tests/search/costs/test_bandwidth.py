from __future__ import annotations

import pytest

from search.costs.bandwidth import core_bandwidth


@pytest.mark.slow
def test_a_core_moves_more_than_a_disk_and_less_than_a_cache():
    assert 5e8 < core_bandwidth(samples=3) < 1e12
