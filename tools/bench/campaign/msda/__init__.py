"""Multi-scale deformable attention."""
