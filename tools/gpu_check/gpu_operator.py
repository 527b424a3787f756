"""libmsda on the GPU against libmsda on the CPU: bit for bit, and atomic additions within their bound."""

from .bench import Skip, expect, tail
from .registry import check

LIMIT_S = 600


@check("operator", "libmsda's functions for a GPU against those for the CPU, bit for bit", ["numpy"])
def operator(bench):
    def part(target, name):
        library = bench.record_program.parent.parent / "lib" / "libmsda.so"
        if not library.exists():
            raise Skip(f"no {library}")
        done = bench.run(bench.target(target, "--library", library, "--part", name), expected=(0, 1), limit=LIMIT_S)
        last = done.stdout.strip().splitlines()[-1:]
        expect(last and last[0].startswith((f"{name}: ", "skipped: ")), f"ended with {done.returncode}: {tail(done.stderr)}")
        expect(done.returncode == 0, tail(done.stdout))
        _, text = last[0].split(": ", 1)
        if "skipped: " in last[0]:
            raise Skip(text.removeprefix("skipped: "))
        return "", text

    for name in ("modes", "atomic", "stages", "repeat", "large", "devices"):
        yield name, lambda name=name: part("operator_bits", name)
    for name in ("threads", "streams", "capture", "reset"):
        yield f"enqueued, {name}", lambda name=name: part("enqueue_bits", name)
    for name in ("modes", "atomic", "repeat"):
        yield f"grid_sample, {name}", lambda name=name: part("grid_bits", name)
    for operator, target in (("scatter_add", "scatter_bits"), ("interpolate", "interpolate_bits"), ("roi_align", "roi_align_bits")):
        for name in ("modes", "repeat"):
            yield f"{operator}, {name}", lambda target=target, name=name: part(target, name)
