"""Operators by an index, replaced by msda_replay.torch: their bits on a GPU and on the CPU, on random problems, under
torch.use_deterministic_algorithms(True).

    python3 by_index.py bits --problems N    a line for each operator: NAME, how many problems, how many of other bits than the CPU's
    python3 by_index.py repeat --runs N      a line for each operator: NAME, how many digests N runs of one problem gave
    python3 by_index.py graph                a line for each operator: NAME, and whether a CUDA graph and a compiled function give its bits

NaN count as equal whatever their bits."""

import argparse
import hashlib
import random

import torch

from msda_replay.torch import deterministic

F, aten = torch.nn.functional, torch.ops.aten
TYPES = (torch.float32, torch.float32, torch.float16, torch.bfloat16, torch.float64)


class Problem:
    """Draws sizes, types and tensors from a seed, on the CPU."""

    def __init__(self, seed, large=False):
        self.draw, self.generator, self.large = random.Random(seed), torch.Generator().manual_seed(seed), large
        self.dtype = self.draw.choice(TYPES)

    def size(self, most):
        return most * 4 if self.large else self.draw.randint(1, most)

    def chance(self):
        return self.draw.random() < 0.3

    def numbers(self, *shape):
        """Normal ones, some of them strange."""
        found = torch.randn(shape, generator=self.generator).to(self.dtype)
        if self.draw.random() < 0.2 and found.numel():
            found.view(-1)[:: self.draw.randint(3, 9)] = self.draw.choice([float("nan"), float("inf"), -0.0, 1e-40])
        return found

    def below(self, most, *shape):
        return torch.randint(most, shape, generator=self.generator)


def pooled(axes, pool, backward):
    """A call of the backward pass, of the indices that the forward pass gives on the CPU."""

    def make(p):
        input = p.numbers(2, p.size(5), *(p.size(14) + 2 for _ in range(axes))).float()
        output, indices, more = pool(p, input)
        input, grad_output = input.to(p.dtype), p.numbers(*output.shape)
        if p.chance():
            layout = torch.channels_last if axes == 2 else torch.channels_last_3d
            input, indices, grad_output = (tensor.contiguous(memory_format=layout) for tensor in (input, indices, grad_output))
        return lambda grad, x, i: backward(grad, x, *more, i), (grad_output, input, indices)

    return make


def max_pool3d(p, input):
    kernel = [p.draw.randint(1, min(side, 5)) for side in input.shape[2:]]
    more = kernel, [p.draw.randint(1, 3) for _ in kernel], [size // 2 for size in kernel], [1] * 3, p.chance()
    return (*F.max_pool3d(input, *more, return_indices=True), more)


def adaptive_max_pool(axes):
    def pool(p, input):
        outputs = [p.draw.randint(1, side + 3) for side in input.shape[2:]]
        return (*(F.adaptive_max_pool2d if axes == 2 else F.adaptive_max_pool3d)(input, outputs, return_indices=True), ())

    return pooled(axes, pool, aten.adaptive_max_pool2d_backward if axes == 2 else aten.adaptive_max_pool3d_backward)


def fractional_max_pool(axes):
    def pool(p, input):
        kernel = [p.draw.randint(1, side - 1) for side in input.shape[2:]]
        outputs = [p.draw.randint(1, side - size) for side, size in zip(input.shape[2:], kernel)]
        samples = torch.rand(2, input.shape[1], axes, generator=p.generator)
        forward = F.fractional_max_pool2d if axes == 2 else F.fractional_max_pool3d
        return (*forward(input, kernel, outputs, return_indices=True, _random_samples=samples), (kernel, outputs))

    return pooled(axes, pool, aten.fractional_max_pool2d_backward if axes == 2 else aten.fractional_max_pool3d_backward)


def max_unpool(p):
    shape, side = (2, p.size(4), p.size(9), p.size(9)), p.size(16)
    return lambda x, i: aten.max_unpool2d(x, i, [side, side]), (p.numbers(*shape), p.below(side * side, *shape))


def put(p):
    count, accumulate = p.size(200), p.chance()
    to = p.numbers(p.size(9), p.size(9))
    index = p.below(2 * to.numel(), count) - to.numel()
    return lambda to, i, s: aten.put(to, i, s, accumulate), (to, index, p.numbers(count))


def bincount(p):
    count = p.size(3000)
    return torch.bincount, (p.below(p.size(40), count), p.numbers(count))


def histc(p):
    input = torch.randn(p.size(3000), generator=p.generator, dtype=p.draw.choice([torch.float32, torch.float64]))
    bins, limits = p.draw.randint(1, 60), p.draw.choice([(0, 0), (-1, 1.5)])
    return lambda x: torch.histc(x, bins, *limits), (input,)


def embedding_bag(p):
    rows, channels, bags = p.size(9), p.size(20), p.size(40)
    index, chosen = p.below(rows, bags), p.below(rows, bags, channels)  # bags of one, or what larger ones would have chosen
    sizes, numbers = torch.ones(bags, dtype=torch.int64), torch.arange(bags)
    call = lambda grad, i, bag, size, most: aten._embedding_bag_dense_backward(grad, i, bag, size, most, rows, False, 2, None, -1)  # noqa: E731
    return call, (p.numbers(bags, channels), index, numbers, sizes, chosen)


def nll_loss2d(p):
    classes, sides, reduction = p.size(6), (p.draw.randint(1, 3), p.size(60), p.size(60)), p.draw.choice([1, 2])
    weight = torch.rand(classes, generator=p.generator).to(p.dtype)
    return lambda x, t, w: aten.nll_loss2d_forward(x, t, w, reduction, 0), (p.numbers(sides[0], classes, *sides[1:]), p.below(classes, *sides), weight)


def median(name):
    def make(p):
        input, dim = p.numbers(p.size(9), p.size(9), p.size(30)).mul(2).round(), p.draw.randrange(3)
        return lambda x: getattr(torch, name)(x, dim), (input,)

    return make


def scatter_reduce(p):
    rows, count, columns = p.size(6), p.size(60), p.size(4)
    p.dtype = p.draw.choice([torch.float32, torch.float64])
    return lambda to, i, s: to.scatter_reduce(0, i, s, "prod"), (p.numbers(rows, columns), p.below(rows, count, columns), p.numbers(count, columns))


OPERATORS = {
    "max_pool3d": pooled(3, max_pool3d, aten.max_pool3d_with_indices_backward), "adaptive_max_pool2d": adaptive_max_pool(2), "adaptive_max_pool3d": adaptive_max_pool(3),
    "fractional_max_pool2d": fractional_max_pool(2), "fractional_max_pool3d": fractional_max_pool(3), "max_unpool2d": max_unpool, "put_": put,
    "bincount": bincount, "histc": histc, "embedding_bag": embedding_bag, "nll_loss2d": nll_loss2d, "median": median("median"),
    "nanmedian": median("nanmedian"), "scatter_reduce": scatter_reduce}  # fmt: skip
CAPTURED = ("max_pool3d", "nll_loss2d", "max_unpool2d", "put_")  # which wait for nothing


def digest(results):
    found = hashlib.blake2b()
    for result in results if isinstance(results, tuple) else (results,):
        plain = result.cpu().contiguous()
        if plain.is_floating_point():
            plain = torch.where(plain.isnan(), torch.full_like(plain, float("nan")), plain)
        found.update(f"{plain.dtype} {list(plain.shape)}".encode() + plain.reshape(-1).view(torch.uint8).numpy().tobytes())
    return found.hexdigest()


def bits(chosen):
    for name, make in OPERATORS.items():
        unlike = 0
        for seed in range(chosen.problems):
            call, tensors = make(Problem(seed))
            unlike += digest(call(*tensors)) != digest(call(*(tensor.cuda() for tensor in tensors)))
        print(name, chosen.problems, unlike, flush=True)


def repeat(chosen):
    for name, make in OPERATORS.items():
        call, tensors = make(Problem(1, large=True))
        tensors = [tensor.cuda() for tensor in tensors]
        print(name, len({digest(call(*tensors)) for _ in range(chosen.runs)}), flush=True)


def captured(call, tensors):
    """The results of a CUDA graph, after its second launch."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        call(*tensors)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = call(*tensors)
    graph.replay()
    graph.replay()
    return results


def graph(chosen):
    for name in CAPTURED:
        call, tensors = OPERATORS[name](Problem(3, large=True))
        tensors = [tensor.cuda() for tensor in tensors]
        expected = digest(call(*tensors))
        compiled = torch.compile(call, backend="inductor")
        print(name, digest(captured(call, tensors)) == expected, digest(compiled(*tensors)) == expected, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["bits", "repeat", "graph"])
    parser.add_argument("--problems", type=int, default=500)
    parser.add_argument("--runs", type=int, default=1000)
    chosen = parser.parse_args()
    torch.use_deterministic_algorithms(True)
    with deterministic(("cuda", "cpu")):
        {"bits": bits, "repeat": repeat, "graph": graph}[chosen.what](chosen)


if __name__ == "__main__":
    main()
