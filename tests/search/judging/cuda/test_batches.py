import math

import pytest

from search.judging.cuda.batches import told_times
from search.sandbox.faults import Fault
from search.outcome import Refused


def test_times_are_taken_as_they_are_told() -> None:
    assert told_times([1e-6, 0.0, 2.5]) == (1e-6, 0.0, 2.5)


@pytest.mark.parametrize("value", [math.nan, math.inf, -1e-9])
def test_what_is_no_time_is_forged(value: float) -> None:
    with pytest.raises(Fault) as caught:
        told_times([1e-6, value])
    assert isinstance(caught.value.outcome, Refused)
    assert caught.value.outcome.trick == "forged-report"
