"""PyTorch's grid_sample, in two and three dimensions."""

from . import bounds, kinds, operator, problems, recorded  # noqa: F401
