"""What tools/gpu-check runs: a file for each group of checks."""
