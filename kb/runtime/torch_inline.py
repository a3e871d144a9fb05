"""torch's `load_inline`, where the extension was built before: the judge's processes import it only."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.machinery import ExtensionFileLoader, ModuleSpec
from importlib.util import module_from_spec
from types import ModuleType
from typing import Any

from kb.runtime.cpp import built_before

_EXTENSIONS = "torch.utils.cpp_extension"
# The parameters of torch.utils.cpp_extension.load_inline, in order.
PARAMETERS = (
    "name", "cpp_sources", "cuda_sources", "sycl_sources", "functions", "extra_cflags",
    "extra_cuda_cflags", "extra_sycl_cflags", "extra_ldflags", "extra_include_paths",
    "build_directory", "verbose", "with_cuda", "with_sycl", "is_python_module",
    "with_pytorch_error_handling", "keep_intermediates", "use_pch", "no_implicit_headers",
)  # fmt: skip
# What decides the machine code; the rest says where and how it is built.
_TELLING = ("name", "cpp_sources", "cuda_sources", "functions", "extra_cflags", "extra_cuda_cflags",
            "extra_ldflags", "with_pytorch_error_handling", "no_implicit_headers")  # fmt: skip


def normalised(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return what decides the build, a string and the list of it alike."""
    values = {name: arguments.get(name) for name in _TELLING}
    for name in (
        "cpp_sources",
        "cuda_sources",
        "extra_cflags",
        "extra_cuda_cflags",
        "extra_ldflags",
    ):
        given = values[name] or ()
        values[name] = [given] if isinstance(given, str) else list(given)
    functions = values["functions"] or ()
    named = [functions] if isinstance(functions, str) else functions
    values["functions"] = dict(named) if isinstance(named, Mapping) else {one: one for one in named}
    values["with_pytorch_error_handling"] = values["with_pytorch_error_handling"] is not False
    values["no_implicit_headers"] = bool(values["no_implicit_headers"])
    return values


def inline_key(arguments: Mapping[str, Any]) -> str:
    """Return the name under which the extension of a `load_inline` call is kept.

    Args:
        arguments: of the call, by parameter.
    """
    text = json.dumps(normalised(arguments), sort_keys=True)
    return hashlib.sha256(f"load_inline {text}".encode()).hexdigest()[:32]


def load_inline_prebuilt(*args: Any, **kwargs: Any) -> ModuleType:
    """Import the extension that was built for a `load_inline` call with these arguments.

    It takes the place of `torch.utils.cpp_extension.load_inline` where nothing may be compiled.

    Raises:
        RuntimeError: there is none: the arguments were not literals or constants of the module.
    """
    arguments = {**dict(zip(PARAMETERS, args, strict=False)), **kwargs}
    path = built_before(inline_key(arguments), "load_inline")
    if path is None:
        raise RuntimeError("load_inline: this process holds no extension that was built before")
    name = str(arguments["name"])
    loader = ExtensionFileLoader(name, path)
    module = module_from_spec(ModuleSpec(name, loader, origin=path))
    sys.modules[name] = module
    loader.exec_module(module)
    return module


class _Extensions(ModuleType):
    """Stands for torch's module, whose import takes half a second, until more of it is asked for."""

    load_inline = staticmethod(load_inline_prebuilt)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if sys.modules.get(_EXTENSIONS) is self:
            del sys.modules[_EXTENSIONS]
        real: Any = import_module(_EXTENSIONS)
        real.load_inline = load_inline_prebuilt
        return getattr(real, name)


def install() -> None:
    """Put `load_inline_prebuilt` where candidates look for `load_inline`."""
    loaded: Any = sys.modules.get(_EXTENSIONS)
    if loaded is None:
        import torch.utils

        loaded = sys.modules[_EXTENSIONS] = _Extensions(_EXTENSIONS)
        package: Any = torch.utils
        package.cpp_extension = loaded
    loaded.load_inline = load_inline_prebuilt


def strings(value: Any) -> bool:
    """Say whether `value` is a string or a sequence of them, as sources and flags are."""
    return isinstance(value, str) or (
        isinstance(value, Sequence) and all(isinstance(item, str) for item in value)
    )
