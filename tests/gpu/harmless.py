"""Deterministic programs that a survey could change if it were careless. Prints one line of JSON: what they computed, to the last bit.

    python3 harmless.py NAME

Exit status 77, with the reason on standard error, where PyTorch, Triton or a GPU is missing.
"""

import os
import pathlib
import sys
import tempfile
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools" / "bench"))

import clients  # noqa: E402 (after the path)


def net(torch, width=256):
    torch.manual_seed(3)
    return torch.nn.Sequential(torch.nn.Linear(width, 4 * width), torch.nn.GELU(), torch.nn.LayerNorm(4 * width), torch.nn.Dropout(0.1),
                               torch.nn.Linear(4 * width, width)).cuda()


def batch(torch, seed=1, width=256):
    return torch.randn(64, width, generator=torch.Generator().manual_seed(seed)).cuda()


def train(torch, model, optimizer, steps=5):
    x = batch(torch)
    for _ in range(steps):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
    return list(model.parameters())


def adamw_fused(torch):
    model = net(torch)
    return train(torch, model, torch.optim.AdamW(model.parameters(), fused=True))


def adamw_foreach(torch):
    model = net(torch)
    return train(torch, model, torch.optim.AdamW(model.parameters(), foreach=True))


def many_small(torch):
    """Optimizers of many tensors: their kernels take tables of pointers."""
    torch.manual_seed(4)
    model = torch.nn.ModuleList(torch.nn.Linear(17, 13) for _ in range(200)).cuda()
    optimizers = [torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, foreach=True), torch.optim.Adam(model.parameters(), fused=True)]
    x = batch(torch)[:, :17]
    for step in range(6):
        model.zero_grad()
        sum(layer(x).square().mean() for layer in model).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)
        optimizers[step % 2].step()
    return list(model.parameters())


def batched_lu(torch):
    """Tables of pointers in device memory."""
    a = torch.randn(300, 24, 24, generator=torch.Generator().manual_seed(2)).cuda()
    b = torch.randn(300, 24, 3, generator=torch.Generator().manual_seed(3)).cuda()
    lu, pivots = torch.linalg.lu_factor(a)
    solved, inverse = torch.linalg.solve(a, b), torch.linalg.inv(a)
    q, r = torch.linalg.qr(a)
    low = torch.linalg.cholesky(a @ a.mT + 24 * torch.eye(24, device="cuda"))
    return [lu, pivots, solved, inverse, q, r, low, torch.linalg.det(a)]


def graphs(torch):
    model, x = net(torch), batch(torch)
    model[3].p = 0.0
    optimizer = torch.optim.AdamW(model.parameters(), capturable=True)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())

    def step():
        optimizer.zero_grad(set_to_none=False)
        model(x).square().mean().backward()
        optimizer.step()

    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    for _ in range(5):
        graph.replay()
        x.add_(0.01)
    return list(model.parameters())


def two_streams(torch):
    """A stream writes beside what another one reads, in one allocation."""
    streams = [torch.cuda.Stream(), torch.cuda.Stream()]
    x = torch.zeros(2, 1 << 20, device="cuda")
    torch.cuda.synchronize()
    weights = torch.randn(1 << 20, generator=torch.Generator().manual_seed(5)).cuda()
    for i in range(200):
        with torch.cuda.stream(streams[i % 2]):
            x[i % 2].mul_(0.99).add_(weights, alpha=1.0 / (i + 1))
    torch.cuda.synchronize()
    return [x]


def two_threads(torch):
    results = [None, None]

    def work(number):
        with torch.cuda.stream(torch.cuda.Stream()):
            y = torch.full((1 << 16,), 1.0 + number, device="cuda")
            for i in range(300):
                y = (y * 1.001).sin() + i % 7
            results[number] = y
            torch.cuda.current_stream().synchronize()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def compiled(torch):
    model, x = net(torch), batch(torch)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    step = torch.compile(lambda: model(x).square().mean())
    for _ in range(4):
        optimizer.zero_grad()
        step().backward()
        optimizer.step()
    return list(model.parameters())


def autotuned(torch):
    import triton
    import triton.language as tl

    @triton.autotune(configs=[triton.Config({"SIZE": size}, num_warps=warps) for size in (256, 1024) for warps in (2, 8)], key=["n"],
                     restore_value=["x"])
    @triton.jit
    def scale(x, n, SIZE: tl.constexpr):
        at = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
        tl.store(x + at, tl.load(x + at, mask=at < n) * 1.01 + 0.25, mask=at < n)

    x = torch.randn(100_001, generator=torch.Generator().manual_seed(6)).cuda()
    for _ in range(10):
        scale[lambda meta: (triton.cdiv(x.numel(), meta["SIZE"]),)](x, x.numel())
    return [x]


def memory_full(torch):
    """Uses nine tenths of the memory, of which a tensor is larger than what is left: copies of it do not fit on the device."""
    free, _ = torch.cuda.mem_get_info()
    large = torch.full((free // 8 // 4,), 0.5, device="cuda")
    rows = int(free * 0.9 - large.nbytes) // (1 << 28)
    blocks = [torch.full((1 << 26,), float(i), device="cuda") for i in range(rows)]
    for i in range(3):
        for block in blocks[:: max(1, rows // 20)]:
            block.mul_(1.5).add_(i)
        large.mul_(1.5)
    return [block[:1000] for block in blocks] + [large[:1000], large[-1000:]]


def pinned(torch):
    """Copies in the background from memory of the host that is written again at once."""
    host = torch.empty(1 << 16, pin_memory=True)
    total = torch.zeros(1 << 16, device="cuda")
    for i in range(100):
        host.fill_(i + 0.5)
        total += host.to("cuda", non_blocking=True).sqrt()
        torch.cuda.synchronize()
    return [total]


def random_numbers(torch):
    torch.manual_seed(11)
    drawn = [torch.randn(1000, device="cuda"), torch.rand(1000, device="cuda"), torch.randperm(5000, device="cuda"),
             torch.multinomial(torch.rand(100, device="cuda"), 50, replacement=True)]
    for _ in range(5):
        drawn.append(torch.nn.functional.dropout(drawn[0], 0.5))
    return drawn


def sorts(torch):
    generator = torch.Generator().manual_seed(12)
    x = torch.randint(0, 1000, (300_000,), generator=generator).cuda()
    return [*torch.sort(x, stable=True), torch.unique(x), x.bincount(), torch.topk(x.float(), 100).values, x.nonzero(), x.float().histc(50)]


def ddp_rank(rank, folder):
    """One of two processes, each with a device and a batch of its own."""
    import torch

    torch.cuda.set_device(rank)
    torch.distributed.init_process_group("nccl", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    model = net(torch)
    optimizer, x = torch.optim.SGD(model.parameters(), 0.1), batch(torch, seed=1 + rank)
    parallel = torch.nn.parallel.DistributedDataParallel(model, device_ids=[rank])
    for _ in range(5):
        optimizer.zero_grad()
        parallel(x).square().mean().backward()
        optimizer.step()
    torch.save([parameter.detach().cpu() for parameter in model.parameters()], f"{folder}/{rank}")
    torch.distributed.destroy_process_group()


def ddp(torch):
    """Two processes that wait for each other."""
    if torch.cuda.device_count() < 2:
        raise ImportError("fewer than two GPUs")
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(ddp_rank, (folder,), nprocs=2)
        return [parameter for rank in range(2) for parameter in torch.load(f"{folder}/{rank}")]


PROGRAMS = {program.__name__.replace("_", "-"): program for program in (
    adamw_fused, adamw_foreach, many_small, batched_lu, graphs, two_streams, two_threads, compiled, autotuned, memory_full, pinned,
    random_numbers, sorts, ddp)}


def run(torch, name):
    torch.backends.cudnn.deterministic = True
    result = PROGRAMS[name](torch)
    torch.cuda.synchronize()
    return {"name": name, "digest": clients.digest_of(torch, result)}


def main():
    chosen = clients.options_of(__doc__, PROGRAMS).parse_args()
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read when cuBLAS is loaded
    return clients.ended(chosen, lambda torch: run(torch, chosen.model))


if __name__ == "__main__":
    sys.exit(main())
