"""The parts of gpu_bench.py, grid_bench.py, replaced_bench.py and scatter_bench.py. problems, program, report and svg need neither PyTorch nor a GPU."""
