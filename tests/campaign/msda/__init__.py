"""Multi-scale deformable attention."""

from . import bounds, kinds, operator, problems, recorded  # noqa: F401
