"""torch.compile: what it compiles calls PyTorch's operators that scatter, so that where it runs decides whose kernels they are.

Otherwise PyTorch traces some as reads of pixels, whose backward pass is index_put, and inductor makes kernels of its own of the others,
which add atomically on a GPU.
"""

import functools
import sys
import warnings

import torch

from .operators import REPLACED


@functools.lru_cache(maxsize=1)
def _keep_in_inductor(names):
    """Once, when inductor first compiles: to import it takes seconds, which a program that does not compile need not wait."""
    from torch._inductor import decomposition, lowering

    tables = decomposition.decompositions, decomposition.fast_random_decomps()
    for overload in (getattr(torch.ops.aten, name).default for replaced in REPLACED for name in replaced.forward):  # forward passes are still inductor's
        for table in tables:
            table.setdefault(overload, torch._decomp.decomposition_table[overload])
    for name in names:
        operator = getattr(torch.ops.aten, name)
        for overload in (getattr(operator, overload) for overload in operator.overloads()):
            for table in tables:
                table.pop(overload, None)
            if overload not in lowering.fallbacks:
                lowering.make_fallback(overload, warn=False, override_decomp=True)


def _before_inductor(function):
    """Has the wrapper of inductor, which torch.compile makes, call a function before it compiles."""
    compile = torch._TorchCompileInductorWrapper.__call__

    @functools.wraps(compile)
    def call(self, *arguments):
        function()
        if self.config.get("cpp_wrapper", torch._inductor.config.cpp_wrapper):
            warnings.warn("inductor's cpp_wrapper calls PyTorch's kernels directly: msda_replay.torch.deterministic() replaces none there", stacklevel=2)
        return compile(self, *arguments)

    torch._TorchCompileInductorWrapper.__call__ = call


def trace_refused(is_replaced):
    """Where graphs are traced, PyTorch's implementations in Python refuse some operators, too: no more while `is_replaced()`."""
    names = {name for replaced in REPLACED for name in replaced.refusals}
    if not hasattr(torch._prims_common, "alert_not_deterministic"):
        return
    refuse = torch._prims_common.alert_not_deterministic

    @functools.wraps(refuse)
    def alert(caller):
        if caller not in names or not is_replaced():
            refuse(caller)

    torch._prims_common.alert_not_deterministic = alert


def keep_operators(names):
    """`names`: of aten's operators that are replaced. What has been compiled already is compiled again."""
    try:
        for replaced in REPLACED:
            replaced.keep_forward()
        _before_inductor(functools.partial(_keep_in_inductor, names))
    except (AttributeError, ImportError) as error:  # these are not PyTorch's public functions
        warnings.warn(f"msda_replay.torch.deterministic() does not replace what torch.compile compiles with this PyTorch: {error}", stacklevel=2)
        return
    if hasattr(torch.compiler, "config"):  # what another program compiled and left on the disk
        torch.compiler.config.cache_key_tag += "msda_replay.torch"
    if "torch._dynamo" in sys.modules:
        torch.compiler.reset()
