from __future__ import annotations

import os

import pytest
from warm_kb import WARM


def test_no_test_changes_the_environment_when_it_is_imported(pytestconfig: pytest.Config) -> None:
    """Else every command of a test imports torch by itself, and the whole takes five minutes more.

    What tests change when they run is another matter: one that ran before may have compiled with Triton in this process.
    """
    assert WARM.takes(getattr(pytestconfig, "collected_environment", os.environ))
