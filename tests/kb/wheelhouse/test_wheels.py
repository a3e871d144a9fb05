from __future__ import annotations

import zipfile
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from kb.errors import ToolchainError
from kb.wheelhouse.wheels import (
    Wheel,
    WheelTarget,
    lacking,
    needs,
    pack_installed,
    read_wheel,
    stub_wheel,
)

BOX = WheelTarget(python="3.12", platform="manylinux_2_28_x86_64")


def wheel(name: str, version: str, *requires: str) -> Wheel:
    return Wheel(path=Path(f"{name}.whl"), name=name, version=version, requires=requires)


def names(requirements):
    return [str(requirement) for requirement in requirements]


def test_a_platform_takes_its_own_tag_and_every_older_one():
    assert BOX.tags[0] == "manylinux_2_28_x86_64"
    assert {"manylinux2014_x86_64", "manylinux_2_17_x86_64", "manylinux1_x86_64"} <= set(BOX.tags)
    assert not any("2_29" in tag for tag in BOX.tags)
    arm = WheelTarget(python="3.12", platform="manylinux_2_34_aarch64")
    assert arm.machine == "aarch64"
    assert "manylinux_2_17_aarch64" in arm.tags
    assert not any("manylinux_2_5_" in tag or "manylinux1_" in tag for tag in arm.tags)


def test_markers_are_those_of_the_other_machine():
    asked = wheel(
        "part",
        "1",
        "setuptools; python_version >= '3.12'",
        "tomli; python_version < '3.11'",
        "winreg; sys_platform == 'win32'",
        "intel; platform_machine == 'x86_64'",
        "extra-part; extra == 'more'",
    )
    assert names(needs(asked, (), BOX)) == ["setuptools", "intel"]
    assert names(needs(asked, ("more",), BOX)) == ["setuptools", "intel", "extra-part"]


def test_what_lacks_is_found_through_every_wheel():
    there = [
        wheel("one", "1.0", "two>=2", "three[fast]; python_version >= '3.12'"),
        wheel("two", "1.9"),
        wheel("three", "3.0", "four; extra == 'fast'", "one"),
    ]
    found = lacking(there, [Requirement("One"), Requirement("five")], BOX, ())
    assert names(found) == ["five", "four", "two>=2"]
    assert lacking(there, [Requirement("one")], BOX, ("two", "four")) == []


def test_a_stub_says_its_name_and_version_only(tmp_path):
    found = read_wheel(stub_wheel(tmp_path, "torch", "2.11+provided"))
    assert (found.name, found.version, found.requires) == ("torch", "2.11+provided", ())


def test_an_installed_distribution_is_packed_as_it_came(tmp_path):
    distribution = metadata.distribution("packaging")
    path = pack_installed(distribution, tmp_path)
    assert path.name == f"packaging-{distribution.version}-py3-none-any.whl"
    found = read_wheel(path)
    assert (found.name, found.version) == ("packaging", distribution.version)
    with zipfile.ZipFile(path) as archive:
        listed = archive.read(f"packaging-{distribution.version}.dist-info/RECORD").decode()
        inside = archive.namelist()
    assert sorted(line.split(",")[0] for line in listed.splitlines()) == sorted(inside)
    assert "packaging/markers.py" in inside
    assert not any("__pycache__" in name or name.endswith("INSTALLER") for name in inside)


def test_a_wheel_that_is_not_whole_is_said_in_one_line(tmp_path):
    whole = stub_wheel(tmp_path, "part", "1").read_bytes()
    cut = tmp_path / "cut-1-py3-none-any.whl"
    for data in (whole[: len(whole) // 2], b"", b"not a zip"):
        cut.write_bytes(data)
        with pytest.raises(ToolchainError, match="not a whole wheel"):
            read_wheel(cut)
