"""What is asked of the manual, and the section that answers it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Question:
    """A question with the heading of the section that answers it, and the chapter it is in.

    Attributes:
        other: another section of the chapter that answers it as well.
    """

    text: str
    chapter: str
    section: str
    other: str = ""


AMD = "User Guide for AMDGPU Backend"
CLANG = "Compiling CUDA with clang"

QUESTIONS = (
    Question(
        "Which AMD product is gfx90a, and which target features does it have?", AMD, "Processors"
    ),
    Question(
        "What number has the address space of LDS memory on an AMD GPU in LLVM?",
        AMD,
        "Address Spaces",
    ),
    Question(
        "What do the syncscopes agent, workgroup and wavefront mean on AMD?", AMD, "Memory Scopes"
    ),
    Question(
        "ptxas error: undefined function __nvvm_reflect",
        "User Guide for NVPTX Back-end",
        "ptxas complains of undefined function: __nvvm_reflect",
    ),
    Question(
        "Which clang option controls fused multiply-add and flushing denormals in CUDA code?",
        CLANG,
        "Flags that control numerical code",
    ),
    Question(
        "How do I set the vector width and interleave count of one loop in C++ source?",
        "Auto-Vectorization in LLVM",
        "Pragma loop hint directives",
    ),
    Question(
        "How many threads per block should a Numba CUDA kernel use?",
        "Writing CUDA Kernels",
        "Choosing the block size",
    ),
    Question(
        "Sum an array within a thread block through shared memory, in Python",
        "Examples",
        "Shared Memory Reduction",
    ),
    Question(
        "Which environment variable switches on bounds checks of array indexing in jitted code?",
        "Environment variables",
        "NUMBA_BOUNDSCHECK",
    ),
    Question(
        "How does one kernel synchronise all blocks of the grid from Python?",
        "Cooperative Groups",
        "Using Grid Groups",
        other="Applications and Example",
    ),
)
