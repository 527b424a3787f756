"""Damaged files of every kind that the commands read, and what they say of them: tools/bench/damaged_files.py."""
