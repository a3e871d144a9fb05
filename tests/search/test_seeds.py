import torch

from search.seeds import generator, secret, seeded


def _of(seed: int) -> torch.Tensor:
    with seeded(seed):
        return torch.rand(8)


def test_bits_beyond_the_32nd_of_a_seed_decide_what_is_drawn() -> None:
    assert torch.equal(_of(5), _of(5))
    assert not torch.equal(_of(5), _of(5 | 1 << 40))
    one, other = (torch.rand(8, generator=generator("cpu", seed)) for seed in (7, 7 | 1 << 62))
    assert not torch.equal(one, other)


def test_what_is_drawn_is_not_what_a_seed_of_32_bits_draws() -> None:
    drawn = _of(5)
    assert not torch.equal(drawn, torch.rand(8, generator=torch.Generator().manual_seed(5)))


def test_drawing_under_a_seed_leaves_the_default_generator_alone() -> None:
    before = torch.get_rng_state()
    _of(3)
    assert torch.equal(before, torch.get_rng_state())


def test_draws_keep_their_distribution() -> None:
    with seeded(secret()):
        values = torch.randn(200_000)
    assert abs(float(values.mean())) < 0.02
    assert abs(float(values.std()) - 1) < 0.02


def test_secret_seeds_do_not_repeat() -> None:
    assert len({secret() for _ in range(1000)}) == 1000
