"""The operator on a GPU inside msda-replay: the same findings and the same deterministic bits as on the CPU."""

import json
import sys

from .bench import GRADIENTS, SOURCE, Skip, expect, tail
from .registry import check

MODES = ("--mode", "deterministic,atomic,float64")
DRAWN = ("atomic", "original")  # sides whose order is left to chance


def run(bench, capture, *arguments, expected=(0, 1, 2)):
    """Returns the exit status, 2 of a call with nothing to compare, and what msda-replay run found."""
    done = bench.replay("run", capture, "--json", "-", *arguments, expected=expected)
    found = json.loads(done.stdout)
    expect((done.returncode == 2) == (not found["verdict"]["compared"]), f"exit status {done.returncode}")
    return done.returncode, found


def same_everywhere(result):
    """Returns what a result has that must not depend on the device."""
    calls = []
    for call in result["invocations"]:
        kept = {name: call[name] for name in ("id", "findings", "verdict", "tolerance", "altered")}
        kept["digests"] = {mode: one for mode, one in call["digests"].items() if mode not in DRAWN}
        kept["comparisons"] = [one for one in call["comparisons"] if not {one["observed"], one["expected"]} & set(DRAWN)]
        for gradient in ("grad_sampling_locations", "grad_attention_weights"):  # which no atomics reach
            kept["atomic " + gradient] = call["digests"].get("atomic", {}).get(gradient)
        calls.append(kept)
    return {"verdict": result["verdict"], "calls": calls}


def devices_of(result, side=None):
    return {device for call in result["invocations"] for name, devices in call["devices"].items() for device in devices
            if side in (None, name)}


def compared(bench, capture, *arguments, device="cuda", expected_devices=None):
    """Returns the result on the GPU; Failed unless it is the CPU's."""
    cpu_status, cpu = run(bench, capture, *MODES, "--device", "cpu", *arguments)
    status, gpu = run(bench, capture, *MODES, "--device", device, *arguments)
    expect(devices_of(cpu) == {"cpu"}, f"--device cpu ran on {devices_of(cpu)}")
    expect("cpu" not in devices_of(gpu), f"--device {device} ran on {devices_of(gpu)}")
    expect(expected_devices is None or devices_of(gpu) == expected_devices, f"ran on {devices_of(gpu)}, not {expected_devices}")
    expect(status == cpu_status, f"exit status {status}, on the CPU {cpu_status}")
    one, other = same_everywhere(gpu), same_everywhere(cpu)
    for mine, theirs in zip(one["calls"], other["calls"]):
        for name in mine:
            expect(mine[name] == theirs[name], f"{capture.name}, invocation {mine['id']}: {name} are not those of the CPU: "
                   f"{json.dumps(mine[name])[:200]}, not {json.dumps(theirs[name])[:200]}")
    expect(one == other, f"{capture.name}: {gpu['verdict']}, on the CPU {cpu['verdict']}")
    return gpu


def found(results):
    calls = [call for result in results for call in result["invocations"]]
    return f"{len(calls)} calls", f"{sum(len(call['findings']) for call in calls)} findings, the same"


def gpu_count():
    import ctypes

    count = ctypes.c_int(0)
    ctypes.CDLL("libcuda.so.1").cuDeviceGetCount(ctypes.byref(count))  # which gpu_missing() has started
    return count.value


def support():
    sys.path.insert(0, str(SOURCE / "tests" / "python"))
    from support import problems

    return problems


def real_captures(bench):
    """tests/data, as captures."""
    import numpy as np
    from msda_replay import write_capture
    from msda_replay.importer import import_case

    paths = []
    for path in sorted((SOURCE / "tests" / "data").glob("*.npz")):
        paths.append(bench.folder() / f"{path.stem}.h5")
        if path.stem == "h200_elements":
            with np.load(path) as archive:
                elements = {name: archive[name] for name in archive.files}
            write_capture(paths[-1], [support().element_invocation(elements, i) for i in range(len(elements["source"]))])
        else:
            import_case(path, paths[-1])
    return paths


def made_capture(bench, seed, count=1, noise=1e-4, **sizes):
    """Calls whose outputs are exact values with noise, and one wrong element, in every dialect and type in turn."""
    import numpy as np
    from msda_replay import Invocation, write_capture

    rng, calls = np.random.default_rng(seed), []
    for number in range(count):
        dtype = (np.float32, np.float16, np.float64)[number % 3]
        dialect, padding, align = (("deformable_detr", "zeros", False), ("msda_triton", "zeros", False),
                                   ("msda_triton", "border", True), ("grid_sample", "border", False))[number % 4]
        inputs = support().make_problem(rng, dtype=dtype, **sizes)
        if "queries" in sizes and sizes["queries"] > 1000:  # too many for the slow exact computation
            outputs = {}
        else:
            outputs = support().backward(inputs, padding, align)
            for array in outputs.values():
                array += noise * rng.standard_normal(array.shape)
            outputs["grad_value"].flat[int(rng.integers(outputs["grad_value"].size))] += 1
        calls.append(Invocation(inputs, {name: array.astype(dtype) for name, array in outputs.items()}, dialect,
                                padding_mode=padding, align_corners=align, atol=1e-4, rtol=1e-4, kernel="made"))
    path = bench.folder() / f"made{seed}.h5"
    write_capture(path, calls)
    return path


@check("devices", "msda-replay run on the GPU and on the CPU: findings, causes, deterministic digests", ["h5py"])
def devices(bench):
    yield "tests/data", lambda: found([compared(bench, capture) for capture in real_captures(bench)])

    def made():
        sizes = [dict(), dict(batch=3, heads=4, channels=33), dict(batch=2, heads=3, channels=1, points=5),
                 dict(heads=8, channels=32, queries=100, levels=((17, 13), (9, 7), (5, 3), (1, 1)))]
        captures = [made_capture(bench, seed, 12, **size) for seed, size in enumerate(sizes)]
        return found([compared(bench, capture, "--repeat", 3) for capture in captures])

    yield "every dialect and type", made

    def in_parts():
        capture = made_capture(bench, 9, 12, batch=3, heads=4, channels=16)
        one_head = lambda size: compared(bench, capture, "--device-memory", size)  # noqa: E731
        results = [one_head(size) for size in ("300KiB", "1MiB", "64MiB")]
        done = bench.replay("run", capture, *MODES, "--device", "cuda", "--device-memory", 1000, expected=(3,))
        expect("one head of one batch needs" in done.stderr and done.stderr.count("\n") == 1, tail(done.stderr))
        status, auto = run(bench, capture, *MODES, "--device", "auto", "--device-memory", 1000)
        expect(devices_of(auto) == {"cpu"}, f"auto ran on {devices_of(auto)} without the memory")
        expect("one head" in auto["invocations"][0]["moved_to_cpu"]["deterministic"], "the reason is missing")
        expect(same_everywhere(auto) == same_everywhere(results[0]), "auto found something else")
        return found(results)[0], tail(done.stderr)

    yield "--device-memory", in_parts

    def mixed():
        capture = made_capture(bench, 10, 4, batch=2, heads=2)
        flags = ("--mode", "mixed", "--float64-stages", "pixel_coordinates,cell")
        status, cpu = run(bench, capture, *flags, "--device", "cpu")
        auto_status, auto = run(bench, capture, *flags, "--device", "auto")
        expect(status == auto_status and same_everywhere(auto) == same_everywhere(cpu), "auto found something else")
        done = bench.replay("run", capture, *flags, "--device", "cuda", "--json", "-", expected=(0, 1, 3))
        if done.returncode == 3:
            expect(done.stderr.count("\n") == 1 and "mixed" in done.stderr, tail(done.stderr))
            expect(devices_of(auto, "mixed") == {"cpu"}, f"auto ran it on {devices_of(auto, 'mixed')}")
            return "on the CPU", tail(done.stderr)
        expect(same_everywhere(json.loads(done.stdout)) == same_everywhere(cpu), "cuda found something else")
        return "on the GPU"

    yield "mode mixed", mixed

    def several():
        count = gpu_count()
        if count < 2:
            raise Skip("one GPU")
        every = {f"cuda:{number}" for number in range(count)}
        large = made_capture(bench, 11, 1, batch=2, heads=8, channels=32, queries=5000, points=4,
                             levels=((100, 134), (50, 67), (25, 34), (13, 17)))
        # Enough runs that each GPU gets some, although starting takes time.
        _, all_of_them = run(bench, large, *MODES, "--device", "cuda", "--repeat", 100 * count)
        expect(devices_of(all_of_them) == every, f"ran on {devices_of(all_of_them)}, not {every}")
        repeats = all_of_them["invocations"][0]["repeats"]["deterministic"]
        expect(all(repeats[name]["distinct"] == 1 for name in GRADIENTS), f"deterministic gave {repeats}")
        last = f"cuda:{count - 1}"
        one = compared(bench, large, device=last, expected_devices={last})
        expect(same_everywhere(one) == same_everywhere(all_of_them), "one GPU and all of them differ")
        done = bench.replay("run", large, "--device", f"cuda:{count}", expected=(3,))
        expect(f"there is no device {count}" in done.stderr, tail(done.stderr))
        captures = real_captures(bench)
        for capture in captures:
            compared(bench, capture, "--repeat", 4)
            compared(bench, capture, device=last, expected_devices={last})
        return f"{count} GPUs", f"atomic on {len(devices_of(all_of_them, 'atomic'))} of them"

    yield "several GPUs", several
