"""Mode original: recorded machine code, launched again by msda-replay."""

import json
import shutil

from .bench import expect, invocations_of, tail
from .kernels import SCALE_ADD, VARIANTS, variant_of
from .registry import check
from .speed import ROW_1

REPEAT = 200
FIRST_RESULT_LIMIT_S, RUNS_A_SECOND, LAUNCH_MS = 1.0, 1000, 0.25


def relaunched(bench, capture, *options):
    """By invocation number: the result of mode original, and the kernel."""
    done = bench.replay("run", capture, "--mode", "original", "--repeat", REPEAT, "--json", "-", *options, expected=(0, 1))
    told = json.loads(done.stdout)
    found = {one["id"]: (one["original"], one["kernel"]) for one in told["invocations"] + told.get("relaunched", [])}
    expect(found, f"no invocation was launched again: {tail(done.stderr)}")
    return found


def expect_sane(original):
    expect(original["runs"] == REPEAT, f"{original['runs']} runs")
    expect(0 < original["launch_ms"] < 1000, f"a launch takes {original['launch_ms']} ms")
    expect(0 < original["runs_per_s"] < 1e6, f"{original['runs_per_s']} runs a second")
    for name, tensor in original["tensors"].items():
        expect((tensor["distinct"] > 1) == (tensor["varying"] > 0), f"{name}: {tensor['distinct']} results, {tensor['varying']} vary")
        for one in tensor["widest"]:
            expect(not one["highest"] < one["lowest"], f"{name}: from {one['lowest']} to {one['highest']}")


def expect_the_recorded(original, order_dependent=()):
    """Checks that every run gave the recorded bits, except in tensors whose order of summation the hardware chooses."""
    expect_sane(original)
    for name, tensor in original["tensors"].items():
        if name in order_dependent:
            continue
        expect(tensor["recorded_among_them"] and tensor["distinct"] == 1,
               f"{name}: {tensor['distinct']} results, recorded_among_them {tensor['recorded_among_them']}, "
               f"{tensor.get('first_against_recorded')}")


def all_as_recorded(bench, recording, order_dependent=()):
    """Returns the results of mode original for each invocation of a finished recording, checked to give these bits."""
    done, capture = recording
    calls = invocations_of(capture, done)
    found = [one for one, _ in relaunched(bench, capture).values()]
    expect(len(found) == len(calls) > 0, f"{len(found)} of {len(calls)} are launched again")
    for one in found:
        expect_the_recorded(one, order_dependent)
    return found


def told(originals, name="grad_value"):
    """Returns a figure and a note of some launches."""
    results = [one["tensors"][name]["distinct"] for one in originals if name in one["tensors"]]
    spread = max((one["tensors"][name]["spread"] for one in originals if name in one["tensors"]), default=0)
    rate = min(one["runs_per_s"] for one in originals)
    return (f"{len(originals)} launches as recorded",
            f"{name}: {min(results, default=0)} to {max(results, default=0)} results, spread {spread}; {rate:.0f} runs a second at least")


@check("original", "recorded machine code launched again: six variants, three types, blocks, faults, speed", ["nvcc"])
def original(bench):
    program = bench.program("col2im17")
    captures = {}

    def recorded(kind, *options):
        if (kind, options) not in captures:
            done, capture = bench.record([program, "--variant", "all", "--type", kind, "--seed", "5", *options])
            expect(len(invocations_of(capture, done)) == len(VARIANTS), f"not all is recorded: {tail(done.stderr)}")
            captures[kind, options] = capture
        return captures[kind, options]

    for kind in ("float", "double", "half"):
        def parallel(kind=kind):
            found = [one for one, _ in relaunched(bench, recorded(kind)).values()]
            expect(len(found) == len(VARIANTS), f"{len(found)} of {len(VARIANTS)} are launched again")
            for one in found:
                expect_the_recorded(one, ["grad_value"])
            return told(found)

        def ordered(kind=kind):  # launched in one thread, everything has the recorded bits
            found = [one for one, _ in relaunched(bench, recorded(kind, "--ordered")).values()]
            for one in found:
                expect_the_recorded(one)
            return told(found)

        yield f"{kind}, all threads", parallel
        yield f"{kind}, one thread", ordered

    def in_other_blocks():
        capture = recorded("float")
        number = next(i for i, (_, kernel) in relaunched(bench, capture).items() if variant_of(kernel) == "gm")
        for block in (32, 256):
            ((one, _),) = relaunched(bench, capture, "--invocation", number, "--block", block).values()
            expect(one["block"] == [block, 1, 1] and one["changed"], f"block {one['block']}")
            expect_the_recorded(one, ["grad_value"])
        return "gm in blocks of 32 and 256", one["changed"]

    yield "--block", in_other_blocks

    def faults():
        import h5py

        def damaged(name, change):
            capture = bench.folder() / f"{name}.h5"
            shutil.copy(recorded("float"), capture)
            with h5py.File(capture, "r+") as file:
                change(file)
            done = bench.replay("run", capture, "--invocation", 0, "--mode", "original", expected=(3,))
            expect(done.stderr.count("\n") == 1 and not done.stdout, f"more than a line: {tail(done.stderr)}")
            return done.stderr.strip()

        def older(file):
            for kernel in file["kernels"].values():
                kernel.attrs["architecture"] = "sm_50"

        def no_code(file):
            for kernel in file["kernels"].values():
                if "image" in kernel:  # not in the groups of its other functions
                    kernel["image"][-64:] = 0

        def heads(file):  # a million of them: the kernel reads far beyond its tensors
            parameters = file["invocations/000000/parameters"]
            at = parameters.attrs["offsets"][9]
            parameters[at:at + 4] = [0, 0, 16, 0]

        expect("its machine code is for sm_50" in damaged("older", older), "another architecture is not reported")
        expect("its digest differs" in damaged("no_code", no_code), "damaged code is not reported")
        line = damaged("heads", heads)
        expect("CUDA error" in line, f"a kernel that goes astray: {line}")
        return "3 told in a line", line

    yield "faults", faults

    def speed():
        done, capture = bench.record([program, "--type", "float", "--seed", "5", *ROW_1])
        invocations_of(capture, done)
        ((one, _),) = relaunched(bench, capture).values()
        expect_the_recorded(one, ["grad_value"])
        text = f"{one['launch_ms']:.3f} ms a launch, the first after {one['first_result_s']:.2f} s"
        # Proportionally fewer for a longer launch.
        wanted = RUNS_A_SECOND * min(1.0, LAUNCH_MS / one["launch_ms"])
        expect(one["runs_per_s"] >= wanted, f"{one['runs_per_s']:.0f} runs a second, limit {wanted:.0f}; {text}")
        expect(one["first_result_s"] <= FIRST_RESULT_LIMIT_S, f"{text}, limit {FIRST_RESULT_LIMIT_S} s")
        return f"{one['runs_per_s']:.0f} runs a second", text

    yield "speed", speed

    def user_kernel():
        adapter = bench.folder() / "scale_add.json"
        adapter.write_text(json.dumps(SCALE_ADD))
        return told(all_as_recorded(bench, bench.record([bench.program("scale_add")], ["--adapter", adapter])), "y")

    yield "a user's kernel, in clusters", user_kernel


@check("original-torch", "PyTorch's grid_sample backward in 2D and 3D, launched again", ["torch"])
def original_torch(bench):
    for axes in (2, 3):
        def grid_sample(axes=axes):
            recording = bench.record(bench.target("grid_sample", "--axes", axes))
            return told(all_as_recorded(bench, recording, ["grad_input"]), "grad_input")

        yield f"grid_sample, {axes}D", grid_sample


@check("original-triton", "msda-triton's backward, launched again, by other variants too", ["torch", "triton", "msda_triton"])
def original_triton(bench):
    settings = {"TRITON_CACHE_DIR": bench.folder(), "limit": 300}
    done, capture = bench.record(bench.target("msda"), **settings)

    def as_recorded():
        return told(all_as_recorded(bench, (done, capture), ["grad_value"]))

    def by_another():
        import h5py

        with h5py.File(capture, "r") as file:
            mine = file["invocations/000000"].attrs["kernel_digest"]
            others = sorted(set(file["kernels"]) - {mine})  # of other conventions and types as well
        notes = []
        for digest in others[:4]:
            done = bench.replay("run", capture, "--invocation", 0, "--kernel-digest", digest, "--json", "-", expected=(0, 1, 3))
            if done.returncode == 3:
                expect(done.stderr.count("\n") == 1, tail(done.stderr))
                notes.append(done.stderr.strip().rsplit(": ", 1)[-1])
                continue
            one = json.loads(done.stdout)["invocations"][0]["original"]
            expect(one["kernel_digest"] == digest and one["changed"], "another code was launched")
            different = {name: tensor["first_against_recorded"]["different"] for name, tensor in one["tensors"].items()}
            notes.append(f"block {one['block'][0]}: {different}")
        return f"{len(others)} variants", "; ".join(notes)

    yield "four conventions, two types", as_recorded
    yield "--kernel-digest", by_another
