"""What msda_replay.torch.deterministic() has replaced in this process, what PyTorch still refuses, and what may still vary."""

import functools
import os
from collections import Counter
from dataclasses import dataclass
from typing import Callable, Dict, List, Tuple

import torch

from . import calls
from .operators import REPLACED

_counts: Dict[str, int] = Counter()

# What PyTorch 2.11 refuses on a GPU under use_deterministic_algorithms(True), and no context replaces.
REFUSED = {
    "aten::index_reduce": "no reduction of it has an order",
    "aten::scatter.reduce": "use scatter_reduce, which has one",
    "aten::resize_ of quantized tensors": "its new elements are not initialized, which is no question of an order",
}


def counted(operator: str, function: Callable) -> Callable:
    """Returns the function, which also counts its calls: an addition for each, without a lock."""

    @functools.wraps(function)
    def count(*given, **more):
        _counts[operator] += 1
        return function(*given, **more)

    return count


def _may_vary() -> List[str]:
    found = []
    if not torch.are_deterministic_algorithms_enabled():
        found.append("operators that are not replaced: torch.use_deterministic_algorithms(True) makes PyTorch's deterministic, or refuses them")
    elif torch.is_deterministic_algorithms_warn_only_enabled():
        found.append("operators that PyTorch only warns of, attention's backward pass among them: call use_deterministic_algorithms without warn_only")
    if torch.backends.cudnn.benchmark:
        found.append("convolutions, since cuDNN chooses the fastest algorithm anew in each process: set torch.backends.cudnn.benchmark = False")
    if torch.version.cuda and "CUBLAS_WORKSPACE_CONFIG" not in os.environ:
        found.append("products of matrices on several streams: set CUBLAS_WORKSPACE_CONFIG=:4096:8 before the program starts")
    found.append("kernels that are not PyTorch's (Triton, extensions): msda-record --survey runs each launch again and compares")
    return found


@dataclass(frozen=True)
class Report:
    """What was replaced: operators with the number of their calls in this process. What is refused: operators, with the reason. What may
    still vary, with what to do about it. str() is all of it as text."""

    replaced: List[Tuple[str, int]]
    refused: List[Tuple[str, str]]
    may_vary: List[str]

    def __str__(self) -> str:
        of_calls = lambda count: f"{count} call" + "s" * (count != 1)  # noqa: E731
        parts = [("replaced", [f"{name}: {of_calls(count)}" for name, count in self.replaced] or ["nothing: no such operator was called within a context"]),
                 ("refused by PyTorch, if called", [f"{name}: {why}" for name, why in self.refused]), ("may still vary", self.may_vary)]  # fmt: skip
        return "\n".join(f"{title}\n" + "\n".join(f"  {line}" for line in lines) for title, lines in parts)


def report() -> Report:
    """Returns what contexts of deterministic() have replaced in this process so far, and what they do not. A call that a CUDA graph
    captured counts once, however often the graph runs."""
    counts, module = Counter(_counts), calls.native()
    for found in [replaced.native_counts(module) for replaced in REPLACED] if module is not None else []:
        counts.update(found)
    return Report(sorted((name.removeprefix("aten::"), count) for name, count in counts.items() if count), list(REFUSED.items()), _may_vary())
