from __future__ import annotations

from benchmarks.retrieval.docstrings import header_page, python_page

MODULE = '''
"""About."""
import somewhere_that_is_not_installed

def load(pointer, mask=None, _semantic=None):
    """Load what `pointer` names, where `mask` is true, and nothing where it is not.

    # a comment in an example
    """

def _hidden():
    """This is a long enough docstring of a function that nobody should call at all."""

class Config:
    """A configuration that the tuner may try, with its keyword arguments and options."""

    def all(self):
        """Short."""

conv = _add_docstr(torch.conv, r"""Applies a convolution over an input that is made of several planes of input.""")
'''

HEADER = r"""
/**
 * \brief Waits for the device
 *
 * Blocks until \p device is done. ::cudaSuccess follows.
 *
 * \param flags - What to do
 * \sa ::other
 */
extern __host__ cudaError_t CUDARTAPI cudaWait(unsigned flags);

/** a structure */
struct thing { int x; };
"""


def test_a_page_has_the_public_documented_names_of_a_module_that_is_never_imported() -> None:
    page = python_page("pack.module", MODULE)
    assert "## pack.module.load(pointer, mask)\n\nLoad what" in page
    assert "## pack.module.Config\n" in page
    assert "## pack.module.conv\n\nApplies" in page
    assert "_hidden" not in page
    assert "Config.all" not in page


def test_a_comment_in_an_example_is_no_heading() -> None:
    assert "\n\\# a comment" in python_page("pack.module", MODULE)


def test_a_header_gives_its_functions_without_the_marks_of_doxygen() -> None:
    page = header_page("wait.h", HEADER)
    assert "## cudaWait\n\nWaits for the device" in page
    assert "Blocks until device is done. cudaSuccess follows." in page
    assert "- `flags` - What to do" in page
    assert "\\sa" not in page
    assert "thing" not in page
