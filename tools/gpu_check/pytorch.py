"""PyTorch's own kernels and generators: grid_sample's backward, operators that scatter, seeds."""

from .bench import expect, invocations_of, same, saved_tensors, tail
from .kernels import expect_explained
from .registry import check
from .scatter import random_problems

PADDINGS, INTERPOLATIONS = ("zeros", "border", "reflection"), ("bilinear", "nearest")


@check("grid-sample", "PyTorch's grid_sample backward, 2D and 3D: layouts, types, paddings, align_corners", ["torch"])
def grid_sample(bench):
    for axes in (2, 3):
        yield from of_kernel(bench, axes)


def of_kernel(bench, axes):
    done, capture, saved_in = bench.outcome_kept(bench.target("grid_sample", "--axes", axes), unstable=["grad_input"])
    saved, calls = list(saved_tensors(saved_in).items()), invocations_of(capture, done)

    def count():
        expect(len(calls) == len(saved), f"{len(calls)} invocations are recorded, {len(saved)} were launched")
        for call in calls:
            expect(f"grid_sampler_{axes}d_backward_kernel" in call.kernel, f"another kernel: {call.kernel}")
        return f"{len(calls)} calls"

    yield f"{axes}D, every call once", count
    groups = {}
    for call, (name, real) in zip(calls, saved):
        groups.setdefault("-".join(name.split("-")[1:3]), []).append((call, name, real))
    for group, members in groups.items():
        yield f"{axes}D, {group}", lambda members=members: as_saved(members)
    yield f"{axes}D, explained", lambda: expect_explained(bench, capture)


def as_saved(members):
    for call, name, real in members:
        for tensor, array in {**call.inputs, **call.outputs}.items():
            same(array, real[tensor], f"{name}: {tensor}")
        expect(len(call.inputs) + len(call.outputs) == 5, f"{name}: not all five tensors are recorded")
        padding, align, interpolation = map(int, name.rsplit("-", 1)[1])
        facts = (call.facts["padding_mode"], int(call.facts["align_corners"]), call.facts["interpolation"])
        expect(facts == (PADDINGS[padding], align, INTERPOLATIONS[interpolation]), f"{name}: {facts}")
    return f"{len(members)} calls"


@check("scatter", "sums of rows, interpolate's and roi_align's backward passes: calls, tensors, explanations, orders", ["torch"])
def scatter(bench):
    """The order of atomic additions changes results, but not from what the recorder saw to what the program has."""
    done, capture, saved_in = bench.outcome_kept(bench.target("scatter"), unstable=["result"])
    saved, calls = list(saved_tensors(saved_in).items()), invocations_of(capture, done)

    def count():
        kernels = [call.kernel[-60:] for call in calls]
        expect(len(calls) == len(saved), f"{len(calls)} calls are recorded, {len(saved)} were launched: {tail(done.stderr)}; {kernels[:4]}")
        return f"{len(calls)} calls"

    yield "every call once", count
    groups = {}
    for call, (name, real) in zip(calls, saved):
        groups.setdefault(name.split("-")[1], []).append((call, name, real["result"]))
    for group, members in groups.items():
        yield group, lambda members=members: results_as_saved(members)
    yield "explained", lambda: expect_explained(bench, capture)
    yield from random_problems(bench)


def results_as_saved(members):
    """Sums that end with the largest index are shorter than the program's; batches and channels may be one number."""
    for call, name, real in members:
        ((_, recorded),) = call.outputs.items()
        rows = real.reshape(-1)[: recorded.size]
        same(recorded.reshape(-1), rows, name)
        whole = "embedding" in name or "index_put" in name
        expect(whole or recorded.size == real.size, f"{name}: {recorded.size} of {real.size} elements are recorded")
    return f"{len(members)} calls"


@check("seeds", "torch.manual_seed(42) in the capture, the generators as without the recorder", ["torch"])
def seeds(bench):
    def seen():
        from msda_replay import read_capture

        done, capture, _ = bench.outcome_kept(bench.target("seeds"), saves=False)
        invocations_of(capture, done)
        rows = {(seed["source"], int(seed["value"])) for seed in read_capture(capture).run.get("seeds", [])}
        for source in ("torch_cpu", "torch_cuda"):
            expect((source, 42) in rows, f"no row {source} 42 in /run/seeds, which has {sorted(rows)[:6]}")
        return f"{len(rows)} different seeds"

    yield "torch.manual_seed(42)", seen
