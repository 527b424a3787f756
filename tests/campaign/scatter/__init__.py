"""What operators that scatter have in common: sources that add, channel by channel, numbers times factors to targets of one gradient."""

from . import bounds, kinds, numbers, operator  # noqa: F401
