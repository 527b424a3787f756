"""A disk that fills up."""

import subprocess

import pytest


@pytest.fixture
def small_disk(tmp_path):
    """A file system of two mebibytes."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "none", folder], capture_output=True).returncode != 0:
        pytest.skip("may not mount a file system")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)
