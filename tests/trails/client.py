"""The client of the trails' campaign: training steps that are equal bit for bit in every run, and one planted divergence.

    python3 client.py MODEL [--plant KIND [--side a|b]] [--seed N] [--steps N] [--size N] [--device cuda|cpu]
    torchrun --nproc-per-node 2 client.py triton --plant KIND --plant-rank 1

MODEL: mask_rcnn (torchvision) or triton (a transformer whose layers are Triton kernels). Samples come from two workers of a data loader, through
pinned memory; a GradScaler scales the losses. Algorithms that add in one order are asked for: by cuDNN's and PyTorch's switches, and, in backward
passes, by msda_replay.torch.deterministic().

A plant changes one thing in the middle of the run, which is the second of a pair (--side b, the default). The first of the pair (--side a) is the
program without the plant or, where both runs need it, the plant without what makes them part. Prints one line of JSON:

- losses: of each step, as hexadecimal floating-point numbers, all bits;
- gradients: SHA-256 of the last step's gradients; weights: of all parameters and buffers after the steps;
- steps, planted_step; seconds: of each step, until the device has done it;
- expect: what `msda-replay diff` is to name first, null without a plant; took: whether the plant did what it is for (null: nothing to do).

Under torchrun the ranks train one model, each on its own samples; rank 0 prints its line, and "took" is that of all ranks.

The Triton tuner's choice is kept in TRITON_CACHE_DIR: the first run there measures, and the others do as it did. Exit status 77, with the reason on standard
error, where PyTorch, torchvision, Triton or the GPU is missing.
"""

import contextlib
import os
import pathlib
import sys
import time

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(SOURCE / part) for part in ("tests", "tools/bench", "tools/python")]

import clients  # noqa: E402 (after the path)
from trails import expected  # noqa: E402

SCALE = 1024.0
# So many steps that a run has over 5,000 launches; the side of the images, and how many a step takes.
STEPS, SIZE, BATCH = {"mask_rcnn": 4, "triton": 28}, {"mask_rcnn": 192, "triton": 32}, {"mask_rcnn": 2, "triton": 8}


def parse(arguments):
    parser = clients.options_of(__doc__, expected.MODELS)
    parser.add_argument("--plant", choices=tuple(expected.PLANTS), metavar="KIND", help=", ".join(expected.PLANTS))
    parser.add_argument("--side", choices=("a", "b"), default="b", help="the first or the second run of the pair (b)")
    parser.add_argument("--plant-rank", type=int, default=0, metavar="N", help="under torchrun, the rank with the plant (0)")
    parser.add_argument("--seed", type=int, default=2026)
    chosen = parser.parse_args(arguments)
    chosen.steps, chosen.size = chosen.steps or STEPS[chosen.model], chosen.size or SIZE[chosen.model]
    if chosen.steps < 3:
        parser.error("--steps: 3 or more, a plant needs a step before it and one behind it")
    if chosen.model != "triton" and is_one_of_many():
        parser.error("ranks train the model triton only")
    return chosen


def is_one_of_many():
    return "LOCAL_RANK" in os.environ


def join_ranks(torch, chosen):
    """Chooses this rank's device and samples, and whether it has the plant."""
    local = int(os.environ["LOCAL_RANK"])
    if chosen.device == "cuda":
        torch.cuda.set_device(local)
    torch.distributed.init_process_group("nccl" if chosen.device == "cuda" else "gloo")
    rank = torch.distributed.get_rank()
    if rank != chosen.plant_rank:
        chosen.plant = None
    chosen.seed += rank  # the data set's; the weights are those of rank 0


def ask_for_one_order(torch):
    torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark = True, False
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    torch.utils.deterministic.fill_uninitialized_memory = False


@contextlib.contextmanager
def one_order(torch, device):
    """For backward passes. Forward passes have one order without it: only there do the plants add atomically."""
    if device != "cuda":
        yield
        return
    import msda_replay.torch

    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        with msda_replay.torch.deterministic():
            yield
    finally:
        torch.use_deterministic_algorithms(False)


def to_device(value, device):
    if isinstance(value, (list, tuple)):
        return [to_device(entry, device) for entry in value]
    return value.to(device, non_blocking=True)


def load(torch, module, chosen, plants):
    """Returns the batches: numbers of samples, in the order in which the loader's workers are given them."""
    size = BATCH[chosen.model]
    batches = plants.order([list(range(step * size, (step + 1) * size)) for step in range(chosen.steps)])
    return torch.utils.data.DataLoader(module.Images(chosen), batch_sampler=batches, num_workers=2, pin_memory=chosen.device == "cuda")


def transfer(torch, chosen):
    """Returns the pinned tensor on the device: by a copy, or by a kernel that reads the host's memory."""
    if chosen.device == "cpu":
        return lambda pinned: pinned.clone()
    if chosen.model == "mask_rcnn":
        return lambda pinned: pinned.to("cuda", non_blocking=True)
    from trails import kernels

    return lambda pinned: kernels.along(kernels.read_values, (pinned, torch.empty(len(pinned), device="cuda")))


def train(torch, module, chosen, plants):
    model = net = module.Model(chosen, plants).to(chosen.device).train()
    if is_one_of_many():
        net = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    scaler, half = torch.amp.GradScaler(chosen.device, init_scale=SCALE), chosen.device == "cuda" and chosen.model == "mask_rcnn"
    pinned, move = torch.ones(module.LOSSES), transfer(torch, chosen)
    pinned = pinned.pin_memory() if chosen.device == "cuda" else pinned
    found = {"losses": [], "seconds": []}
    for step, batch in enumerate(load(torch, module, chosen, plants)):
        begin = time.perf_counter()
        plants.begin(step)
        weights = plants.loss_weights(pinned, move)
        batch = to_device(batch, chosen.device)
        optimizer.zero_grad()
        with torch.autocast(chosen.device, torch.float16, enabled=half):
            losses = net(batch)
        loss = (losses * weights).sum()
        with one_order(torch, chosen.device):
            scaler.scale(loss).backward()
        scaler.step(optimizer)
        plants.scale(scaler, SCALE)
        plants.weight(model.kept_weight())
        found["losses"].append(loss.item().hex())  # waits for the device
        found["seconds"].append(time.perf_counter() - begin)
    found["gradients"] = clients.digest_of(torch, [weight.grad for weight in model.parameters() if weight.grad is not None])
    found["weights"] = clients.digest_of(torch, model.state_dict().values())
    return found


def all_took(torch, took):
    found = [None] * torch.distributed.get_world_size()
    torch.distributed.all_gather_object(found, took)
    torch.distributed.destroy_process_group()
    said = [entry for entry in found if entry is not None]
    return all(said) if said else None


def run(torch, chosen):
    if chosen.device == "cuda":
        import triton  # noqa: F401 (so that it is named if it is missing)
    from trails import plants as planting

    if chosen.model == "mask_rcnn":
        from trails import mask_rcnn as module
    else:
        from trails import transformer as module
    expect = expected.PLANTS[chosen.plant].as_json() if chosen.plant else None
    if is_one_of_many():
        join_ranks(torch, chosen)
    torch.manual_seed(chosen.seed)
    ask_for_one_order(torch)
    plants = planting.Plants(torch, chosen)
    found = train(torch, module, chosen, plants)
    took = plants.took()
    if is_one_of_many():
        took = all_took(torch, took)
    return {**found, "steps": chosen.steps, "planted_step": plants.planted_step, "expect": expect, "took": took}


def main(arguments=None):
    chosen = parse(arguments)
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read when cuBLAS is loaded
    return clients.ended(chosen, lambda torch: run(torch, chosen))


if __name__ == "__main__":
    sys.exit(main())
