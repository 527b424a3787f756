"""Every command that a document shows is run, in the page's order, in a folder that has what the documents' placeholders name.

A command that cannot run in a test stands in NOT_RUN, with the reason. What transcripts print is checked elsewhere
(test_documented_commands.py, test_tutorial.py, test_findings.py), and so is that the flags of every other mention exist.
"""

import itertools
import os
import re
import shutil
import subprocess
import sys

import pytest
from conftest import BUILD, SOURCE
from support.documented import PAGES, SUBCOMMANDS, code_of
from support.problems import backward, make_problem

from msda_replay import Invocation, write_capture

pytestmark = pytest.mark.pages("the page in the test's name",
                                "change its command so that it runs after those above it on the page, or add it to NOT_RUN in this file with the reason")

# A regular expression of commands, and why they are not run here.
NOT_RUN = {
    r"tools/(demo|test|setup|lint)\b": "they install, build, check and run everything; continuous integration runs them",
    r"msda-replay survey|msda-record --survey": "surveys need a GPU; test_survey.py makes them on the stand-in driver",
    r"msda-record --trail|msda-replay diff a\.h5 b\.h5": "trails need a GPU; test_trails.py compares some that it makes",
    r"msda-replay minimize survey\.h5|msda-replay run small\.h5 --mode original": "need a GPU; test_minimize_launch.py runs them on the stand-in driver",
    r"cmake|ctest": "the build that runs this test is made by them",
    r"(sudo )?(apt|apt-get) |pip install|tools/package/": "install packages; tools/package/try does, in bare containers",
    r"(python3 )?tools/bench/(against_torch|gpu_bench|grid_bench|replaced_bench|scatter_bench|separable_bench|record_cost|recording_cost|training_steps|trail_cost|run)|python3 tests/trails/|.*tools/bench/run$":
        "need a GPU or PyTorch; those parts that do not: test_gpu_bench.py, test_record_cost.py, test_recording_cost.py, test_training_steps.py, test_trail_campaign.py",
    r"python3 -m pytest -m gpu ": "the tests of that folder run without a GPU, too",
    r"python3 tools/bench/(replay_run|judged_elements)\.py": "measure for minutes; test_many.py and test_judged.py give the same commands captures",
    r"python3 tests/(campaign|damaged_files)\.py": "take hours; test_campaign.py and test_damaged_files.py run them on fewer files",
    r"(mpirun|srun) ": "need processes that MPI starts together; test_many.py starts them",
    r"python3 -m pytest -q --msda -x test_warp\.py": "needs PyTorch; test_tutorial.py runs it where it is",
    r"python3 docs/findings/": "need PyTorch; test_findings.py runs them where it is",
    r"msda-record --adapter FILE -o CAPTURE": "needs a GPU's kernel; test_emulated_gpu.py and test_own_operators.py record by the page's file",
    r"msda-replay adapter (SIGNATURE|--cubin FILE)": "needs a signature, or a compiled kernel; test_adapter_command.py has them",
    r"msda-record --adapter segment_sum\.json": "as above",
    r"msda-replay run --operator segment_sum\.json": "as above",
    r"msda-replay run --operator slope\.json": "needs the compiled library; test_own_libraries.py compiles the page's example and runs it",
    r"(msda-replay (recover|recover .*)(SPOOL|CAPTURE\.spool|FILE\.spool))": "needs a recording that was killed; test_hostile.py kills one",
    r"msda-replay run msda-captures/test_(msda|warp)\.py": "examples of what the plugin prints; test_pytest_plugin.py runs what it prints",
}
# Pages whose commands another test runs, all of them, as regular expressions.
ELSEWHERE = {r"docs/tutorial/\w+\.md": "test_tutorial.py", r"docs/skill/SKILL\.md": "test_tutorial.py"}
PROGRAMS = {"msda-replay", "msda-record", "python3", "python", "pytest", "pip", "cmake", "ctest", "mpirun", "srun", "apt", "sudo"}
INPUTS = ("CAPTURE", "CASE.h5", "CASE.npz", "FOLDER", "OLD.h5", "SPOOL", "small.h5", "SMALL", "msda_triton.h5", "nightly/", ".npz")
TEST = """
import numpy as np
from msda_replay import cpu

def test_it():
    rng = np.random.default_rng(5)
    call = dict(value=rng.standard_normal((1, 6, 1, 4), np.float32), spatial_shapes=np.array([[2, 3]]),
                sampling_locations=rng.random((1, 3, 1, 1, 1, 2), np.float32), attention_weights=np.ones((1, 3, 1, 1, 1), np.float32),
                grad_output=rng.standard_normal((1, 3, 1, 4), np.float32))
    cpu.backward(**call, dialect="msda_triton", padding_mode="border")
"""


def is_command(line):
    """Whether it starts a program, and is not a part of its output or of a drawing."""
    words = re.sub(r"^((\w+=\S* )|(export .*))+", "", line).split()
    if not words:
        return False
    if words[0].startswith(("tools/", "build/bin/")):
        return True
    if words[0] not in PROGRAMS or len(words) == 1:
        return words[:1] == ["pytest"]
    return words[0] not in ("msda-replay", "msda-record") or words[1] in SUBCOMMANDS or words[1].startswith("-")


def commands_of(page):
    """What the page shows to be typed: lines of code blocks, and whole commands in its sentences and tables."""
    for code, is_line in code_of(page.read_text()):
        command, _, said = re.sub(r"\s+#.*|\s{2,}.*", "", code), *re.search(r"(# exit status )(\d)|()()$", code).groups("")[:2]
        if is_command(command) and (is_line or ("..." not in command.replace("[i,j,...]", "") and any(name in command.split() for name in INPUTS))):
            yield command, said


def forms_of(command):
    """The command for each of its alternatives, with what is optional and without, and names in place of placeholders."""
    for given in itertools.product(*[(f" {option}", "") for option in re.findall(r" \[(.*?)\]", command)]):
        whole = command
        for option in given:
            whole = re.sub(r" \[.*?\]", lambda _, option=option: option, whole, count=1)
        alternatives = re.search(r"--to (\w+(\|\w+)+)", whole)
        for target in alternatives[1].split("|") if alternatives else ["pytest"]:
            ends = {"pytest": "test_made.py", "cpp": "made.cpp", "npz": "made.npz", "zip": "made.zip", "tensorboard": "made_events"}
            form = re.sub(r"--to \w+(\|\w+)*", f"--to {target}", whole.replace("--to FORMAT", "--to pytest"))
            for name, real in (("CAPTURE CAPTURE...", "CASE.h5 OLD.h5"), ("CAPTURE...", "CASE.h5 OLD.h5"), (" ARGUMENT...", ""),
                               (" CMD ...", " python3 one_call.py"), ("TENSOR[i,j,...]", "grad_value[0,1,0,0]")):
                form = form.replace(name, real)
            for name, real in (("--dialect D", "--dialect msda_triton"), ("--padding-mode P", "--padding-mode border"),
                               ("true|false", "false"), ("-o FOLDER", "-o pages")):
                form = form.replace(name, real)
            for name, real in (("CAPTURE", "CASE.h5"), ("A", "CASE.h5"), ("B", "OLD.h5"), ("COMMAND", "python3 one_call.py"), ("TEST", "test_one.py"),
                               ("FILE", "made.h5"), ("PATH", ends[target]), ("FOLDER", "nightly"), ("SMALL", "small.h5")):
                form = re.sub(rf"(?<![\w.=$/]){name}(?=$|[\s])", real, form)
            yield form


@pytest.fixture(scope="session")
def calls(tmp_path_factory, demo_capture):
    """Small captures, one out of tolerance and one not, made once."""
    import numpy as np

    folder = tmp_path_factory.mktemp("calls")
    for name, seed, wrong in (("CASE.h5", 1, 1), ("OLD.h5", 2, 0), ("NEW.h5", 3, 0)):
        inputs = make_problem(np.random.default_rng(seed), heads=1, channels=4, queries=4)
        outputs = {tensor: array.astype(np.float32) for tensor, array in backward(inputs).items()}
        outputs["grad_value"][0, 3, 0, 1] += wrong
        write_capture(folder / name, Invocation(inputs, outputs, "msda_triton", atol=1e-3, rtol=1e-2))
    shutil.copy(demo_capture, folder / "h200_border_noalign_0.h5")
    return folder


@pytest.fixture
def world(tmp_path, calls):
    """A source tree as the documents see it from its root, with the files that their commands name."""
    for name in ("docs", "tests", "tools"):
        (tmp_path / name).symlink_to(SOURCE / name)
    (tmp_path / "build" / "demo").mkdir(parents=True)
    (tmp_path / "build" / "bin").symlink_to(BUILD / "bin")
    (tmp_path / "nightly").mkdir()
    (tmp_path / "ranks").mkdir()
    for path in calls.iterdir():
        shutil.copy(path, tmp_path)
    for name in ("CASE.h5", "NEW.h5"):
        shutil.copy(calls / name, tmp_path / "nightly")
        shutil.copy(calls / name, tmp_path / "ranks")
    shutil.copy(calls / "h200_border_noalign_0.h5", tmp_path / "build" / "demo")
    shutil.copy(calls / "CASE.h5", tmp_path / "small.h5")
    shutil.copy(SOURCE / "tests" / "data" / "h200_border_noalign_0.npz", tmp_path / "CASE.npz")
    (tmp_path / "test_one.py").write_text(TEST)
    (tmp_path / "test_attention.py").write_text(TEST)
    (tmp_path / "pytest.ini").write_text("[pytest]\ntestpaths = test_one.py\n")  # or pytest would collect this project's own
    (tmp_path / "one_call.py").write_text(TEST + "\ntest_it()\n")
    return tmp_path


def run(command, folder):
    for made in re.findall(r" -o (\S+)", command):
        path = folder / made
        if path.is_dir():
            shutil.rmtree(path)
        elif path.exists():
            path.unlink()
    # The tests' own Python, whatever python3 is on the PATH.
    python = folder / "shims"
    if not python.exists():
        python.mkdir()
        for name, arguments in (("python3", ""), ("pytest", "-m pytest ")):
            (python / name).write_text(f'#!/bin/sh\nexec {sys.executable} {arguments}"$@"\n')
            (python / name).chmod(0o755)
    for slow, few in (("stress", "--runs 8 --curve-runs 0"), ("advise", "--runs 8")):
        if "--runs" not in command:
            command = command.replace(f"msda-replay {slow} ", f"msda-replay {slow} {few} ")
    environment = {**os.environ, "PATH": f"{python}:{BUILD / 'bin'}:{os.environ['PATH']}", "PYTHONPATH": "tools/python",
                   "PYTEST_PLUGINS": "msda_replay.pytest_plugin", "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(command, shell=True, cwd=folder, env=environment, capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL)


SHOWN = {page: found for page in PAGES if (found := list(dict.fromkeys(commands_of(page))))
         and not any(re.fullmatch(pattern, str(page.relative_to(SOURCE))) for pattern in ELSEWHERE)}


@pytest.mark.parametrize("page", SHOWN, ids=lambda page: str(page.relative_to(SOURCE)))
def test_the_commands_of_a_page(page, world):
    wrong = []
    for command, status in SHOWN[page]:
        bare = re.sub(r"^((\w+=\S* )|(export .* && ))+", "", command)
        if any(re.match(pattern, bare) for pattern in NOT_RUN):
            continue
        for form in forms_of(command):
            done = run(form, world)
            finds = re.search(r"msda-replay |pytest test_small\.py", bare)  # drift is a result; a reproducer fails
            if done.returncode not in ([int(status)] if status else [0, 1] if finds else [0]):
                wrong.append(f"{command}\n  {form}\n  status {done.returncode}: {done.stderr[-400:]}{done.stdout[-200:]}")
    assert not wrong, "\n".join(wrong)


def test_no_exception_is_stale():
    """Each is for a command that some page shows, and each other test is there."""
    shown = [command for page in PAGES for command, _ in commands_of(page)]
    assert len(shown) > 80
    for pattern in NOT_RUN:
        assert any(re.match(pattern, re.sub(r"^((\w+=\S* )|(export .* && ))+", "", command)) for command in shown), pattern
    tests = set(re.findall(r"test_\w+\.py", " ".join([*NOT_RUN.values(), *ELSEWHERE.values()]))) - {"test_msda.py"}
    assert tests and tests <= {path.name for path in (SOURCE / "tests" / "python").rglob("test_*.py")}


def test_commands_are_found():
    """Not a test of nothing: in blocks, in tables, behind a prompt, with variables; not output and not drawings."""
    text = """
    $ msda-replay run CASE.h5
    PYTHONPATH=x python3 -m msda_replay import CASE.npz -o CASE.h5
    msda-replay 1.2.3
    msda-record / LD_PRELOAD

| a | `msda-replay advise CASE.h5 --json -` | `msda-replay run` |
"""

    class Page:
        read_text = staticmethod(lambda: text)

    assert [command for command, _ in commands_of(Page)] == [
        "msda-replay run CASE.h5", "PYTHONPATH=x python3 -m msda_replay import CASE.npz -o CASE.h5", "msda-replay advise CASE.h5 --json -"]
    assert list(forms_of("msda-replay diff A B [--slices]")) == ["msda-replay diff CASE.h5 OLD.h5 --slices", "msda-replay diff CASE.h5 OLD.h5"]
    assert len(list(forms_of("msda-replay export CAPTURE --to pytest|cpp|npz -o PATH"))) == 3
