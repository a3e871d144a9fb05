import sys
from pathlib import Path

import pytest

from kb.runtime.bundle import standalone


def _names(text: str) -> dict[str, object]:
    assert "from kb" not in text
    names: dict[str, object] = {"__name__": "copied"}
    exec(compile(text, "copied", "exec"), names)
    return names


def test_a_file_without_native_kernels_stays_as_it_is() -> None:
    source = "import triton\nfrom kb.native import unheard_of\n"
    assert standalone(source) == source
    assert standalone("import torch\n") == "import torch\n"


def test_a_cpp_file_carries_the_loader_of_cpp_alone() -> None:
    text = standalone("import torch\nfrom kb.native import load_cpp, method\nx = 1\n")
    names = _names(text)
    assert callable(names["load_cpp"])
    assert callable(names["method"])
    assert "cuLaunchKernelEx" not in text
    assert "kb.runtime.cuda" not in text


@pytest.mark.parametrize(
    "line",
    ["from kb.native import load_cuda", "from kb.native import (\n    load_cuda,\n    tensor_map,  # for TMA\n)", "from kb.native import load_cpp, load_cuda, tensor_map"],
)  # fmt: skip
def test_a_cuda_file_carries_a_loader_that_its_own_names_do_not_disturb(
    line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "kernel_loader", raising=False)
    names = _names(standalone(f"import torch\n{line}\ncheck = driver = packed = None\n"))
    assert names["check"] is None
    assert callable(sys.modules["kernel_loader"].driver)
    for name in ("load_cpp", "load_cuda", "tensor_map"):
        assert callable(names.get(name)) == (name in line)


def test_no_two_files_of_the_loader_use_one_name() -> None:
    import ast

    from kb.runtime import bundle

    seen: dict[str, str] = {}
    for file in bundle._FILES["tensor_map"]:
        tree = ast.parse(bundle._text(file))
        for node in tree.body:
            targets = node.targets if isinstance(node, ast.Assign) else []
            named = [target.id for target in targets if isinstance(target, ast.Name)]
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                named.append(node.name)
            for name in named:
                assert name not in seen, f"{name} is in {seen.get(name)} and in {file}"
                seen[name] = file
    assert len(seen) > 40


def test_every_file_of_the_loader_imports_nothing_but_the_standard_library_and_its_own() -> None:
    from kb.runtime import bundle

    for file in bundle._FILES["tensor_map"]:
        text = Path(bundle.__file__).with_name(f"{file}.py").read_text()
        imported = [
            line.split()[1] for line in text.splitlines() if line.startswith(("from ", "import "))
        ]
        assert all(name.startswith("kb.runtime") or name.split(".")[0] in sys.stdlib_module_names for name in imported)  # fmt: skip
