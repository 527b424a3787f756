"""What tools/bench/recording_cost.py measures with."""
