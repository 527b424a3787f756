"""The parts of gpu_bench.py. problems, report and svg need neither PyTorch nor a GPU."""
