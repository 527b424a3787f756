"""Operators that a definition in the capture states."""

from ..scatter import bounds, operator  # noqa: F401
from . import kinds, problems  # noqa: F401
