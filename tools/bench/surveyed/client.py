"""The surveyed client: training steps of a model with random weights, as a user would write them. Prints one line of JSON.

    python3 client.py MODEL [--remedies] [--steps 2] [--device cuda|cpu] [--size 256]

Nothing is asked of PyTorch's or cuDNN's settings: whatever varies may vary. With --remedies the program begins with what the survey says to type
for its kernels.

- losses: of each step, as hexadecimal floating-point numbers, all bits;
- gradients: SHA-256 of all gradients, of each step;
- weights: SHA-256 of all parameters and buffers after the steps;
- seconds: of each step, until the device has done it;
- process: from the start of the process to its last line.

Exit status 77, with the reason on standard error, where PyTorch, a model's library or the device is missing.
"""

import argparse
import contextlib
import hashlib
import json
import os
import pathlib
import sys
import time

SKIPPED = 77
BEGIN = time.time()
sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1])]

from training import client as training  # noqa: E402 (after the path)


def d_fine(torch, chosen):
    import transformers
    from recording import client

    pixels, labels = client.make_batch(torch, argparse.Namespace(batch=2, size=chosen.size, device=chosen.device))
    model = transformers.DFineForObjectDetection(transformers.DFineConfig(num_labels=client.CLASSES)).to(chosen.device).train()
    return model, lambda: model(pixel_values=pixels, labels=labels).loss, transformers


def detr(torch, chosen):
    import transformers
    from recording import client

    pixels, labels = client.make_batch(torch, argparse.Namespace(batch=2, size=chosen.size, device=chosen.device))
    config = transformers.DetrConfig(use_timm_backbone=False, use_pretrained_backbone=False, backbone=None, num_labels=client.CLASSES,
                                     backbone_config=transformers.ResNetConfig(out_features=["stage4"]))
    model = transformers.DetrForObjectDetection(config).to(chosen.device).train()
    return model, lambda: model(pixel_values=pixels, labels=labels).loss, transformers


def keypoint_rcnn(torch, chosen):
    import torchvision

    model = torchvision.models.detection.keypointrcnn_resnet50_fpn(
        weights=None, weights_backbone=None, num_classes=2, min_size=chosen.size, max_size=chosen.size).to(chosen.device).train()
    generator = torch.Generator().manual_seed(1)
    images = torch.randn(2, 3, chosen.size, chosen.size, generator=generator).to(chosen.device)
    targets = list(training.draw_objects(torch, chosen, generator))
    for target in targets:
        left, top, right, bottom = target["boxes"].unbind(1)
        places = torch.rand(len(left), 17, 2, generator=generator).to(chosen.device)
        across, down = (left + (right - left) * places[..., 0].T).T, (top + (bottom - top) * places[..., 1].T).T
        target["keypoints"] = torch.stack([across, down, torch.ones_like(across)], 2)
        target["labels"] = torch.ones_like(target["labels"])
    return model, lambda: sum(model(list(images), targets).values()), torchvision


def deeplab(torch, chosen):
    import torchvision

    model = torchvision.models.segmentation.deeplabv3_resnet50(weights=None, weights_backbone=None, num_classes=21)
    generator = torch.Generator().manual_seed(1)
    images = torch.randn(2, 3, chosen.size, chosen.size, generator=generator).to(chosen.device)
    classes = torch.randint(21, (2, chosen.size, chosen.size), generator=generator).to(chosen.device)
    model = model.to(chosen.device).train()
    return model, lambda: torch.nn.functional.cross_entropy(model(images)["out"], classes), torchvision


def deformable_convolution(torch, chosen):
    import torchvision

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.offsets = torch.nn.Conv2d(16, 18, 3, padding=1)
            self.first, self.last = torch.nn.Conv2d(3, 16, 3, padding=1), torch.nn.Conv2d(16, 8, 1)
            self.deformed = torchvision.ops.DeformConv2d(16, 16, 3, padding=1)

        def forward(self, images):
            features = self.first(images).relu()
            return self.last(self.deformed(features, self.offsets(features) * 2))

    images = torch.randn(2, 3, chosen.size // 2, chosen.size // 2, generator=torch.Generator().manual_seed(1)).to(chosen.device)
    model = Net().to(chosen.device)
    return model, lambda: model(images).square().mean(), torchvision


def cubic(torch, chosen):
    """Bicubic enlargement and adaptive average pooling."""
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 16, 3), torch.nn.Upsample(size=(97, 97), mode="bicubic"), torch.nn.ReLU(),
                                torch.nn.AdaptiveAvgPool2d(7), torch.nn.Conv2d(16, 4, 3)).to(chosen.device)
    images = torch.randn(4, 3, 64, 64, generator=torch.Generator().manual_seed(1)).to(chosen.device)
    return model, lambda: model(images).square().mean(), torch


def mamba(torch, chosen):
    import transformers

    config = transformers.MambaConfig(vocab_size=2000, hidden_size=128, num_hidden_layers=2)
    model = transformers.MambaForCausalLM(config).to(chosen.device).train()
    tokens = torch.randint(2000, (2, 128), generator=torch.Generator().manual_seed(1)).to(chosen.device)
    return model, lambda: model(input_ids=tokens, labels=tokens).loss, transformers


MODELS = {**training.MODELS, "d-fine": d_fine, "detr": detr, "keypoint-rcnn": keypoint_rcnn, "deeplab": deeplab, "deform-conv": deformable_convolution,
          "gat": training.graph_net("GAT"), "sage": training.graph_net("GraphSAGE"), "gin": training.graph_net("GIN"), "cubic": cubic, "mamba": mamba}


def digest_of(torch, tensors):
    digest = hashlib.sha256()
    for tensor in tensors:
        digest.update(training.bytes_of(torch, tensor))
    return digest.hexdigest()


def type_remedies(torch, stack):
    """What replay/survey/remedies.json says, but for lines of the model itself."""
    sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[2] / "python")]
    import msda_replay.torch

    torch.backends.cudnn.deterministic = True
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = False
    stack.enter_context(msda_replay.torch.deterministic())


def train(torch, chosen, stack):
    torch.manual_seed(2026)
    if chosen.remedies:
        type_remedies(torch, stack)
    model, loss_of, library = MODELS[chosen.model](torch, chosen)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    found = {"losses": [], "gradients": [], "seconds": []}
    for _ in range(chosen.steps):
        begin = time.perf_counter()
        optimizer.zero_grad()
        loss = loss_of()
        loss.backward()
        optimizer.step()
        found["losses"].append(loss.item().hex())  # waits for the device
        found["seconds"].append(time.perf_counter() - begin)
        found["gradients"].append(digest_of(torch, [one.grad for one in model.parameters() if one.grad is not None]))
    found["weights"] = digest_of(torch, model.state_dict().values())
    return found, library


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", choices=MODELS)
    parser.add_argument("--remedies", action="store_true", help="type what the survey says")
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--size", type=int, default=256, help="side of the images")
    parser.add_argument("--edges", type=int, default=200_000, help="of the graph")
    chosen = parser.parse_args()
    os.environ["HF_HUB_OFFLINE"] = "1"
    if chosen.remedies:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read when cuBLAS is loaded
    try:
        import torch

        if chosen.device == "cuda" and not torch.cuda.is_available():
            raise ImportError("no GPU that PyTorch can use")
        with contextlib.ExitStack() as stack:
            found, library = train(torch, chosen, stack)
    except ImportError as error:
        print("client:", f"{error.name} is not installed" if error.name else " ".join(str(error).split()), file=sys.stderr)
        return SKIPPED
    machine = {"PyTorch": torch.__version__, library.__name__: library.__version__}
    if chosen.device == "cuda":
        machine = {"GPU": torch.cuda.get_device_name(), **machine}
    print(json.dumps({**found, "process": time.time() - BEGIN, "machine": machine}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
