from __future__ import annotations

import torch

from search.aten.programs import OperatorCall
from search.aten.samples import samples_of


def call(*arguments: object) -> OperatorCall:
    return OperatorCall(name="torch.add", arguments=arguments, options={})


def test_samples_are_the_given_ones_and_awkward_ones_of_the_largest():
    x = torch.arange(6.0).reshape(2, 3)
    found = samples_of([call(torch.ones(2), 1.0), call(x, x)], "add.")
    assert [(one.name, one.elements, one.awkward) for one in found] == [
        ("sample 0", 2, False),
        ("sample 1", 12, False),
        ("other strides", 12, True),
        ("no dimensions", 2, True),
    ]
    for one in found:
        names: dict[str, object] = {}
        exec(one.program, names)
        inputs = names["get_inputs"]()
        assert torch.equal(names["Model"]()(*inputs), torch.add(inputs[0], (*inputs, 1.0)[1]))
    assert inputs[0].shape == ()
    exec(found[2].program, names)
    assert not names["get_inputs"]()[0].is_contiguous()
    assert torch.equal(names["get_inputs"]()[0], x)


def test_a_sample_that_cannot_be_judged_has_a_reason_and_no_program():
    empty, complex_ = samples_of([call(torch.ones(0), 1.0), call(torch.ones(2) * 1j, 1.0)], "t")[:2]
    assert (empty.program, empty.reason) == ("", "an input is empty")
    assert (complex_.program, complex_.reason) == ("", "a tensor is complex")
