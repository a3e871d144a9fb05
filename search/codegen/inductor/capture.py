"""Asks Inductor for the code of a program, in a process of its own: ``python -m search.codegen.inductor.capture SOCKET``.

It takes requests from a socket, and answers each in a fork of itself: to import the compiler takes seconds.
Inductor's front part runs, no compiler does: the function that would compile and load the code is
replaced by one that keeps the text. In its place runs a stand-in, so that it is seen which argument
is which parameter, and which result is which of the program's.
"""

from __future__ import annotations

import ast
import gc
import json
import linecache
import os
import signal
import socket
import sys
import tempfile
import types
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest import mock

from search.codegen.inductor.eager_layout import mislaid, moved
from search.codegen.inductor.identify import (
    SMALL,
    Interception,
    constant,
    find,
    global_tensors,
    known_tensors,
    place,
)
from search.codegen.inductor.instructions import compiler_flags, find_instructions

_WARM = ("torch._dynamo", "torch._inductor.compile_fx", "torch._inductor.codegen.cpp")
_KEPT: list[Any] = []  # what a library defines is gone with it


def main() -> None:
    """Import the compiler, then answer each request in a process of its own, forked from this one.

    A message has four files: the request, its answer, what is printed, and a pipe that is told the process's number
    and closes with it. Its text says whether the code is for a processor. Nothing is computed here: a child of what
    has used a device, or a second thread, hangs.
    """
    with socket.socket(fileno=int(sys.argv[1])) as requests:
        for module in _WARM:
            import_module(module)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the children
        while True:
            text, files, _, _ = socket.recv_fds(requests, 16, 4)
            if not text:  # whoever asks is gone
                os._exit(0)
            if text == b"processor":
                find_instructions()
            if os.fork() == 0:
                requests.close()
                try:
                    _answer(*files)
                finally:  # whoever asked may be gone
                    os._exit(1)
            for file in files:
                os.close(file)


def _answer(given: int, out: int, errors: int, alive: int) -> None:
    """Answer one request, and end."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.write(alive, b"%d" % os.getpid())
    os.set_inheritable(alive, False)  # what a reference starts must not be waited for
    for file, number in ((given, 0), (errors, 1), (errors, 2)):
        os.dup2(file, number)  # what a reference prints is no answer
    warnings.simplefilter("ignore")
    asked = json.loads(sys.stdin.read())
    os.environ.clear()
    os.environ.update(asked["environment"])
    os.sched_setaffinity(0, asked["processors"])
    try:
        answer = capture(json.loads(asked["request"]))
    except Exception as error:  # noqa: BLE001 - the compiler and the user's program raise what they like
        first = (str(error).strip().splitlines() or [""])[0]
        answer = {"reason": f"{type(error).__name__}: {first}"[:400]}
    with os.fdopen(out, "w", encoding="utf-8") as stream:
        json.dump(answer, stream)
    os._exit(0)  # the compiler's pools and the device's context take seconds to end


def capture(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the code of the program in ``request["source"]``, or the reason why there is none.

    Args:
        request: ``source``: the reference's text; ``program``: a module with the class ``ModelNew`` to
            compile in its place, or None; ``stubs``: operators that the program calls, see `_define`;
            ``device``: ``cpu`` or ``cuda``; ``figures`` of the GPU where there may be none, see `fake_cuda`.
    """
    import torch

    torch.set_num_threads(1)  # as the judge runs it
    module = _executed("reference", request["source"])
    build, file = module.Model, module
    if request.get("program"):
        _define(request.get("stubs", ()))
        file = _executed("program", request["program"])
        build = file.ModelNew
    arguments: Any = getattr(module, "get_init_inputs", tuple)()
    model: Any = build(*arguments).requires_grad_(False)
    seen, device = Interception(), request.get("device", "cpu")
    eager = device if torch.cuda.is_available() else "cpu"  # where it can be asked on real memory
    with _placed(device, request.get("figures")) as move, torch.no_grad():
        model, inputs = move(model), tuple(map(move, _drawn(module)))
        with _intercepted(seen), _rnn_unrolled():
            compiled: Any = torch.compile(model, dynamic=False, fullgraph=True)
            result = compiled(*inputs)
        known = [*known_tensors(model, inputs), *global_tensors(file)]
        told = _told(seen, known, result)
        if "reason" in told:
            return told
        told["mislaid"] = mislaid(module, eager, model, inputs, result)
        # Which instructions the processor has is found out by compiling programs, for half a minute.
        flags = compiler_flags() if device == "cpu" else []
        return {**told, "flags": flags, "configs": _configs(told["code"])}


@contextmanager
def _placed(device: str, figures: Mapping[str, Any] | None) -> Iterator[Callable[[Any], Any]]:
    """Yield what puts a module or an input on the device, or on one that is not here."""
    import torch

    if device == "cpu" or torch.cuda.is_available():
        yield lambda value: moved(value, device)
        return
    if not figures:
        raise RuntimeError("there is no GPU here, and no figures of one")
    from torch._subclasses.fake_tensor import FakeTensorMode

    from search.codegen.inductor.fake_cuda import fake_cuda

    with fake_cuda(figures), FakeTensorMode(allow_non_fake_inputs=True):
        yield _without_memory


def _drawn(module: types.ModuleType) -> tuple[Any, ...]:
    """Return inputs of a reference without memory where it makes such: Inductor asks for their shapes alone.

    They have no gaps: the judge gives candidates none, and Inductor writes strides into its code.
    """
    import torch

    try:
        with torch.device("meta"):
            drawn = tuple(module.get_inputs())
    except Exception:  # noqa: BLE001 - the user's program, which may read what it draws
        drawn = tuple(module.get_inputs())
    return tuple(x.clone() if isinstance(x, torch.Tensor) else x for x in drawn)


def _without_memory(value: Any) -> Any:
    """Return a tensor's, or a module's, likeness on a device that is not here."""
    import torch

    def likeness(one: Any) -> Any:
        return torch.empty_strided(one.shape, one.stride(), dtype=one.dtype, device="cuda:0")

    if isinstance(value, torch.Tensor):
        return likeness(value)
    if isinstance(value, torch.nn.Module):
        for module in value.modules():
            for name, one in module._parameters.items():
                if one is not None:
                    made = torch.nn.Parameter(likeness(one), requires_grad=False)
                    module._parameters[name] = made
            for name, buffer in module._buffers.items():
                if buffer is not None:
                    module._buffers[name] = likeness(buffer)
    return value


def _configs(code: str) -> dict[str, list[dict[str, Any]]]:
    """Return the settings that Inductor's heuristics would try for each Triton kernel."""
    found: dict[str, list[dict[str, Any]]] = {}
    for call in ast.walk(ast.parse(code)):
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "async_compile.triton":
            name, source = (ast.literal_eval(argument) for argument in call.args[:2])
            # The driver is chosen already, or there is none.
            source = source.replace("triton_helpers.set_driver_to_gpu()", "")
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "kernel.py"
                path.write_text(source, encoding="utf-8")
                space = {"__file__": str(path), "__name__": f"kernel_{len(found)}"}
                linecache.cache[str(path)] = (len(source), None, source.splitlines(True), str(path))
                exec(compile(source, str(path), "exec"), space)  # noqa: S102 - Inductor's own text
            tuner: Any = space.get(name) or space["triton_"]
            found[name] = [
                {
                    "kwargs": dict(one.kwargs),
                    "num_warps": one.num_warps,
                    "num_stages": one.num_stages,
                }
                for one in tuner.configs
            ]
    return found


def _executed(name: str, source: str) -> types.ModuleType:
    module = types.ModuleType(f"kb_{name}")
    sys.modules[module.__name__] = module
    exec(compile(source, f"<{name}>", "exec"), module.__dict__)  # noqa: S102 - the user's own program
    return module


@contextmanager
def _rnn_unrolled() -> Iterator[None]:
    """Let Dynamo trace RNN, LSTM and GRU, which it leaves to eager as it is."""
    from torch._dynamo import config

    if not hasattr(config, "allow_rnn"):
        yield
        return
    with mock.patch.object(config, "allow_rnn", new=True):
        yield


@contextmanager
def _intercepted(seen: Interception) -> Iterator[None]:
    """Keep what Inductor writes, compile nothing, and run a stand-in in its place.

    `torch._inductor.utils.get_code` replaces the same method in torch 2.1 to 2.13.
    """
    from torch._inductor.graph import GraphLowering

    def stand_in(graph: Any) -> Any:
        wrapper, kernels = graph.codegen()
        seen.codes.append(wrapper.value)
        seen.constants.update(graph.constants)
        names = list(graph.graph_input_names)
        seen.mutated = tuple(names.index(name) for name in graph.mutated_inputs)
        call = _stand_in(seen, graph)
        return types.SimpleNamespace(call=call, __file__="<inductor>", value=kernels)

    with mock.patch.object(GraphLowering, "compile_to_module", stand_in), _uncached():
        yield


@contextmanager
def _uncached() -> Iterator[None]:
    """See that the code is written now, and in this process."""
    from torch._inductor import config

    wanted = {"fx_graph_cache": False, "fx_graph_remote_cache": False, "compile_threads": 1}
    known = {name: value for name, value in wanted.items() if hasattr(config, name)}
    with config.patch(known):
        yield


def _stand_in(seen: Interception, graph: Any) -> Callable[[list[Any]], list[Any]]:
    import torch

    shapes: list[Any] = []
    for node in graph.graph_outputs:
        try:
            size = [int(n) for n in node.get_size()]
            stride = [int(n) for n in node.get_stride()]
            shapes.append((size, stride, node.get_dtype(), node.get_device()))
        except Exception:  # noqa: BLE001 - a number or nothing: it is no tensor
            shapes.append(None)
    names = list(graph.graph_input_names)
    results = list(graph.get_output_names())

    def call(arguments: list[Any]) -> list[Any]:
        seen.arguments = list(arguments)
        arguments.clear()
        seen.returned = []
        for name, shape in zip(results, shapes, strict=True):
            if name in names:
                seen.returned.append(seen.arguments[names.index(name)])
            elif shape is None:
                seen.returned.append(None)
            else:
                size, stride, dtype, device = shape
                made = torch.empty_strided(size, stride, dtype=dtype, device=device)
                seen.returned.append(made)
        return list(seen.returned)

    return call


def _define(stubs: Any) -> None:
    """Register operators that a program calls in place of its parts.

    Args:
        stubs: for each its ``name``, the number of tensors that it reads (``reads``), and the shapes and types
            of what it writes (``writes``).
    """
    import torch

    library: Any = torch.library.Library("kb", "FRAGMENT")  # type: ignore[no-untyped-call]
    _KEPT.append(library)
    for stub in stubs:
        read = ", ".join(f"Tensor x{at}" for at in range(stub["reads"]))
        library.define(f"{stub['name']}({read}) -> Tensor[]", tags=(_contiguous_tag(),))
        library.impl(stub["name"], _allocate(stub["writes"]), "CompositeExplicitAutograd")
        torch.library.register_fake(f"kb::{stub['name']}", _allocate(stub["writes"]), lib=library)


def _contiguous_tag() -> Any:
    """Return the tag that has Inductor keep the strides of what an operator reads."""
    import torch

    exact = getattr(torch.Tag, "needs_exact_strides", None)
    return torch.Tag.needs_fixed_stride_order if exact is None else exact


def _allocate(writes: Any) -> Callable[..., list[Any]]:
    import torch

    def made(*given: Any) -> list[Any]:
        return [given[0].new_empty(shape, dtype=getattr(torch, dtype)) for shape, dtype in writes]

    return made


def _told(seen: Interception, known: list[tuple[Any, str, str]], result: Any) -> dict[str, Any]:
    """Return the answer: the code with what is known of it, or the reason why it is none."""
    import torch

    origins = [find(value, known) for value in seen.arguments]
    constants = {name: constant(value) for name, value in seen.constants.items()}
    single = isinstance(result, torch.Tensor)
    listed = [result] if single else list(result) if isinstance(result, (tuple, list)) else [None]
    results = [place(value, seen) for value in listed]
    reasons = (
        (
            len(seen.codes) != 1,
            f"torch.compile writes {len(seen.codes)} programs for it, expected one",
        ),
        (None in origins, "an argument of the compiled program is none of the module's tensors"),
        (not _written(seen, origins) <= {"buffer"}, "it writes into its own parameters or inputs"),
        (None in constants.values(), f"a constant has more than {SMALL} elements, too many to be written out"),
        (None in results, "a result of the forward is none of the compiled program's"),
    )  # fmt: skip
    for holds, reason in reasons:
        if holds:
            return {"reason": reason}
    return {
        "code": seen.codes[0],
        "origins": origins,
        "constants": constants,
        "results": results,
        "single": single,
        "version": torch.__version__,
    }


def _written(seen: Interception, origins: list[Any]) -> set[str]:
    """Return the kinds of the tensors that the program writes into; a batch norm counts in its buffers."""
    return {(origins[at] or {}).get("kind", "") for at in seen.mutated}


if __name__ == "__main__":
    main()
    gc.freeze()  # see `kb.cli.main`
