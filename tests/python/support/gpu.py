"""What the tests on a GPU share: what they need, and programs that are compiled, run and recorded, each with a time limit.

`pytest -m gpu` runs them; pytest.mark.gpu("torch", ...) names what a test needs besides the GPU, and conftest.py skips it, with the
reason, where that is missing."""

import functools
import importlib.util
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile

import numpy as np
import pytest
from conftest import BUILD, GRADIENTS, SOURCE, WITH_GPUS

from msda_replay import read_capture

PROGRAMS = SOURCE / "tests" / "gpu"
# A share of the runs and of the random problems, for a quick look: compute-sanitizer takes its time.
SHARE = float(os.environ.get("MSDA_GPU_SHARE", 1))
ORDER_DEPENDENT = GRADIENTS[:1]
COUNT = """import ctypes
driver, count = ctypes.CDLL("libcuda.so.1"), ctypes.c_int()
error = driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count))
print(count.value or f"the CUDA driver has no device (error {error})")"""


def share_of(number):
    return max(2, round(number * SHARE))


@functools.cache
def gpus():
    """Returns how many GPUs there are, and why there is none. Another process looks: in this one they are hidden."""
    done = subprocess.run([sys.executable, "-c", COUNT], env=WITH_GPUS, capture_output=True, text=True)
    last = (done.stdout or done.stderr).strip().splitlines()[-1]
    return (int(last), "") if last.isdecimal() else (0, f"no GPU here: {last}")


def find_nvcc():
    folders = [pathlib.Path(os.environ[name]) / "bin" for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
    path = os.pathsep.join([os.environ.get("PATH", ""), *map(str, folders), "/usr/local/cuda/bin"])
    return shutil.which("nvcc", path=path)


@functools.cache
def missing(need):
    """Returns why something that a test needs is missing; empty if nothing is."""
    if need == "nvcc":
        return "" if find_nvcc() else "no nvcc in PATH, CUDA_HOME/bin or /usr/local/cuda/bin"
    if importlib.util.find_spec(need) is None:
        return f"{sys.executable} has no module {need}"
    if need == "torch":
        look = "import sys, torch; sys.exit(not torch.cuda.is_available())"
        return "torch sees no GPU" if subprocess.run([sys.executable, "-c", look], env=WITH_GPUS).returncode else ""
    return ""


def tail(text, lines=4):
    """Returns the last messages of a program, on one line."""
    return " / ".join(line.strip() for line in text.strip().splitlines()[-lines:])[-500:]


class Programs:
    """Compiles, runs and records programs in a folder, each for at most `limit` seconds."""

    def __init__(self, work, arch="native", limit=150):
        self.work, self.arch, self.limit, self._alone = work, arch, limit, {}

    def folder(self):
        return pathlib.Path(tempfile.mkdtemp(dir=self.work))

    def compiled(self, name):
        """Returns tests/gpu/NAME.cu, compiled once. Uncompressed, so that the driver hook sees the code, too."""
        path = self.work / name
        if not path.exists():
            self.run([find_nvcc(), "-std=c++17", "-O2", f"-arch={self.arch}", "-no-compress", "-o", path, PROGRAMS / f"{name}.cu"])
        return path

    def python(self, name, *arguments):
        """Returns the command that runs a program of tests/gpu/."""
        return [sys.executable, PROGRAMS / f"{name}.py", *arguments]

    def run(self, command, expected=(0,), limit=None, **variables):
        """Returns the finished program, which must end in time with one of the expected statuses."""
        command = [str(part) for part in command]
        kept = {name: value for name, value in WITH_GPUS.items() if not name.startswith(("MSDA_RECORD_", "LD_PRELOAD", "PYTEST_"))}
        if "PYTHONPATH" in kept:  # the program runs in another folder
            kept["PYTHONPATH"] = os.pathsep.join(map(os.path.abspath, kept["PYTHONPATH"].split(os.pathsep)))
        environment = {**kept, "PYTHONDONTWRITEBYTECODE": "1", **{name: str(value) for name, value in variables.items()}}
        name = next(pathlib.Path(part).name for part in command if not part.startswith("-"))
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
                                   stdin=subprocess.DEVNULL, start_new_session=True, cwd=self.work)
        try:
            out, err = process.communicate(timeout=limit or self.limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate(timeout=10)
            pytest.fail(f"{name} has not ended within {limit or self.limit} s: {tail(err or out)}")
        assert process.returncode in expected, f"{name} ended with {process.returncode}: {tail(err or out)}"
        return subprocess.CompletedProcess(command, process.returncode, out, err)

    def record(self, command, options=(), **rest):
        """Returns the finished program, and its capture, which may not exist."""
        capture = self.folder() / "capture.h5"
        return self.run([BUILD / "bin" / "msda-record", "-o", capture, *options, "--", *command], **rest), capture

    def record_unchanged(self, command, options=(), unstable=(), saves=True, **rest):
        """Runs a program alone and recorded: it prints the same, except lines with a word in `unstable`. Returns the
        recorded run, its capture, and the folder in which the program saved its tensors."""
        saved = self.folder()
        key = str((list(map(str, command)), sorted(rest.items())))
        if key not in self._alone:
            self._alone[key] = self.run(command, **rest)
        done, capture = self.record([*command, *(["--save", saved] if saves else [])], options, **rest)
        alone, recorded = ([line for line in text.splitlines() if not set(line.split()) & set(unstable)]
                           for text in (self._alone[key].stdout, done.stdout))
        assert recorded == alone, f"prints other than without the recorder: {tail(done.stderr)}"
        return done, capture, saved

    def run_pytorch_tests(self, name, selection, limit):
        """Runs tests/python/pytorch/NAME.py with GPUs, which conftest.py would hide. None may be skipped."""
        folder = SOURCE / "tests" / "python"
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--noconftest", folder / "pytorch" / f"{name}.py", "-k", selection]
        paths = [SOURCE / "tools" / "python", folder, pathlib.Path(pytest.__file__).parents[1]]
        done = self.run(command, expected=(0, 1), limit=limit, PYTHONPATH=os.pathsep.join(map(str, paths)), MSDA_BUILD=BUILD)
        assert done.returncode == 0 and "skipped" not in done.stdout, tail(done.stdout)

    def replay(self, *arguments, expected=(0,), limit=None):
        return self.run([BUILD / "bin" / "msda-replay", *arguments], expected, limit)


def invocations_of(capture, done, count=None):
    """Returns the recorded calls of a finished program, which must be `count`."""
    assert capture.exists(), f"no capture: {tail(done.stderr)}"
    calls = read_capture(capture).invocations
    assert count in (None, len(calls)), f"{len(calls)} of {count} launches are recorded: {tail(done.stderr)}"
    return calls


def assert_same(recorded, real, what):
    """Compares tensors bit for bit."""
    assert (recorded.dtype, recorded.shape) == (real.dtype, real.shape), what
    assert recorded.tobytes() == real.tobytes(), f"{what} differs from the program's in {(recorded != real).sum()} of {real.size} elements"


def saved_tensors(folder):
    """Returns what a program saved as NAME.TENSOR.npy: by name, then by tensor."""
    saved = {}
    for path in sorted(folder.glob("*.npy")):
        name, tensor = path.stem.rsplit(".", 1)
        saved.setdefault(name, {})[tensor] = np.load(path)
    return saved


def recorder_lines(done):
    """Returns what the recorder reported but for how many invocations it has, on one line."""
    lines = [line for line in done.stderr.splitlines() if re.match(r"(lib)?msda[-_]record", line) and "invocation" not in line]
    return tail("\n".join(lines))
