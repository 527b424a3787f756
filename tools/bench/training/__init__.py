"""What tools/bench/training_steps.py measures with."""
