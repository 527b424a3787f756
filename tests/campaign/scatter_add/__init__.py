"""Sums of rows, or of elements, that share an index."""

from ..scatter import bounds, operator  # noqa: F401
from . import kinds, problems, recorded  # noqa: F401
