"""What pyproject.toml cannot say: a package with programs in it (tools/package/make_wheel) is for one platform, and for every Python."""

import os
import pathlib

from setuptools import setup
from setuptools.dist import Distribution

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:  # setuptools before 70.1
    from wheel.bdist_wheel import bdist_wheel

HERE = pathlib.Path(__file__).resolve().parent
PROGRAMS = (HERE / "msda_replay" / "bin").is_dir()


class WithPrograms(Distribution):
    def has_ext_modules(self):
        return PROGRAMS


class AnyPython(bdist_wheel):
    def get_tag(self):
        tag = super().get_tag()
        return ("py3", "none", os.environ.get("MSDA_WHEEL_PLATFORM", tag[2])) if PROGRAMS else tag


def shared_files():
    """Man pages, completions and documentation, for PREFIX/share."""
    share = HERE / "share"
    folders = sorted(path for path in share.rglob("*") if path.is_dir()) if PROGRAMS else []
    return [(str(folder.relative_to(HERE)), [str(path.relative_to(HERE)) for path in sorted(folder.iterdir()) if path.is_file()])
            for folder in folders]


setup(distclass=WithPrograms, cmdclass={"bdist_wheel": AnyPython}, data_files=shared_files())
