"""Results of `msda-replay run` on different devices, compared: what must not depend on the device, and calls to compare."""

import json

import numpy as np
from conftest import DATA
from support.problems import backward, element_invocation, make_problem

from msda_replay import Invocation, write_capture
from msda_replay.importer import import_case

MODES = ("--mode", "deterministic,atomic,float64")
DRAWN = ("atomic", "original")  # sides whose order is left to chance


def run(programs, capture, *arguments, expected=(0, 1, 2)):
    """Returns the exit status, 2 of a call with nothing to compare, and what msda-replay run found."""
    done = programs.replay("run", capture, "--json", "-", *arguments, expected=expected)
    found = json.loads(done.stdout)
    assert (done.returncode == 2) == (not found["verdict"]["compared"])
    return done.returncode, found


def same_everywhere(result):
    """Returns what a result has that must not depend on the device."""
    calls = []
    for call in result["invocations"]:
        kept = {name: call[name] for name in ("id", "findings", "verdict", "tolerance", "altered")}
        kept["digests"] = {mode: digests for mode, digests in call["digests"].items() if mode not in DRAWN}
        kept["comparisons"] = [pair for pair in call["comparisons"] if not {pair["observed"], pair["expected"]} & set(DRAWN)]
        for gradient in ("grad_sampling_locations", "grad_attention_weights"):  # which no atomics reach
            kept["atomic " + gradient] = call["digests"].get("atomic", {}).get(gradient)
        calls.append(kept)
    return {"verdict": result["verdict"], "calls": calls}


def devices_of(result, side=None):
    return {device for call in result["invocations"] for name, devices in call["devices"].items() for device in devices
            if side in (None, name)}


def compare(programs, capture, *arguments, device="cuda", expected_devices=None):
    """Returns the result on the GPU, which must be the CPU's."""
    cpu_status, cpu = run(programs, capture, *MODES, "--device", "cpu", *arguments)
    status, gpu = run(programs, capture, *MODES, "--device", device, *arguments)
    assert devices_of(cpu) == {"cpu"} and "cpu" not in devices_of(gpu)
    assert expected_devices in (None, devices_of(gpu))
    assert status == cpu_status
    assert same_everywhere(gpu) == same_everywhere(cpu), capture.name
    return gpu


def real_captures(folder):
    """Returns tests/data, as captures in a folder."""
    paths = []
    for path in sorted(DATA.glob("*.npz")):
        paths.append(folder / f"{path.stem}.h5")
        if path.stem == "h200_elements":
            with np.load(path) as archive:
                elements = {name: archive[name] for name in archive.files}
            write_capture(paths[-1], [element_invocation(elements, i) for i in range(len(elements["source"]))])
        else:
            import_case(path, paths[-1])
    return paths


def made_capture(folder, seed, count=1, noise=1e-4, **sizes):
    """Returns calls whose outputs are exact values with noise, and one wrong element, in every dialect and type in turn."""
    rng, calls = np.random.default_rng(seed), []
    for number in range(count):
        dtype = (np.float32, np.float16, np.float64)[number % 3]
        dialect, padding, align = (("deformable_detr", "zeros", False), ("msda_triton", "zeros", False),
                                   ("msda_triton", "border", True), ("grid_sample", "border", False))[number % 4]
        inputs = make_problem(rng, dtype=dtype, **sizes)
        outputs = {}
        if sizes.get("queries", 0) <= 1000:  # more are too many for the slow exact computation
            outputs = backward(inputs, padding, align)
            for array in outputs.values():
                array += noise * rng.standard_normal(array.shape)
            outputs["grad_value"].flat[int(rng.integers(outputs["grad_value"].size))] += 1
        calls.append(Invocation(inputs, {name: array.astype(dtype) for name, array in outputs.items()}, dialect,
                                padding_mode=padding, align_corners=align, atol=1e-4, rtol=1e-4, kernel="made"))
    path = folder / f"made{seed}.h5"
    write_capture(path, calls)
    return path
