"""msda_replay.torch on a GPU: the operators by an index have the CPU's bits under use_deterministic_algorithms(True), which refuses none."""


import pytest
from conftest import BUILD, SOURCE
from support.gpu import share_of

pytestmark = pytest.mark.gpu("torch")
PROBLEMS, RUNS, OPERATORS, LIMIT_S = 500, 1000, 14, 400
CUBLAS = {"CUBLAS_WORKSPACE_CONFIG": ":4096:8"}  # without which PyTorch refuses products of matrices


def lines_of(programs, *arguments):
    done = programs.run(programs.python("by_index", *arguments), limit=LIMIT_S, PYTHONPATH=SOURCE / "tools" / "python", MSDA_BUILD=BUILD, **CUBLAS)
    return [line.split() for line in done.stdout.splitlines()]


def test_bits_are_the_cpus(programs):
    problems = share_of(PROBLEMS)
    found = lines_of(programs, "bits", "--problems", problems)
    assert len(found) == OPERATORS and [line for line in found if line[1:] != [str(problems), "0"]] == []


def test_repeated_calls_have_one_digest(programs):
    found = lines_of(programs, "repeat", "--runs", share_of(RUNS))
    assert len(found) == OPERATORS and [line for line in found if line[1:] != ["1"]] == []


def test_calls_in_cuda_graphs_and_compiled_have_the_same_bits(programs):
    found = lines_of(programs, "graph")
    assert len(found) == 4 and [line for line in found if line[1:] != ["True", "True"]] == []


@pytest.mark.parametrize("name", ["test_torch_max_pool", "test_torch_by_index"])
def test_values_are_those_of_pytorch(programs, name):
    programs.run_pytorch_tests(name, "cuda", LIMIT_S)
