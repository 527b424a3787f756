"""The list of checks. A check is a generator of cases, each a name and a function; the function returns a figure, or a
figure and a note, and raises Failed or Skip."""

import dataclasses
from typing import Callable

CHECKS = {}


@dataclasses.dataclass
class Check:
    name: str
    what: str
    needs: tuple
    cases: Callable


def check(name, what, needs=()):
    def add(cases):
        CHECKS[name] = Check(name, what, tuple(needs), cases)
        return cases

    return add
