"""Which processes the baselines get; what starts them is given, so that no device is needed."""

from typing import Any, cast

from search.judging.cuda.baselines import BaselineRunners


class Process:
    """Stands for a runner, and remembers what it was told."""

    def __init__(self) -> None:
        self.lives, self.begun, self.imports = True, False, False

    def alive(self) -> bool:
        return self.lives

    def begin(self) -> None:
        self.begun = True

    def begin_import(self) -> None:
        self.begun = self.imports = True

    def close(self) -> None:
        self.lives = False


def runners(made: list[Process]) -> BaselineRunners:
    def start() -> Any:
        made.append(Process())
        return made[-1]

    return BaselineRunners(start)


def test_those_that_were_started_ahead_are_taken_and_only_one_imports_the_compiler() -> None:
    made: list[Process] = []
    starts = runners(made)
    starts.launch_ahead(compiled=True)
    starts.launch_ahead(compiled=True)
    assert [one.imports for one in made] == [False, True]
    assert all(one.begun for one in made)
    assert [starts.take(compiles=False), starts.take(compiles=True)] == cast("Any", made)
    assert cast("Any", starts.take(compiles=True)) is made[2], "a further mode has its own"
    assert made[2].imports
    starts.close()
    assert all(one.lives for one in made), "they are whose that took them"


def test_one_that_has_died_meanwhile_is_replaced() -> None:
    made: list[Process] = []
    starts = runners(made)
    starts.launch_ahead(compiled=False)
    made[0].lives = False
    assert cast("Any", starts.take(compiles=False)) is made[1]


def test_what_nobody_takes_is_ended() -> None:
    made: list[Process] = []
    starts = runners(made)
    starts.launch_ahead(compiled=True)
    starts.close()
    assert not any(one.lives for one in made)
