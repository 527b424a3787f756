"""tools/bench/training_steps.py: what it makes of made-up results."""

import subprocess
import sys

import pytest
from conftest import SOURCE

sys.path.insert(0, str(SOURCE / "tools" / "bench"))
import training_steps  # noqa: E402
from training import judge  # noqa: E402


def ran(weights, **more):
    return {"losses": ["0x1p0", "0x1p-1"], "weights": weights, "refused": [], "machine": {"GPU": "H"}, **more}


def a_row(both=("a", "a"), plain=("b", "c"), alone="", seconds=(0.1, 0.104, 0.11, 0.09), refused=()):
    """Rounds that differ by much, but in all modes alike."""
    times = {"seconds": {name: [5 * entry, entry, entry / 5] for name, entry in zip(("plain", *judge.COMPARED), seconds)}} if seconds else {}
    return judge.row_of("gcn", {"plain": [ran(plain[0]), ran(plain[1], alone=alone)],
                                "deterministic": [ran(both[0]), ran(both[1], refused=list(refused), **times)]})


def test_what_is_promised_is_judged():
    good = a_row()
    assert not list(judge.missed(good)) and [good["ratios"][mode][1] for mode in judge.COMPARED] == pytest.approx([1.04, 1.1, 0.9])
    assert not list(judge.missed(a_row(plain=("b", "b"), alone="index_add_cuda_ does not have a deterministic implementation")))
    for row, why in ((a_row(both=("a", "d")), "ended with other weights"), (a_row(plain=("b", "b")), "nothing is shown"),
                     (a_row(seconds=(0.1, 0.106, 0.1, 0.1)), "1.060 times the nondeterministic one, at most 1.05"),
                     (a_row(seconds=None), "no times were measured")):
        (line,) = judge.missed(row)
        assert line.startswith("gcn: ") and why in line


def test_losses_count_as_well():
    both = [ran("a"), ran("a")]
    both[1]["losses"] = ["0x1p0", "0x1p-2"]
    assert not judge.row_of("gcn", {"plain": both, "deterministic": both})["equal"]


def test_the_table_shows_it():
    first, last = map(judge.cells_of, [a_row(), a_row(both=("a", "d"), alone="a|b", seconds=None, refused=["cumsum_cuda_kernel"])])
    assert first == ["gcn", "equal", "differ", "runs", "100.0 ms", "1.040 (1.040 to 1.040)", "1.100 (1.100 to 1.100)", "0.900 (0.900 to 0.900)", "nothing"]
    assert last == ["gcn", "DIFFER", "differ", "refused: a/b", "not measured", "", "", "", "cumsum_cuda_kernel"]


def test_rounds_are_compared_one_by_one():
    """A slow round, and a slow turn, count once each."""
    plain, both = [1.0, 1.0, 4.0, 1.0, 1.0], [1.1, 1.0, 4.0, 3.0, 1.2]
    assert judge.ratio_to_plain({"plain": plain, "deterministic": both}, "deterministic") == pytest.approx([1.0, 1.1, 1.2])
    assert judge.ratio_to_plain({"plain": [2.0], "deterministic": [3.0]}, "deterministic") == [1.5, 1.5, 1.5]


def program(monkeypatch, tmp_path, text):
    path = tmp_path / "client.py"
    path.write_text(text)
    monkeypatch.setattr(training_steps, "CLIENT", path)


CLIENT = """import json, sys, os
mode = sys.argv[2]
weights = "same" if mode == "deterministic" else str(os.getpid())
seconds = {"plain": [1.0], "deterministic": [SLOW], "context": [1.0], "alone": [1.0]}
print(json.dumps({"losses": [], "weights": weights, "refused": [], "machine": {"PyTorch": "2"}, "alone": "", "seconds": seconds}))
"""


@pytest.mark.parametrize("slow, asserts, status", [("1.04", True, 0), ("1.06", True, 1), ("1.06", False, 0)])
def test_the_command_runs_and_judges(monkeypatch, tmp_path, capsys, slow, asserts, status):
    program(monkeypatch, tmp_path, CLIENT.replace("SLOW", slow))
    rows = tmp_path / "rows.json"
    assert training_steps.main(["--models", "gcn,rt-detr", "--json", str(rows), *(["--assert"] if asserts else [])]) == status
    printed = capsys.readouterr()
    assert printed.out.count("| equal | differ | runs |") == 2 and "PyTorch 2" in printed.out and rows.read_text().count('"model"') == 2
    assert ("at most 1.05 is promised" in printed.err) == (slow == "1.06")


def test_nothing_to_measure_with_and_failures(monkeypatch, tmp_path, capsys):
    program(monkeypatch, tmp_path, "import sys; print('client: no GPU that PyTorch can use', file=sys.stderr); sys.exit(77)")
    assert training_steps.main(["--models", "gcn"]) == 77
    assert "skipped: gcn, plain: client: no GPU" in capsys.readouterr().err
    program(monkeypatch, tmp_path, "import sys; sys.exit('out of memory')")
    assert training_steps.main(["--models", "gcn"]) == 1
    assert "gcn, plain: exit status 1: out of memory" in capsys.readouterr().err


def test_the_client_without_a_gpu():
    try:
        import torch

        if torch.cuda.is_available():
            pytest.skip("there is a GPU here")
    except ImportError:
        pass
    done = subprocess.run([sys.executable, SOURCE / "tools" / "bench" / "training" / "client.py", "gcn", "plain"],
                          capture_output=True, text=True, timeout=120)
    assert done.returncode == 77 and done.stdout == "" and done.stderr.startswith("client: ") and done.stderr.count("\n") == 1
