"""Which devices of this machine get a worker."""

from __future__ import annotations

import os
import re

from kb.errors import ConfigError
from search.targets.cuda import visible_gpus

_NAME = re.compile(r"cpu|cuda|cuda:\d+")


def chosen_devices(named: str) -> list[str]:
    """Return devices by what the user wrote.

    Args:
        named: ``auto`` (the GPU, or the processor where there is none), ``all`` (every GPU, or the
            processor), or names with commas between: ``cpu``, ``cuda``, ``cuda:1``.

    Raises:
        ConfigError: it is none of these, or names a device twice.
    """
    if named == "auto":
        return ["auto"]
    if named == "all":
        return [f"cuda:{index}" for index in range(len(visible_gpus()))] or ["cpu"]
    devices = [part.strip() for part in named.split(",")]
    if not all(_NAME.fullmatch(device) for device in devices) or len(set(devices)) < len(devices):
        raise ConfigError(
            f"--devices takes auto, all, or names such as cpu,cuda:0,cuda:1, found {named!r}"
        )
    return devices


def reserve(device: str) -> str:
    """Have this process and its children see one GPU only; return the kind of device.

    Raises:
        ConfigError: there is no such GPU.
    """
    kind, _, index = device.partition(":")
    if index:
        gpus = visible_gpus()
        if int(index) >= len(gpus):
            raise ConfigError(
                f"--devices: expected a GPU below {len(gpus)}, found {device}: kb doctor lists them"
            )
        os.environ["CUDA_VISIBLE_DEVICES"] = gpus[int(index)]
    return kind
