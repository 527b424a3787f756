"""The campaign of tests/campaign.py. It shares no code with the project: it writes captures with h5py by docs/capture-format.md,
computes gradients and bounds with NumPy from the operators' definitions (a folder each), and reads what `msda-replay run --json -` prints."""
