"""A program of three processes, each of which makes a call that msda-record records (tools/package/use)."""

import multiprocessing

import numpy as np

from msda_replay import cpu


def call(seed):
    rng = np.random.default_rng(seed)
    cpu.backward(
        value=rng.normal(size=(1, 20, 2, 4)),
        spatial_shapes=np.array([(4, 4), (2, 2)]),
        sampling_locations=rng.random(size=(1, 3, 2, 2, 1, 2)),
        attention_weights=rng.random(size=(1, 3, 2, 2, 1)),
        grad_output=rng.random(size=(1, 3, 2, 4)),
        dialect="deformable_detr",
        padding_mode="zeros",
    )


if __name__ == "__main__":
    call(0)
    context = multiprocessing.get_context("fork")
    children = [context.Process(target=call, args=(seed,)) for seed in (1, 2)]
    for child in children:
        child.start()
    for child in children:
        child.join()
    assert [child.exitcode for child in children] == [0, 0]
