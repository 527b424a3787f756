"""A program that uses h5py of its own while its calls are recorded."""

import tempfile

import h5py
from common import as_array, backward, make, show

with tempfile.TemporaryDirectory() as folder:
    path = f"{folder}/own.h5"
    for seed in range(5):
        grad_grid = backward(*make(seed))[1]
        with h5py.File(path, "a") as file:
            file.create_dataset(f"{seed}/grad_grid", data=as_array(grad_grid), compression="gzip")
        with h5py.File(path, "r") as file:
            assert (file[f"{seed}/grad_grid"][()] == as_array(grad_grid)).all()
            print(seed, len(file), flush=True)
        show(f"{seed}", grad_grid)
