"""Which recorders pytest --msda uses."""

import pytest

from msda_replay.pytest_plugin import recorders


@pytest.mark.parametrize("device, hidden, visible", [
    ("nvidia0", None, True), ("nvidia12", "0,1", True), ("dxg", None, True),
    ("nvidia0", "", False), ("nvidia0", "-1", False), ("dxg", "NoDevFiles", False),
    ("nvidiactl", None, False), ("null", None, False),
])  # fmt: skip
def test_visible_gpus(tmp_path, monkeypatch, device, hidden, visible):
    (tmp_path / device).touch()
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if hidden is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", hidden)
    assert recorders.gpu_is_visible(tmp_path) is visible


@pytest.mark.parametrize("preloaded, gpu, pytorch, described", [
    (True, True, True, "kernels (by LD_PRELOAD)"),
    (True, False, True, "kernels (by LD_PRELOAD) and PyTorch's operators"),
    (True, False, False, "kernels (by LD_PRELOAD)"),
    (False, True, True, "PyTorch's operators"),
    (False, False, True, "PyTorch's operators"),
    (False, True, False, ""),
])  # fmt: skip
def test_what_records(monkeypatch, preloaded, gpu, pytorch, described):
    monkeypatch.setattr(recorders.Recorder, "loaded", lambda: object() if preloaded else None)
    monkeypatch.setattr(recorders, "gpu_is_visible", lambda: gpu)
    monkeypatch.setattr(recorders, "_pytorch_is_installed", lambda: pytorch)
    monkeypatch.setattr(recorders, "OperatorRecorder", object)
    chosen = recorders.Recorders()
    assert chosen.describe() == described and bool(chosen) == bool(described)
    assert chosen.leave_out_the_cpu == (preloaded and gpu and pytorch)
