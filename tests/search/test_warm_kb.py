from __future__ import annotations

import os

from warm_kb import WARM


def test_no_test_changes_the_environment_when_it_is_imported() -> None:
    """Else every command of a test imports torch by itself, and the whole takes five minutes more."""
    assert WARM.takes(os.environ)
