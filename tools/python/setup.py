"""Makes a package with programs in it: those of an installed build, MSDA_PREFIX, or else of the sources that this folder lies in."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.dist import Distribution

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:  # setuptools before 70.1
    from wheel.bdist_wheel import bdist_wheel

ROOT = pathlib.Path(__file__).resolve().parents[2]
HELD = ("bin/msda-record", "bin/msda-replay", "lib*/**/libmsda.so.0", "lib*/**/libmsda_record.so")
OPTIONAL = ("lib*/**/msda_torch_calls.abi3.so",)  # of builds with CUDA


def install(prefix):
    """Builds the programs in MSDA_BUILD, by default the build/ of the sources, and installs them into `prefix`, which it returns."""
    build = os.environ.get("MSDA_BUILD", ROOT / "build")
    commands = [["--build", build, "--target", "runtime"],
                ["--install", build, "--component", "runtime", "--strip", "--prefix", prefix]]  # fmt: skip
    if not os.path.exists(os.path.join(build, "CMakeCache.txt")):
        commands.insert(0, ["--preset", "default", "-B", build, "-DMSDA_TESTS=OFF"])
    try:
        for command in commands:
            subprocess.run(["cmake", *command], cwd=ROOT, check=True)
    except (OSError, subprocess.CalledProcessError):
        sys.exit("msda_replay: cannot build its programs: in a clone of msda-replay, run tools/setup, which installs what they need, and try again")
    return prefix


class BuildWithPrograms(build_py):
    """Puts the programs into the package, and man pages, completions and documentation into PREFIX/share."""

    def run(self):
        if self.editable_mode:
            sys.exit("msda_replay: an editable installation has no programs: build them (docs/building.md), and add tools/python to PYTHONPATH")
        super().run()
        inside = pathlib.Path(self.build_lib) / "msda_replay"
        prefix = pathlib.Path(os.environ.get("MSDA_PREFIX") or install(TEMPORARY / "installed"))
        for pattern in HELD + OPTIONAL:
            found = next(prefix.glob(pattern), None)
            if found:
                (inside / pattern[:3]).mkdir(exist_ok=True)
                shutil.copy(found, inside / pattern[:3])
            elif pattern in HELD:
                sys.exit(f"msda_replay: {prefix} has no {pattern}: install the component runtime into it first")
        shared = [path for path in sorted((prefix / "share").rglob("*")) if path.is_file()]
        self.distribution.data_files = [(str(path.parent.relative_to(prefix)), [str(path)]) for path in shared]


class WithPrograms(Distribution):
    def has_ext_modules(self):
        return True


class AnyPython(bdist_wheel):
    def get_tag(self):
        return ("py3", "none", super().get_tag()[2])


# Nothing is left in the sources, from where a later wheel would take it.
with tempfile.TemporaryDirectory() as temporary:
    TEMPORARY = pathlib.Path(temporary)
    setup(distclass=WithPrograms, cmdclass={"bdist_wheel": AnyPython, "build_py": BuildWithPrograms},
          options={"build": {"build_base": temporary}, "egg_info": {"egg_base": temporary}})
