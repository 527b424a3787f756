"""Damaged files of every kind that the commands read, and what they say of them: tests/damaged_files.py."""
