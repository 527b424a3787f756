"""What PyTorch refuses under use_deterministic_algorithms(True): a net of each operator trains with msda_replay.torch.deterministic()."""

import json

import pytest
from conftest import BUILD, SOURCE

pytestmark = pytest.mark.gpu("torch")
STEPS, LIMIT_S = 10, 300


@pytest.fixture(scope="module")
def nets(programs):
    done = programs.run(programs.python("refused_nets", "--steps", STEPS), limit=LIMIT_S, PYTHONPATH=SOURCE / "tools" / "python", MSDA_BUILD=BUILD)
    return {report.pop("net"): report for report in map(json.loads, done.stdout.splitlines())}


def test_none_is_refused_and_weights_are_equal(nets):
    trained = {name: report for name, report in nets.items() if "skipped" not in report}
    wrong = {name: report["refused"] or "the weights of two runs differ" for name, report in trained.items() if report["refused"] or not report["equal"]}
    assert not wrong and len(trained) >= 30


def test_they_learn(nets):
    """A gradient of zeros would be equal in every run."""
    still = [name for name, report in nets.items() if report.get("losses") and len(set(report["losses"])) < STEPS // 2]
    assert not still


def test_pytorch_alone_refuses_most(nets):
    """Else the first test would show nothing."""
    assert sum(bool(report.get("alone")) for report in nets.values()) >= 20
