"""The backward pass of torchvision's roi_align."""

from ..scatter import bounds, operator  # noqa: F401
from . import kinds, problems, recorded  # noqa: F401
