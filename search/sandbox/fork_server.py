"""A warm process that has imported torch and run nothing: it forks runners and builders.

It must never run an operator: a child forked after the OpenMP pool has started hangs in it.
"""

from __future__ import annotations

import gc
import json
import linecache
import os
import signal
import socket
import sys
import tempfile
from importlib import import_module
from typing import Any, NoReturn

from search.sandbox.sandbox import Cell, SandboxPart, die_with_parent, enter, missing, system_paths

DRY = -1
# What holds a candidate, and what is brought up once before, by the kind of device.
_RUNNERS = {
    "cpu": "search.sandbox.runner:Runner",
    "cuda": "search.judging.cuda.runner:CudaRunner",
    "dry": "search.judging.dryrun.runner:DryRunner",
}
_WARM_UP = {"cuda": "search.judging.cuda.warm:warm", "dry": "search.judging.dryrun.warm:warm"}
LONGEST_REQUEST = 1 << 22


def serve(fd: int, capability: int = 0) -> None:
    """Answer the judge on socket `fd` until it hangs up.

    Args:
        capability: of the GPU that runners are for (90 is sm_90), 0 for none, `DRY` for GPUs that
            are not here.

    A request is one JSON object with descriptors, behind its length (`send_request`); the reply is
    one JSON object in a line: ``run`` (descriptors: control, arena, log) and ``build`` (descriptor:
    log) reply with a pid, ``wait`` reaps that pid and replies with its status.
    """
    _warm(capability)
    channel = socket.socket(fileno=fd)
    children: set[int] = set()
    gc.collect()
    gc.freeze()  # what is warm stays shared: a child's collector does not touch it
    channel.sendall(b'{"ready": true}\n')
    while True:
        received = _receive_request(channel)
        if received is None:
            break
        request, fds = received
        if request["op"] == "wait":
            try:
                _, status = os.waitpid(request["pid"], 0)
            except ChildProcessError:
                status = signal.SIGKILL.value  # a child of the zygote before: it died with that
            children.discard(request["pid"])
            reply: dict[str, Any] = {"status": status}
        else:
            pid = os.fork()
            if pid == 0:
                channel.close()
                _child(request, fds)
            children.add(pid)
            reply = {"pid": pid}
        for descriptor in fds:
            os.close(descriptor)
        channel.sendall(json.dumps(reply).encode() + b"\n")
    for pid in children:
        os.kill(pid, signal.SIGKILL)


def send_request(channel: socket.socket, request: dict[str, Any], fds: list[int]) -> None:
    """Send what `serve` answers: its length in four bytes, which carry the descriptors, then itself.

    Raises:
        ValueError: it is longer than any request that the judge has reason to send.
        OSError: the other side is gone.
    """
    body = json.dumps(request).encode()
    if len(body) > LONGEST_REQUEST:
        raise ValueError(f"a request of {len(body)} bytes, {LONGEST_REQUEST} are the most")
    socket.send_fds(channel, [len(body).to_bytes(4, "big")], fds)
    channel.sendall(body)


def _receive_request(channel: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """Return a request and its descriptors, None where the judge has hung up."""
    head, fds, _, _ = socket.recv_fds(channel, 4, 3)
    size = head + _exactly(channel, 4 - len(head)) if head else b""
    body = _exactly(channel, int.from_bytes(size, "big")) if len(size) == 4 else b""
    return (json.loads(body), fds) if body else None


def _exactly(channel: socket.socket, size: int) -> bytes:
    """Return so many bytes, fewer where the other side hangs up."""
    pieces: list[bytes] = []
    while size and (piece := channel.recv(size)):
        pieces.append(piece)
        size -= len(piece)
    return b"" if size else b"".join(pieces)


def _warm(capability: int) -> None:
    """Import what children need at once, and start compilers that take long to start."""
    import numpy  # noqa: F401 - warm: a child has it at once
    import torch

    import kb.native  # noqa: F401 - candidates import it, and may not read its file

    # A seed that is set before CUDA is up keeps the lines of its callers, for a message.
    seeding = (torch.cuda, torch.cuda.random, torch.mtia, torch.random, torch.xpu, torch.xpu.random)
    for module in seeding:
        linecache.getlines(str(module.__file__))
    system_paths()
    device = "dry" if capability == DRY else "cuda" if capability else "cpu"
    _named(_RUNNERS[device])
    if device in _WARM_UP:
        _named(_WARM_UP[device])(capability)


def _named(name: str) -> Any:
    module, _, attribute = name.partition(":")
    return getattr(import_module(module), attribute)


def _child(request: dict[str, Any], fds: list[int]) -> NoReturn:
    """Become a runner or a builder."""
    try:
        os.setsid()
        log = fds.pop()
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.dup2(log, 1)
        os.dup2(log, 2)
        keep = sorted(fds)
        low = 3
        for descriptor in keep:
            os.closerange(low, descriptor)
            low = descriptor + 1
        os.closerange(low, 1 << 16)
        cell = Cell(**request["cell"]) if request["cell"] else None
        if request["op"] == "build":
            assert cell is not None
            _build(request, cell)
        _run(request, cell, fds)
    except BaseException as error:  # noqa: BLE001 - a child must never return into the zygote's loop
        os.write(2, f"{type(error).__name__}: {error}\n".encode()[:2000])
        os._exit(113)


def _run(request: dict[str, Any], cell: Cell | None, fds: list[int]) -> NoReturn:
    control, arena = fds
    if request["cpu"] is not None:
        os.sched_setaffinity(0, {request["cpu"]})
    runner = _named(_RUNNERS[request.get("device", "cpu")])(control, arena)

    def prepare() -> None:
        os.environ.update(request["environment"])
        tempfile.tempdir = None  # it was looked up before there was an environment
        runner.prepare()

    # Without a cell it is the user's own program, which the judge itself would run as well.
    parts: tuple[SandboxPart, ...] = ()
    if cell is not None:
        parts = enter(cell, prepare if "environment" in request else None)
    elif "environment" in request:
        die_with_parent()
        prepare()
    told = [[part.name, part.works, part.detail] for part in parts]
    os.write(control, json.dumps({"sandbox": told}).encode() + b"\n")
    if not missing(parts):
        runner.serve()
    os._exit(0)


def _build(request: dict[str, Any], cell: Cell) -> NoReturn:
    os.chdir(request["folder"])
    parts = enter(cell)
    if missing(parts):
        os.write(2, f"sandbox: {missing(parts)}\n".encode())
        os._exit(112)
    environment = {"PATH": os.defpath, "TMPDIR": request["folder"], "LC_ALL": "C"}
    os.execve(request["command"][0], request["command"], environment)  # noqa: S606 - no shell is meant


if __name__ == "__main__":
    serve(int(sys.argv[1]))
