from pathlib import Path

import pytest

from kb.errors import ConfigError
from synth.models.prices import Prices, Usage, is_local

MILLION = Usage(tokens_in=100_000, tokens_out=10_000, cached=50_000)


def test_the_packaged_prices_can_be_read_and_know_versions_of_a_model() -> None:
    prices = Prices.load()
    whole = prices.cost("gpt-5", MILLION)
    assert whole is not None
    assert whole > 0
    assert prices.cost("gpt-5-2025-08-07", MILLION) == whole
    assert prices.cost("openai/gpt-5", MILLION) == whole
    assert prices.cost("anthropic/claude-opus-4.5", MILLION) == prices.cost(
        "claude-opus-4-5-20251101", MILLION
    )


def test_a_model_of_another_number_is_another_model() -> None:
    assert Prices.load().cost("gpt-5-77", MILLION) is None
    assert Prices.load().cost("smollm2", MILLION) is None


def test_a_users_file_corrects_a_price_and_adds_one(tmp_path: Path) -> None:
    (tmp_path / "prices.yaml").write_text(
        "models:\n  gpt-5: {input: 2, cached: 1, output: 20}\n  mine: {input: 1, output: 0}\n"
    )
    prices = Prices.load(tmp_path)
    assert prices.cost("gpt-5", MILLION) == pytest.approx(0.05 * 2 + 0.05 * 1 + 0.01 * 20)
    assert prices.cost("mine", MILLION) == pytest.approx(0.1)  # cached costs as much where not said
    assert prices.known("gpt-4.1")


def test_a_long_prompt_has_the_prices_of_long_prompts(tmp_path: Path) -> None:
    (tmp_path / "prices.yaml").write_text(
        "models:\n  m: {input: 1, output: 1, long: {above: 1000, input: 2, output: 3}}\n"
    )
    prices = Prices.load(tmp_path)
    assert prices.cost("m", Usage(tokens_in=1000, tokens_out=0)) == pytest.approx(0.001)
    assert prices.cost("m", Usage(tokens_in=2000, tokens_out=1000)) == pytest.approx(0.007)


@pytest.mark.parametrize(
    "text", ["models: {m: {input: -1, output: 1}}", "models: {m: {output: 1}}", "a: [", "- 1"]
)
def test_a_file_of_another_form_is_one_line_with_its_place(tmp_path: Path, text: str) -> None:
    (tmp_path / "prices.yaml").write_text(text)
    with pytest.raises(ConfigError) as caught:
        Prices.load(tmp_path)
    assert str(tmp_path / "prices.yaml") in str(caught.value)
    assert "\n" not in str(caught.value)


def test_servers_of_ones_own_are_told_by_their_address() -> None:
    assert is_local("http://127.0.0.1:8000/v1")
    assert is_local("http://localhost/v1")
    assert not is_local("https://127.example.org/v1")
    assert not is_local(None)
