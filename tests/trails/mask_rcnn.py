"""Mask R-CNN with random weights on small images, under autocast; its box head in float32, with a dropout and a product by Triton."""

import torch
import torchvision

from . import layers

CLASSES, OBJECTS, FEATURES = 21, 4, 256
LOSSES = 5  # of the region proposals two, of the boxes two, of the masks one


class Head(torch.nn.Module):
    def __init__(self, channels, plants):
        super().__init__()
        self.first, self.second = torch.nn.Linear(channels, FEATURES), torch.nn.Linear(FEATURES, FEATURES)
        self.plants, self.dropout = plants, torch.nn.Dropout(layers.SHARE)

    def forward(self, x):
        with torch.autocast(x.device.type, enabled=False):
            x = x.flatten(1).float()
            with self.plants.product():
                x = self.first(x).relu()
            x = self.dropout(self.plants.layer(x))
            with self.plants.tuned():
                return layers.linear(x, self.second.weight, self.second.bias).relu()


class Model(torch.nn.Module):
    def __init__(self, chosen, plants):
        super().__init__()
        self.plants = plants
        self.net = torchvision.models.detection.maskrcnn_resnet50_fpn(
            weights=None, weights_backbone=None, num_classes=CLASSES, min_size=chosen.size, max_size=chosen.size,
            box_head=Head(256 * 7 * 7, plants))
        self.net.roi_heads.box_predictor = torchvision.models.detection.faster_rcnn.FastRCNNPredictor(FEATURES, CLASSES)

    def forward(self, batch):
        """Returns the losses of a batch on the device: a tensor of LOSSES numbers."""
        self.plants.convolution()
        images, targets = batch
        found = self.net(list(images), [dict(zip(("boxes", "labels", "masks"), target)) for target in zip(*targets)])
        return torch.stack([found[name].float() for name in sorted(found)])

    def kept_weight(self):
        return self.net.roi_heads.box_predictor.cls_score.weight


class Images(torch.utils.data.Dataset):
    """An image, and boxes, classes and masks of its objects; the n-th is the same in every worker."""

    def __init__(self, chosen):
        self.size, self.seed = chosen.size, chosen.seed

    def __len__(self):
        return 1 << 16

    def __getitem__(self, number):
        generator = torch.Generator().manual_seed(self.seed * len(self) + number)
        corners = torch.rand(OBJECTS, 2, generator=generator) * 0.5 * self.size
        boxes = torch.cat([corners, corners + torch.rand(OBJECTS, 2, generator=generator) * 0.4 * self.size + 8], 1)
        masks = torch.zeros(OBJECTS, self.size, self.size, dtype=torch.uint8)
        for mask, (left, top, right, bottom) in zip(masks, boxes.int().tolist()):
            mask[top:bottom, left:right] = 1
        labels = torch.randint(1, CLASSES, (OBJECTS,), generator=generator)
        return torch.randn(3, self.size, self.size, generator=generator), (boxes, labels, masks)
