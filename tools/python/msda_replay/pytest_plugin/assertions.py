"""What a test's assertions compared, and with which tolerance: those of torch.testing and numpy.testing.

They are wrapped when their module has been imported, by the test, never by this plugin.
"""

import functools
import inspect
import threading
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Optional, Tuple

from .imports import ImportHook

# rtol and atol of torch.testing.assert_close where neither is given, by type; 0 for all others.
_OF_TORCH_TYPES = {"float16": (1e-3, 1e-5), "bfloat16": (1.6e-2, 1e-5), "float32": (1.3e-6, 1e-5), "float64": (1e-7, 1e-7)}


@dataclass
class Comparison:
    """One pair of arrays: NumPy arrays, or, of a comparison that passed, what was compared, held weakly."""

    actual: Any
    expected: Any
    atol: float
    rtol: float
    failed: bool
    by: str  # the assertion
    names: Tuple[str, str] = ("actual", "expected")  # what it calls the two

    def arrays(self):
        """Returns both as NumPy arrays; None where they are gone or may have changed."""
        pair = [value() if isinstance(value, _Unchanged) else value for value in (self.actual, self.expected)]
        return None if any(value is None for value in pair) else pair


class _Unchanged:
    """A weak reference that yields its array as long as that has not changed. Of a tensor of torch this costs next to
    nothing; a NumPy array is read, for its digest, now and when it is asked for."""

    def __init__(self, value):
        self._value = weakref.ref(value)
        self._state = self._state_of(value)

    @staticmethod
    def _state_of(value):
        if hasattr(value, "_version"):  # torch counts what changes a tensor in place
            return value._version
        from ..digest import digest

        return digest(to_numpy(value).tobytes())

    def __call__(self):
        value = self._value()
        return to_numpy(value) if value is not None and self._state_of(value) == self._state else None


def is_array(value):
    return hasattr(value, "__array__") and hasattr(value, "shape") and hasattr(value, "dtype")


def to_numpy(value):
    """Returns a copy on the host. bfloat16 becomes float32, as h5py reads it."""
    import numpy

    if hasattr(value, "detach"):  # torch
        value = value.detach().cpu()
        if str(value.dtype) == "torch.bfloat16":
            value = value.float()
        value = value.numpy()
    return numpy.array(value)


def _pairs(actual, expected):
    """Yields the pairs of arrays in equal nestings of sequences and mappings."""
    if is_array(actual) and is_array(expected):
        yield actual, expected
    elif isinstance(actual, Mapping) and isinstance(expected, Mapping):
        for key in actual:
            if key in expected:
                yield from _pairs(actual[key], expected[key])
    elif isinstance(actual, Sequence) and isinstance(expected, Sequence) and not isinstance(actual, (str, bytes)):
        for pair in zip(actual, expected):
            yield from _pairs(*pair)


def _of_torch(arguments, actual, expected):
    """Returns atol and rtol."""
    if arguments.get("rtol") is not None and arguments.get("atol") is not None:
        return arguments["atol"], arguments["rtol"]
    types = [str(value.dtype).replace("torch.", "") for value in (actual, expected)]
    rtol, atol = (max(numbers) for numbers in zip(*(_OF_TORCH_TYPES.get(name, (0.0, 0.0)) for name in types)))
    return atol, rtol


def _of_allclose(arguments, *_):
    return arguments["atol"], arguments["rtol"]


def _of_decimals(arguments, *_):
    return 1.5 * 10.0 ** -arguments["decimal"], 0.0


def _exact(*_):
    return 0.0, 0.0


_ASSERTIONS: Dict[str, Dict[str, Callable[..., Tuple[float, float]]]] = {
    "torch.testing": {"assert_close": _of_torch, "assert_allclose": _of_torch},
    "numpy.testing": {
        "assert_allclose": _of_allclose, "assert_array_almost_equal": _of_decimals, "assert_almost_equal": _of_decimals,
        "assert_array_equal": _exact, "assert_equal": _exact,
    },
}


class Watch:
    """Notes comparisons, from install() on, while `notes` is a list. `eager`: copies also what passed, at once."""

    def __init__(self):
        self.notes: Optional[List[Comparison]] = None
        self.eager = False
        self._wrapped: List[Tuple[Any, str, Any]] = []  # module, name, original
        self._inside = threading.local()
        self._hook = ImportHook(dict.fromkeys(_ASSERTIONS, self._wrap_all))

    def install(self):
        self._hook.install()

    def uninstall(self):
        self._hook.uninstall()
        for module, name, original in self._wrapped:
            setattr(module, name, original)
        self._wrapped.clear()
        self.notes = None

    def _wrap_all(self, module):
        for name, tolerance_of in _ASSERTIONS[module.__name__].items():
            original = getattr(module, name, None)
            if callable(original):
                setattr(module, name, self._wrap(original, f"{module.__name__}.{name}", tolerance_of))
                self._wrapped.append((module, name, original))

    def _wrap(self, original, by, tolerance_of):
        @functools.wraps(original)
        def compared(*args, **kwargs):
            __tracebackhide__ = True
            if self.notes is None or getattr(self._inside, "assertion", False):
                return original(*args, **kwargs)
            self._inside.assertion = True  # assertions that this one makes are its own affair
            failed = True
            try:
                result = original(*args, **kwargs)
                failed = False
                return result
            finally:
                self._inside.assertion = False
                self._note(self.notes, original, args, kwargs, by, tolerance_of, failed)

        return compared

    def _note(self, notes, original, args, kwargs, by, tolerance_of, failed):
        try:
            bound = inspect.signature(original).bind(*args, **kwargs)
            bound.apply_defaults()
            (actual_name, actual), (expected_name, expected) = list(bound.arguments.items())[:2]
            keep = to_numpy if failed or self.eager else _Unchanged
            for left, right in _pairs(actual, expected):
                atol, rtol = map(float, tolerance_of(bound.arguments, left, right))
                notes.append(Comparison(keep(left), keep(right), atol, rtol, failed, by, (actual_name, expected_name)))
        except Exception:  # what cannot be noted must not change what the test does
            pass
