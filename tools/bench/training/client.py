"""The measured client: training steps of a model with random weights. Prints one line of JSON.

    python3 client.py MODEL plain|deterministic [--steps 10] [--timed 0] [--alone] [--device cuda|cpu]

- weights: SHA-256 of all parameters and buffers after the steps;
- losses: of each step, as hexadecimal floating-point numbers, all bits;
- refused: operators for which PyTorch has no deterministic algorithm, and which msda_replay.torch does not replace either. Then the steps
  were made with `warn_only`;
- alone, with --alone: what PyTorch says to one more step under torch.use_deterministic_algorithms(True) alone, "" if it does not refuse;
- seconds, with --timed N: by mode, the median time of five steps in each of N / 5 rounds. In each round every mode has its turn, `plain`, `deterministic`
  (both switches), `context` (msda_replay.torch.deterministic() alone) and `alone` (PyTorch's switch alone, with warnings in place of errors), and
  begins with a step that does not count. What happens beside, or slowly, thus meets all modes of a round.

All modes have the same settings of cuDNN (deterministic, no benchmark) and of cuBLAS, and uninitialized memory is not
filled. Exit status 77, with the reason on standard error, where PyTorch, a model's library or the device is missing.
"""

import argparse
import contextlib
import hashlib
import json
import os
import pathlib
import re
import statistics
import sys
import time
import warnings

SKIPPED, AT_ONCE = 77, 5
TIMED = ("plain", "deterministic", "context", "alone")
BENCH = pathlib.Path(__file__).resolve().parents[1]
LACKS = re.compile(r"(\S+) does not have a deterministic implementation")


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", choices=MODELS)
    parser.add_argument("mode", choices=("plain", "deterministic"))
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--timed", type=int, default=0)
    parser.add_argument("--alone", action="store_true")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--size", type=int, default=256, help="side of the images")
    parser.add_argument("--edges", type=int, default=200_000, help="of the graph")
    return parser.parse_args(arguments)


def detector(name):
    """Returns a detector as tools/bench/recording/client.py builds it."""
    def make(torch, chosen):
        import transformers
        from recording import client

        pixels, labels = client.make_batch(torch, argparse.Namespace(batch=2, size=chosen.size, device=chosen.device))
        model = client.MODELS[name](transformers).to(chosen.device).train()
        return model, lambda: model(pixel_values=pixels, labels=labels).loss, transformers

    return make


def draw_objects(torch, chosen, generator):
    """Yields six boxes, their classes and their masks for each of two images."""
    for _ in range(2):
        corner = torch.rand(6, 2, generator=generator) * 0.5 * chosen.size
        sides = torch.rand(6, 2, generator=generator) * 0.4 * chosen.size + 8
        boxes = torch.cat([corner, corner + sides], 1)
        masks = torch.zeros(6, chosen.size, chosen.size, dtype=torch.uint8)
        for mask, (left, top, right, bottom) in zip(masks, boxes.int().tolist()):
            mask[top:bottom, left:right] = 1
        labels = torch.randint(1, 21, (6,), generator=generator)
        yield {name: tensor.to(chosen.device) for name, tensor in (("boxes", boxes), ("labels", labels), ("masks", masks))}


def mask_rcnn(torch, chosen):
    import torchvision

    model = torchvision.models.detection.maskrcnn_resnet50_fpn(
        weights=None, weights_backbone=None, num_classes=21, min_size=chosen.size, max_size=chosen.size).to(chosen.device).train()
    generator = torch.Generator().manual_seed(1)
    images = torch.randn(2, 3, chosen.size, chosen.size, generator=generator).to(chosen.device)
    targets = list(draw_objects(torch, chosen, generator))
    return model, lambda: sum(model(list(images), targets).values()), torchvision


def mask2former(torch, chosen):
    """Deformable attention by grid_sample in the pixel decoder, and points of the masks by grid_sample in the loss."""
    import transformers

    backbone = transformers.SwinConfig(embed_dim=48, depths=[1, 1, 2, 1], num_heads=[2, 4, 8, 16], image_size=chosen.size,
                                       out_features=["stage1", "stage2", "stage3", "stage4"])
    config = transformers.Mask2FormerConfig(backbone_config=backbone, num_labels=21)
    model = transformers.Mask2FormerForUniversalSegmentation(config).to(chosen.device).train()
    generator = torch.Generator().manual_seed(1)
    images = torch.randn(2, 3, chosen.size, chosen.size, generator=generator).to(chosen.device)
    objects = list(draw_objects(torch, chosen, generator))
    masks, classes = [one["masks"].float() for one in objects], [one["labels"] for one in objects]
    return model, lambda: model(pixel_values=images, mask_labels=masks, class_labels=classes).loss, transformers


def raft(torch, chosen):
    """Four updates of the flow: correlations are looked up by grid_sample, flows enlarged by interpolate."""
    import torchvision

    model = torchvision.models.optical_flow.raft_small(weights=None).to(chosen.device).train()
    generator = torch.Generator().manual_seed(1)
    first, second = (torch.rand(2, 3, chosen.size, chosen.size, generator=generator).to(chosen.device) * 2 - 1 for _ in range(2))
    flow = torch.randn(2, 2, chosen.size, chosen.size, generator=generator).to(chosen.device)
    return model, lambda: sum((found - flow).abs().mean() for found in model(first, second, num_flow_updates=4)), torchvision


def gpt2(torch, chosen):
    """Gradients of two embeddings: of tokens, many of which occur several times, and of places."""
    import transformers

    config = transformers.GPT2Config(vocab_size=2000, n_embd=256, n_layer=4, n_head=4, bos_token_id=None, eos_token_id=None)
    model = transformers.GPT2LMHeadModel(config).to(chosen.device).train()
    tokens = torch.randint(2000, (2, 512), generator=torch.Generator().manual_seed(1)).to(chosen.device)
    return model, lambda: model(input_ids=tokens, labels=tokens).loss, transformers


def graph_net(name):
    """Three layers on a random graph: messages are added up by scatter_add, their gradients by index_add."""
    def make(torch, chosen):
        import torch_geometric

        generator = torch.Generator().manual_seed(1)
        nodes = max(chosen.edges // 10, 2)
        graph = torch.randint(nodes, (2, chosen.edges), generator=generator).to(chosen.device)
        features = torch.randn(nodes, 64, generator=generator).to(chosen.device)
        classes = torch.randint(16, (nodes,), generator=generator).to(chosen.device)
        model = getattr(torch_geometric.nn, name)(64, 64, num_layers=3, out_channels=16).to(chosen.device).train()
        return model, lambda: torch.nn.functional.cross_entropy(model(features, graph), classes), torch_geometric

    return make


MODELS = {"rt-detr": detector("rt-detr"), "deformable-detr": detector("deformable-detr"), "mask-rcnn": mask_rcnn,
          "mask2former": mask2former, "raft": raft, "gcn": graph_net("GCN"), "gpt-2": gpt2}


def bytes_of(torch, tensor):
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8).cpu().numpy().tobytes()


class Training:
    """A model with its optimizer, whose steps are made under one of the modes."""

    def __init__(self, torch, model, loss_of, device):
        self.torch, self.model, self.loss_of, self.device = torch, model, loss_of, device
        self.optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
        self.warn_only = False

    @contextlib.contextmanager
    def mode(self, name):
        import msda_replay.torch

        self.torch.use_deterministic_algorithms(name in ("deterministic", "alone"), warn_only=self.warn_only)
        try:
            with contextlib.ExitStack() as stack:
                if name in ("deterministic", "context"):
                    stack.enter_context(msda_replay.torch.deterministic())
                yield
        finally:
            self.torch.use_deterministic_algorithms(False)

    def step(self):
        self.optimizer.zero_grad()
        loss = self.loss_of()
        loss.backward()
        self.optimizer.step()
        return loss.item().hex()  # waits for the device

    def digest(self):
        digest = hashlib.sha256()
        for name, tensor in self.model.state_dict().items():
            digest.update(name.encode())
            digest.update(bytes_of(self.torch, tensor))
        return digest.hexdigest()

    def turn(self, mode):
        """Returns the median seconds of some steps; the first, which finds nothing in the caches, does not count."""
        with self.mode(mode):
            seconds = []
            for _ in range(1 + AT_ONCE):
                begin = time.perf_counter()
                self.step()
                seconds.append(time.perf_counter() - begin)
        return statistics.median(seconds[1:])

    def times(self, count):
        """Returns the seconds of a step by mode, one number for each round after the first. Each round begins with another mode."""
        seconds = {mode: [] for mode in TIMED}
        for number in range(1 + -(-count // AT_ONCE)):
            begin = number % len(TIMED)
            for mode in TIMED[begin:] + TIMED[:begin]:
                found = self.turn(mode)
                if number > 0:
                    seconds[mode].append(found)
        return seconds


def refusal(call):
    """Returns what PyTorch refuses a step with, because an operator has no deterministic algorithm; or nothing."""
    try:
        call()
    except RuntimeError as error:
        if "deterministic" not in str(error):
            raise
        return " ".join(str(error).split())[:160]
    return ""


def lacking(said):
    return sorted({match[1] for one in said if (match := LACKS.search(str(one.message)))})


def train(torch, chosen):
    """Returns what is printed. A model that PyTorch refuses in spite of the context is made anew, with warnings in place of errors."""
    for warn_only in (False, True):
        torch.manual_seed(2026)
        model, loss_of, library = MODELS[chosen.model](torch, chosen)
        training = Training(torch, model, loss_of, chosen.device)
        training.warn_only, losses = warn_only, []
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            with training.mode(chosen.mode):
                why = refusal(lambda: losses.extend(training.step() for _ in range(chosen.steps)))
        if not why:
            break
    found = {"losses": losses, "weights": training.digest(), "refused": lacking(said) if warn_only else []}
    if chosen.alone:
        training.warn_only = False
        with training.mode("alone"):
            found["alone"] = refusal(training.step)
        training.warn_only = warn_only
    if chosen.timed:
        training.warn_only = True
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found["seconds"] = training.times(chosen.timed)
    return found, library


def main():
    chosen = parse(None)
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read when cuBLAS is loaded
    os.environ["HF_HUB_OFFLINE"] = "1"
    sys.path[:0] = [str(BENCH), str(BENCH.parent / "python")]
    try:
        import torch

        if chosen.device == "cuda" and not torch.cuda.is_available():
            raise ImportError("no GPU that PyTorch can use")
        torch.backends.cudnn.benchmark, torch.backends.cudnn.deterministic = False, True
        torch.utils.deterministic.fill_uninitialized_memory = False
        found, library = train(torch, chosen)
    except ImportError as error:
        print("client:", f"{error.name} is not installed" if error.name else " ".join(str(error).split()), file=sys.stderr)
        return SKIPPED
    machine = {"PyTorch": torch.__version__, library.__name__: library.__version__}
    if chosen.device == "cuda":
        machine = {"GPU": torch.cuda.get_device_name(), **machine}
    print(json.dumps({**found, "machine": machine}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
