"""Compares libmsda's functions for a GPU with those for the CPU, bit for bit, by its C ABI, on random calls of every operator."""
