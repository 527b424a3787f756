"""Support for the checks: compiles, runs and records programs, each with a time limit, and compares results."""

import ctypes
import os
import pathlib
import re
import shutil
import signal
import subprocess

SOURCE = pathlib.Path(__file__).resolve().parents[2]
TARGETS, BITS = SOURCE / "tests" / "gpu", SOURCE / "tests" / "python" / "support" / "bits"
GRADIENTS = ("grad_value", "grad_sampling_locations", "grad_attention_weights")


class Failed(Exception):
    """A check does not hold."""


class Skip(Exception):
    """A check cannot be made here."""


def expect(condition, text):
    if not condition:
        raise Failed(text)


def gpu_missing():
    """Returns why the driver offers no usable GPU; empty if there is one."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return "no CUDA driver, libcuda.so.1"
    error, count = driver.cuInit(0), ctypes.c_int(0)
    if error == 0:
        error = driver.cuDeviceGetCount(ctypes.byref(count))
    return "" if error == 0 and count.value > 0 else f"the CUDA driver has no device (error {error})"


def find_nvcc():
    folders = [pathlib.Path(os.environ[name]) / "bin" for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
    path = os.pathsep.join([os.environ.get("PATH", ""), *map(str, folders), "/usr/local/cuda/bin"])
    return shutil.which("nvcc", path=path)


def tail(text, lines=4):
    """Returns the last messages of a program, on one line."""
    return " / ".join(line.strip() for line in text.strip().splitlines()[-lines:])[-500:]


class Bench:
    """Folders and programs of one run of gpu-check."""

    def __init__(self, binaries, python, work, arch="native", limit=150, tuner_runs=3, poison_runs=100, scatter_problems=300):
        self.record_program, self.replay_program = binaries / "msda-record", binaries / "msda-replay"
        self.python, self.work, self.arch, self.limit = python, work, arch, limit
        self.tuner_runs, self.poison_runs, self.scatter_problems = tuner_runs, poison_runs, scatter_problems
        self._programs, self._plain, self._modules, self._number = {}, {}, None, 0

    # What is here

    def missing(self, need):
        """Returns why something that a check needs is missing; empty if nothing is."""
        if need == "nvcc":
            return "" if find_nvcc() else "no nvcc in PATH, CUDA_HOME/bin or /usr/local/cuda/bin"
        if self._modules is None:
            code = ("import importlib.util as u\n"
                    "for n in ('torch', 'torchvision', 'triton', 'msda_triton', 'h5py', 'numpy', 'pytest'):\n"
                    "    if u.find_spec(n): print(n)\n"
                    "import torch; torch.cuda.is_available() and print('cuda')\n")
            done = subprocess.run([self.python, "-c", code], capture_output=True, text=True, timeout=self.limit)
            self._modules = done.stdout.split()
        if need == "torch" and "torch" in self._modules and "cuda" not in self._modules:
            return f"torch of {self.python} sees no GPU"
        return "" if need in self._modules else f"{self.python} has no module {need}"

    def require(self, need):
        """Raises Skip with the reason if something is missing."""
        if reason := self.missing(need):
            raise Skip(reason)

    def folder(self):
        self._number += 1
        path = self.work / f"{self._number:03}"
        path.mkdir()
        return path

    def program(self, name):
        """tests/gpu/NAME.cu, compiled."""
        if name not in self._programs:
            nvcc = find_nvcc()
            if nvcc is None:
                raise Skip("no nvcc")
            path = self.work / name
            # Uncompressed, so that the driver hook sees the code, too.
            self.run([nvcc, "-std=c++17", "-O2", f"-arch={self.arch}", "-no-compress", "-o", path,
                      SOURCE / "tests" / "gpu" / f"{name}.cu"])
            self._programs[name] = path
        return self._programs[name]

    def target(self, name, *arguments):
        """Returns a Python program of tests/gpu/, or of those that compare bits."""
        return [self.python, (BITS if name.endswith("_bits") else TARGETS) / f"{name}.py", *arguments]

    # Running

    def run(self, command, expected=(0,), limit=None, **variables):
        """Returns the finished program. Raises Failed with its last messages."""
        command = [str(part) for part in command]
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("MSDA_RECORD_", "LD_PRELOAD"))}
        if "PYTHONPATH" in kept:  # the program runs in another folder
            kept["PYTHONPATH"] = os.pathsep.join(map(os.path.abspath, kept["PYTHONPATH"].split(os.pathsep)))
        environment = {**kept, "PYTHONDONTWRITEBYTECODE": "1", **{name: str(value) for name, value in variables.items()}}
        name = next(pathlib.Path(part).name for part in command if not part.startswith("-"))
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
                                   stdin=subprocess.DEVNULL, start_new_session=True, cwd=self.work)
        limit = limit or self.limit
        try:
            out, err = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            try:
                out, err = process.communicate(timeout=10)
            except subprocess.TimeoutExpired:
                out = err = ""
            raise Failed(f"{name} has not ended within {limit} s: {tail(err or out)}") from None
        if expected and process.returncode not in expected:
            raise Failed(f"{name} ended with {process.returncode}: {tail(err or out)}")
        return subprocess.CompletedProcess(command, process.returncode, out, err)

    def record(self, command, options=(), **rest):
        """Returns the finished program, and its capture, which may not exist."""
        capture = self.folder() / "capture.h5"
        return self.run([self.record_program, "-o", capture, *options, "--", *command], **rest), capture

    def outcome_kept(self, command, options=(), unstable=(), saves=True, **rest):
        """Runs a program alone and recorded: it prints the same, except lines with a word in `unstable`. Returns the
        recorded run, its capture, and the folder in which the program saved its tensors."""
        saved = self.folder()
        key = str((list(map(str, command)), sorted(rest.items())))
        if key not in self._plain:
            self._plain[key] = self.run(command, **rest)
        plain = self._plain[key]
        done, capture = self.record([*command, *(["--save", saved] if saves else [])], options, **rest)
        one, other = (stable(text, unstable) for text in (plain.stdout, done.stdout))
        expect(one == other, f"prints other than without the recorder: {first_difference(one, other)}; {tail(done.stderr)}")
        return done, capture, saved

    def replay(self, *arguments, expected=(0,), limit=None):
        return self.run([self.replay_program, *arguments], expected, limit)


def stable(text, unstable):
    return [line for line in text.splitlines() if not set(line.split()) & set(unstable)]


def first_difference(one, other):
    for a, b in zip(one, other):
        if a != b:
            return f"{b!r}, not {a!r}"
    return f"{len(other)} lines, not {len(one)}"


def invocations_of(capture, done=None):
    """Returns the recorded calls; Failed with the recorder's messages if there is no capture."""
    from msda_replay import read_capture

    if not capture.exists():
        raise Failed("no capture: " + (tail(done.stderr) if done is not None else str(capture)))
    return read_capture(capture).invocations


def expect_calls(count, capture, done):
    """Checks the number of recorded launches; returns it as a figure."""
    found = len(invocations_of(capture, done))
    expect(found == count, f"{found} of {count} launches are recorded: {tail(done.stderr)}")
    return f"{found} launches"


def same(recorded, real, what):
    """Checks equality bit for bit."""
    expect(recorded.dtype == real.dtype and recorded.shape == real.shape,
           f"{what} is {recorded.dtype}{list(recorded.shape)}, not {real.dtype}{list(real.shape)}")
    if recorded.tobytes() != real.tobytes():
        unequal = int((recorded != real).sum())
        raise Failed(f"{what} differs from the program's in {unequal} of {real.size} elements")


def saved_tensors(folder):
    """Returns what a program saved as NAME.TENSOR.npy: by name, then by tensor."""
    import numpy as np

    saved = {}
    for path in sorted(folder.glob("*.npy")):
        name, tensor = path.name[:-4].rsplit(".", 1)
        saved.setdefault(name, {})[tensor] = np.load(path)
    return saved


def recorder_lines(done):
    return [line for line in done.stderr.splitlines() if re.match(r"(lib)?msda[-_]record", line)]
