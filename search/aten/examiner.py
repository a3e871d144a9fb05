"""``python -m search.aten.examiner``: names the operators of torch's OpInfo, then examines those whose numbers it is given.

An operator may want more memory than there is, or never return. It has a limit of memory here, sees no GPU, and whoever asked
can end this process. Where half of the memory was used it ends without an answer: what memory is refused to later would look
like a fault of the operator at hand.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from dataclasses import asdict

import torch

from search.aten.programs import Unwritable
from search.aten.rule import entries, examined

_MEMORY = 16 << 30  # bytes


def main() -> None:
    """Answer with a line of JSON for each line that is read."""
    told = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # torch prints
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    least = _MEMORY if most == resource.RLIM_INFINITY else min(_MEMORY, most)
    resource.setrlimit(resource.RLIMIT_DATA, (least, most))
    torch.set_num_threads(1)  # for tensors of some hundred elements
    known = list(entries())
    print(json.dumps([str(one.name) for one in known]), file=told, flush=True)
    for line in sys.stdin:
        try:
            answer = asdict(examined(known[int(line)]))
        except Unwritable as reason:
            answer = {"reason": str(reason)}
        if resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10 > _MEMORY // 2:
            os._exit(1)
        print(json.dumps(answer), file=told, flush=True)


if __name__ == "__main__":
    main()
