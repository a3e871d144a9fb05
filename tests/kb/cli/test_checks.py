import json
import subprocess
import sys

import pytest

# A process that may make no namespace, as in most containers: the filter refuses unshare.
CODE = """
import ctypes, json, sys
sys.path[:] = json.loads(sys.argv[1])
from kb.app.doctor.checks import _sandbox
from search.sandbox import seccomp
if sys.argv[2] == "without":
    ctypes.CDLL(None).prctl(38, 1, 0, 0, 0)
    seccomp.install(single=False)
print(json.dumps([[one.state, one.detail, one.advice] for one in _sandbox(None)]))
"""


@pytest.mark.parametrize(("machine", "state"), [("with", "works"), ("without", "limited")])
def test_the_doctor_says_whether_namespaces_are_there(machine: str, state: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CODE, json.dumps(sys.path), machine],
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (found,) = (one for one in json.loads(done.stdout) if one[1].startswith("namespaces: "))
    if machine == "with" and found[0] == "limited":
        pytest.skip("this machine has none")
    assert found[0] == state
    assert ("not there" in found[1]) is (state == "limited")
    assert ("unprivileged_userns" in found[2]) is (state == "limited")
