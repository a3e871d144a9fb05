"""What the kernel says of memory by its address."""

import ctypes
import mmap
import os

import pytest
import torch

from search.sandbox.shared_memory import is_private

PAGE = mmap.PAGESIZE


def address_of(mapped: mmap.mmap) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(mapped))


def test_memory_that_nobody_else_sees_is_private_where_the_kernel_tells() -> None:
    own = torch.zeros(100_000)
    if not is_private(os.getpid(), [(own.data_ptr(), own.nbytes)]):
        pytest.skip("this kernel tells nothing of an address")
    more = torch.zeros(3)
    assert is_private(os.getpid(), [(x.data_ptr(), x.nbytes) for x in (own, more)])
    assert is_private(os.getpid(), [])


def test_what_is_shared_shows_a_file_or_is_not_there_is_not_private() -> None:
    shared = mmap.mmap(-1, 4 * PAGE)
    assert not is_private(os.getpid(), [(address_of(shared), 100)])
    assert not is_private(os.getpid(), [(address_of(shared) - PAGE, 2 * PAGE)])
    file = os.memfd_create("file")
    os.ftruncate(file, PAGE)
    copied = mmap.mmap(file, PAGE, flags=mmap.MAP_PRIVATE)
    copied[0] = 1
    assert not is_private(os.getpid(), [(address_of(copied), 8)])
    assert not is_private(os.getpid(), [(8, 8)])
    assert not is_private(1 << 30, [(address_of(shared), 8)])
    os.close(file)
