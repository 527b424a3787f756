"""The models that the clients train, with random weights and inputs that are the same everywhere.

A model is made by a function of PyTorch and the client's options (`size`: side of the images; `edges`: of the graph; `device`), which
returns the model, a function that computes its loss, and the library that it comes from."""

BATCH, CLASSES, BOXES = 2, 20, 6


def deformable_detr(transformers):
    backbone = transformers.ResNetConfig(out_features=["stage2", "stage3", "stage4"])
    config = transformers.DeformableDetrConfig(backbone_config=backbone, use_timm_backbone=False, use_pretrained_backbone=False,
                                               backbone=None, num_labels=CLASSES)
    return transformers.DeformableDetrForObjectDetection(config)


def rt_detr(transformers):
    return transformers.RTDetrForObjectDetection(transformers.RTDetrConfig(num_labels=CLASSES))


def d_fine(transformers):
    return transformers.DFineForObjectDetection(transformers.DFineConfig(num_labels=CLASSES))


def detr(transformers):
    return transformers.DetrForObjectDetection(transformers.DetrConfig(
        use_timm_backbone=False, use_pretrained_backbone=False, backbone=None, num_labels=CLASSES,
        backbone_config=transformers.ResNetConfig(out_features=["stage4"])))


def make_batch(torch, chosen):
    """Returns the pixels, and for each image boxes and classes; drawn on the CPU, so that they are the same everywhere."""
    generator = torch.Generator().manual_seed(1)
    pixels = torch.randn(BATCH, 3, chosen.size, chosen.size, generator=generator)
    labels = []
    for _ in range(BATCH):
        boxes = torch.rand(BOXES, 4, generator=generator) * 0.4 + 0.3  # centre, size: within the image
        classes = torch.randint(CLASSES, (BOXES,), generator=generator)
        labels.append({"boxes": boxes.to(chosen.device), "class_labels": classes.to(chosen.device)})
    return pixels.to(chosen.device), labels


def detector(build):
    """Returns how a detector of Hugging Face transformers is made."""
    def make(torch, chosen):
        import transformers

        model = build(transformers).to(chosen.device).train()
        pixels, labels = make_batch(torch, chosen)
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
    masks, classes = [target["masks"].float() for target in objects], [target["labels"] for target in objects]
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


def keypoint_rcnn(torch, chosen):
    import torchvision

    model = torchvision.models.detection.keypointrcnn_resnet50_fpn(
        weights=None, weights_backbone=None, num_classes=2, min_size=chosen.size, max_size=chosen.size).to(chosen.device).train()
    generator = torch.Generator().manual_seed(1)
    images = torch.randn(2, 3, chosen.size, chosen.size, generator=generator).to(chosen.device)
    targets = list(draw_objects(torch, chosen, generator))
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


def yolo(torch, chosen):
    """Pyramid pooling by max_pool2d, attention over adaptively pooled features, reflection padding, two levels joined after an enlargement."""
    nn = torch.nn

    def convolved(inputs, outputs, stride=1):
        return nn.Sequential(nn.ReflectionPad2d(1), nn.Conv2d(inputs, outputs, 3, stride, bias=False), nn.BatchNorm2d(outputs), nn.SiLU())

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem = nn.Sequential(convolved(3, 32, 2), convolved(32, 64, 2), convolved(64, 64))
            self.deep = nn.Sequential(convolved(64, 128, 2), convolved(128, 128))
            self.pooled, self.weights = nn.AdaptiveAvgPool2d((4, 4)), nn.Linear(128 * 16, 128)
            self.joined, self.head = nn.Conv2d(128 * 4, 128, 1), convolved(192, CLASSES + 5)

        def forward(self, images):
            fine = self.stem(images)
            coarse = self.deep(fine)
            coarse = coarse * self.weights(self.pooled(coarse).flatten(1)).sigmoid()[..., None, None]
            levels = [coarse]
            for _ in range(3):
                levels.append(nn.functional.max_pool2d(levels[-1], 5, 1, 2))
            coarse = nn.functional.interpolate(self.joined(torch.cat(levels, 1)), scale_factor=2, mode="bilinear")
            return self.head(torch.cat([fine, coarse], 1))

    images = torch.randn(2, 3, chosen.size, chosen.size, generator=torch.Generator().manual_seed(1)).to(chosen.device)
    model = Net().to(chosen.device).train()
    return model, lambda: model(images).square().mean(), torch


def unet3d(torch, chosen):
    """As for medical volumes: replication padding, max_pool3d and avg_pool3d on the way down, trilinear enlargements on the way up."""
    nn = torch.nn

    def convolved(inputs, outputs):
        return nn.Sequential(nn.ReplicationPad3d(1), nn.Conv3d(inputs, outputs, 3), nn.InstanceNorm3d(outputs), nn.LeakyReLU())

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second, self.third = convolved(1, 16), convolved(16, 32), convolved(32, 64)
            self.up, self.last = convolved(96, 32), nn.Sequential(convolved(48, 16), nn.Conv3d(16, 4, 1))

        def forward(self, volume):
            first = self.first(volume)
            second = self.second(nn.functional.max_pool3d(first, 2))
            third = self.third(nn.functional.avg_pool3d(second, 3, 2, 1))
            enlarge = lambda coarse, like: nn.functional.interpolate(coarse, size=like.shape[2:], mode="trilinear")  # noqa: E731
            second = self.up(torch.cat([second, enlarge(third, second)], 1))
            return self.last(torch.cat([first, enlarge(second, first)], 1))

    generator, side = torch.Generator().manual_seed(1), chosen.size // 4
    volume = torch.randn(2, 1, side, side, side, generator=generator).to(chosen.device)
    classes = torch.randint(4, (2, side, side, side), generator=generator).to(chosen.device)
    model = Net().to(chosen.device).train()
    return model, lambda: nn.functional.cross_entropy(model(volume), classes), torch


def speech(torch, chosen):
    """Convolutions and attention over a spectrogram, and the CTC loss of texts of different lengths."""
    nn = torch.nn
    generator, frames, letters = torch.Generator().manual_seed(1), chosen.size * 4, 32
    spectrogram = torch.randn(4, 80, frames, generator=generator).to(chosen.device)
    texts = torch.randint(1, letters, (4, 60), generator=generator).to(chosen.device)
    lengths = torch.tensor([60, 45, 30, 20], device=chosen.device)
    model = nn.Sequential(nn.Conv1d(80, 256, 5, 2, 2), nn.GELU(), nn.Conv1d(256, 256, 5, 2, 2), nn.GELU(), nn.Flatten(2),
                          nn.Conv1d(256, letters, 1)).to(chosen.device).train()  # fmt: skip

    def loss():
        scores = model(spectrogram).permute(2, 0, 1).log_softmax(2)
        return nn.functional.ctc_loss(scores, texts, torch.full((4,), len(scores), device=chosen.device), lengths)

    return model, loss, torch


def mamba(torch, chosen):
    import transformers

    config = transformers.MambaConfig(vocab_size=2000, hidden_size=128, num_hidden_layers=2)
    model = transformers.MambaForCausalLM(config).to(chosen.device).train()
    tokens = torch.randint(2000, (2, 128), generator=torch.Generator().manual_seed(1)).to(chosen.device)
    return model, lambda: model(input_ids=tokens, labels=tokens).loss, transformers


DETECTORS = {"deformable-detr": detector(deformable_detr), "rt-detr": detector(rt_detr)}
# msda_replay.torch replaces their backward passes.
TRAINED = {**DETECTORS, "mask-rcnn": mask_rcnn, "mask2former": mask2former, "raft": raft, "gcn": graph_net("GCN"), "gpt-2": gpt2,
           "yolo": yolo, "unet-3d": unet3d, "deeplab": deeplab, "speech": speech, "deform-conv": deformable_convolution, "keypoint-rcnn": keypoint_rcnn}
EVERY = {**TRAINED, "d-fine": detector(d_fine), "detr": detector(detr), "gat": graph_net("GAT"), "sage": graph_net("GraphSAGE"), "gin": graph_net("GIN"),
         "cubic": cubic, "mamba": mamba}
