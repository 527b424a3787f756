"""Plots of captures and findings. Each returns a matplotlib Figure, which a notebook shows and `figure.savefig` saves."""

from .cell import plot_cell
from .errors import plot_errors
from .pyramid import plot_pyramid

__all__ = ["plot_cell", "plot_errors", "plot_pyramid"]
