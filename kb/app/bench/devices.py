"""The devices that a suite is spread over, and how problems are dealt out to them."""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from kb.errors import ConfigError

T = TypeVar("T")
R = TypeVar("R")
_TICK = 0.25  # seconds between two looks, so that Ctrl-C is heard


@dataclass(frozen=True, kw_only=True)
class BenchDevice:
    """A device that works on one problem at a time.

    Attributes:
        environment: what a process is given so that it sees this device alone.
    """

    name: str
    environment: Mapping[str, str] = field(default_factory=dict)


def choose_devices(asked: str, how: str) -> tuple[BenchDevice, ...]:
    """Return the devices to use.

    Args:
        asked: ``one``, ``all``, or numbers as CUDA counts them, ``0,2,3``.
        how: the way in which the first device is judged, see `kb.app.device.JudgingDevice`.

    Raises:
        ConfigError: there is no such device, or several were asked for where there is one.
    """
    if asked == "one":
        return (BenchDevice(name="here"),)
    if how != "cuda":
        raise ConfigError(
            f"--devices {asked}: expected 'one' where no GPU judges, because candidates that are timed side by "
            "side on one processor disturb each other: leave the option out"
        )
    from search.targets.cuda import visible_gpus

    there = {str(number): gpu for number, gpu in enumerate(visible_gpus())}
    named = list(there) if asked == "all" else [one.strip() for one in asked.split(",")]
    for one in named:
        if one not in there or named.count(one) > 1:
            raise ConfigError(
                f"--devices {asked}: expected 'all' or different numbers from 0 to {len(there) - 1}, found {one!r}"
            )
    return tuple(
        BenchDevice(name=f"cuda:{one}", environment={"CUDA_VISIBLE_DEVICES": there[one]})
        for one in named
    )


class Dealer(Generic[T, R]):
    """Deals pieces of work out to devices; each device has one at a time.

    Args:
        work: does a piece on a device, in a thread; None where it was interrupted, or left alone.
        interrupt: has every piece that is under way end soon.
    """

    def __init__(
        self,
        devices: Sequence[BenchDevice],
        work: Callable[[T, BenchDevice], R | None],
        interrupt: Callable[[], None],
    ) -> None:
        self._devices = devices
        self._work = work
        self._interrupt = interrupt
        self._stop = threading.Event()

    def run(self, pieces: Sequence[T]) -> Iterator[R]:
        """Yield results as they come.

        An interruption, or a consumer that goes away, ends what is under way before it goes on its way.
        """
        waiting = deque(pieces)
        done: queue.SimpleQueue[R | BaseException | None] = queue.SimpleQueue()
        threads = [
            threading.Thread(target=self._serve, args=(device, waiting, done), daemon=True)
            for device in self._devices[: len(pieces)]
        ]
        for thread in threads:
            thread.start()
        open_ends = len(threads)
        try:
            while open_ends:
                try:
                    found = done.get(timeout=_TICK)
                except queue.Empty:
                    continue
                if found is None:
                    open_ends -= 1
                elif isinstance(found, BaseException):
                    raise found
                else:
                    yield found
        finally:
            self._stop.set()
            if open_ends:
                self._interrupt()
            for thread in threads:
                thread.join()

    def _serve(
        self,
        device: BenchDevice,
        waiting: deque[T],
        done: queue.SimpleQueue[R | BaseException | None],
    ) -> None:
        try:
            while not self._stop.is_set():
                try:
                    piece = waiting.popleft()
                except IndexError:
                    break
                found = self._work(piece, device)
                if found is not None:
                    done.put(found)
        except BaseException as error:  # noqa: BLE001 - it is raised again where results are awaited
            done.put(error)
        finally:
            done.put(None)
