"""The backward pass of PyTorch's interpolate."""

from ..scatter import bounds, operator  # noqa: F401
from . import kinds, problems, recorded  # noqa: F401
