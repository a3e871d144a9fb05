import pytest

from kb.errors import ConfigError
from kb.records.schema import Document, TargetRecord
from search.targets.cpu import Facts, match_target, read_facts, resolve


def target(
    name: str, device: str = "cpu", aliases: tuple[str, ...] = (), **match: object
) -> Document:
    record = TargetRecord.model_validate(
        {
            "kind": "target", "title": name, "name": name, "vendor": "v", "architecture": "a", "device": device,
            "aliases": aliases, "match": match, "languages": ("cpp",), "units": 1, "clock": 1e9, "simd_width": 256,
            "peak": {"float32": 1e9}, "bandwidth": 1e9,
        }
    )  # fmt: skip
    return Document(name=name, path=f"{name}.md", record=record, body="")


ZEN4 = Facts(
    vendor="AuthenticAMD",
    name="AMD EPYC",
    family=25,
    model=17,
    flags=frozenset({"avx2", "fma", "avx512f"}),
    cores=2,
)
DOCUMENTS = [
    target("x86-avx2", cpu_flags=("avx2", "fma")),
    target("x86-avx512", cpu_flags=("avx2", "fma", "avx512f")),
    target("zen", cpu_vendor="AuthenticAMD", cpu_family=25),
    target(
        "zen4", cpu_vendor="AuthenticAMD", cpu_family=25, cpu_models=(17, 97), aliases=("genoa",)
    ),
    target("skylake", cpu_vendor="GenuineIntel", cpu_family=6),
    target("h200", device="gpu", gpu_name="H200"),
]


def test_the_most_specific_record_wins() -> None:
    assert match_target(DOCUMENTS, ZEN4).name == "zen4"
    assert match_target(DOCUMENTS[:3], ZEN4).name == "zen"
    assert match_target(DOCUMENTS[:2], ZEN4).name == "x86-avx512"
    assert match_target(DOCUMENTS[:1] + DOCUMENTS[4:], ZEN4).name == "x86-avx2"


def test_no_record_is_one_line_that_names_the_processor() -> None:
    with pytest.raises(
        ConfigError, match=r"AuthenticAMD family 25 model 17.*name one with target:"
    ):
        match_target(DOCUMENTS[4:], ZEN4)


def test_targets_are_found_by_name_and_alias_whatever_their_case() -> None:
    assert resolve("Genoa", DOCUMENTS).name == "zen4"
    assert resolve("h200", DOCUMENTS).name == "h200"


def test_an_unknown_target_lists_the_known_ones() -> None:
    with pytest.raises(
        ConfigError, match=r"unknown target 'genea' \(did you mean 'genoa'\?\).*h200, skylake"
    ):
        resolve("genea", DOCUMENTS)


def test_this_machine_says_what_it_is() -> None:
    facts = read_facts()
    assert facts.vendor
    assert facts.cores >= 1
    assert facts.last_level >= 256 << 10
