"""Multi-scale deformable attention."""

from . import bounds, kinds, operator, problems  # noqa: F401
