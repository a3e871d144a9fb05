from __future__ import annotations

from pathlib import Path

import pytest

from kb.errors import ConfigError, TaskError
from search.settings import Tolerances
from search.task import load_task, override

EXAMPLES = Path(__file__).parents[2] / "examples"


def write(folder: Path, text: str) -> Path:
    (folder / "ref.py").write_text("class Model: ...\n")
    path = folder / "task.yaml"
    path.write_text(text)
    return path


def test_a_reference_alone_is_a_task(tmp_path):
    task = load_task(write(tmp_path, "reference: ref.py\n"))
    assert task.name == "ref"
    assert task.settings.search.policy == "beam"
    assert task.settings.precision == "strict"


def test_a_python_file_is_a_task_with_every_default(tmp_path):
    write(tmp_path, "")
    assert (
        load_task(tmp_path / "ref.py").settings
        == load_task(write(tmp_path, "reference: ref.py\n")).settings
    )


@pytest.mark.parametrize("path", sorted(EXAMPLES.rglob("*.yaml")), ids=lambda path: path.stem)
def test_every_example_is_a_task(path):
    task = load_task(path)
    assert task.reference.exists()
    assert "class Model" in task.source


def test_tolerances_may_be_written_as_numbers_of_yaml(tmp_path):
    task = load_task(
        write(tmp_path, "reference: ref.py\nprecision: {absolute: 1e-4, relative: 0}\n")
    )
    assert task.settings.precision == Tolerances(absolute=1e-4, relative=0.0)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("reference: ref.py\nrounds: 5\n", r"unknown key 'rounds': known here are reference, name"),
        ("reference: ref.py\nsearch: {round: 5}\n", r"unknown key 'search.round': known .* rounds"),
        ("reference: ref.py\nsearch: {rounds: many}\n", r"'search.rounds'.*found 'many'"),
        ("reference: ref.py\nsearch: {rounds: 0}\n", r"'search.rounds'.*found 0"),
        ("reference: ref.py\nfinal_seconds: 0\n", r"'final_seconds'.*0.1.*found 0"),
        ("reference: ref.py\nlibrary: never\n", r"'library'.*'allowed' or 'forbidden'.*'never'"),
        ("reference: ref.py\nprecision: exact\n", r"'precision.*found 'exact'"),
        ("reference: ref.py\nprecision: {absolute: -1, relative: 0}\n", r"precision.*found -1"),
        ("reference: ref.py\nmodel: {base_url: x}\n", r"'model.name' is missing"),
        (
            "reference: ref.py\nmodel: {name: x, token: y}\n",
            r"unknown key 'model.token': .* base_url",
        ),
        ("reference: ref.py\nprecision: {absolut: 1, relative: 0}\n", r"precision.absolut"),
        ("reference: 3\n", r"'reference'.*found 3"),
        ("target: auto\n", r"'reference' is missing: .* reference: conv2d.py"),
        ("reference: [\n", r"not YAML"),
        ("reference: 2026-99-99\n", r"not YAML"),
        ("just words\n", r"expected keys and values .* found str"),
        ("", r"expected keys and values .* found an empty file"),
        (
            "reference: ref.py\nbaselines: max-autotune\n",
            r"'baselines': expected a list, found 'max",
        ),
        ("reference: ref.py\nsearch: beam\n", r"'search': expected keys and values, found 'beam'"),
        ("reference: ref.py\nstop:\n", r"'stop': expected keys and values, found nothing"),
        ("reference: gone.py\n", r"reference .*gone\.py does not exist"),
    ],
)
def test_what_is_wrong_with_a_task_is_one_line_that_names_the_key(tmp_path, text, found):
    with pytest.raises(TaskError, match=found) as raised:
        load_task(write(tmp_path, text))
    assert "\n" not in str(raised.value)


def test_a_missing_a_binary_and_a_folder_are_told_apart(tmp_path):
    with pytest.raises(TaskError, match="does not exist"):
        load_task(tmp_path / "none.yaml")
    with pytest.raises(TaskError, match="is a folder"):
        load_task(tmp_path)
    (tmp_path / "binary.yaml").write_bytes(b"\x00\xff\xfe")
    with pytest.raises(TaskError, match="not text"):
        load_task(tmp_path / "binary.yaml")


def test_a_reference_in_the_home_folder_is_found_from_every_task_file(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = tmp_path / "tasks"
    folder.mkdir()
    write(tmp_path, "")  # beside it lies the reference
    task = folder / "task.yaml"
    task.write_text("reference: ~/ref.py\n")
    assert load_task(task).reference == tmp_path / "ref.py"
    task.write_text("reference: ~nobody-here/ref.py\n")
    with pytest.raises(ConfigError, match="expected a user with a home folder after ~"):
        load_task(task)


def test_the_command_line_wins_over_the_file(tmp_path):
    task = override(
        load_task(write(tmp_path, "reference: ref.py\nsearch: {rounds: 9}\n")), rounds=2, minutes=1
    )
    assert task.settings.search.rounds == 2
    assert task.settings.stop.minutes == 1
    with pytest.raises(TaskError, match=r"command line: key 'search.seed'"):
        override(task, seed=2**40)


def test_identity_changes_with_what_decides_whether_an_answer_is_right(tmp_path):
    base = load_task(write(tmp_path, "reference: ref.py\n"))
    stricter = load_task(write(tmp_path, "reference: ref.py\nlibrary: forbidden\n"))
    slower = load_task(write(tmp_path, "reference: ref.py\nsearch: {rounds: 9}\n"))
    assert base.identity != stricter.identity
    assert base.identity == slower.identity


@pytest.mark.parametrize(
    ("text", "author"),
    [
        ("mailbox: letters\n", "mailbox"),
        ("mailbox: letters\nauthor: recipes\n", "recipes"),
        ("", "auto"),
    ],
)
def test_a_mailbox_without_an_author_is_the_author(tmp_path, text, author):
    assert load_task(write(tmp_path, "reference: ref.py\n" + text)).settings.author == author
