"""Programs that are hard to survey."""

import subprocess

from conftest import BUILD
from support.recording import environment

CLIENT = BUILD / "stand_in" / "stand_in_hostile_client"


def run(folder, command, **variables):
    folder.mkdir(parents=True)
    variables = {"MSDA_STAND_IN_DEVICES": 2, "MSDA_STAND_IN_ASYNC": 1} | variables
    return subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=folder, env=environment(**variables))


# What the client does, and what it prints.
WORDS = {
    "launches:4": "number 8\n",
    "launches_in_threads:6": "69 69 69 69 \n",
    "resets:3": "number 4\nnumber 4\n",
    "frees:3": "number 2\n",
    "fails:2": 2 * "1 1 1 400 400 400 " + "number 2\n",
    "forks:12": "failed 0, 0 too few\n",
    "makes_contexts:4": "followed 14 24, here 4\n",
    "closes_descriptors": "number 6, changed 0\n",
    "vforks:3": "127 127 127 number 3\n",
    "unloads:3": "number 12\n",
    "destroys_streams:4": "number 8\n",
    "faults:3": "launch 0\nwait 700\nlaunch 700\nallocate 700\ncopy 700\nfree 700\nsynchronize 700\n",
    "lets_the_driver_go": "number 8\n",
    "alternates_devices:5": "there 10\nhere 10\n",
}
