"""A small transformer of images: layer norm, softmax, gelu, dropout and most products of matrices are Triton kernels, all in float32."""

import torch

from . import layers

CLASSES, WIDTH, HEADS, BLOCKS, PATCH = 10, 128, 4, 4, 4
LOSSES = 2


class Norm(torch.nn.LayerNorm):
    def forward(self, x):
        return layers.layer_norm(x, self.weight, self.bias)


class Linear(torch.nn.Linear):
    def forward(self, x):
        return layers.linear(x, self.weight, self.bias)


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norms = torch.nn.ModuleList([Norm(WIDTH), Norm(WIDTH)])
        self.inner, self.joined = Linear(WIDTH, 3 * WIDTH), torch.nn.Linear(WIDTH, WIDTH)
        self.wide, self.narrow = Linear(WIDTH, 4 * WIDTH), Linear(4 * WIDTH, WIDTH)

    def attend(self, x, images):
        """x: a row of WIDTH numbers for each patch of each image."""
        query, key, value = self.inner(x).view(images, -1, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        shares = layers.softmax(query @ key.transpose(-1, -2) * (WIDTH // HEADS) ** -0.5)
        return (shares @ value).transpose(1, 2).reshape(x.shape)

    def forward(self, x, images, plants=None):
        """Runs the block. With plants, they are planted in this block, which then has a dropout."""
        found = self.attend(self.norms[0](x), images)
        if plants is None:
            x = x + self.joined(found)
            return x + self.narrow(layers.gelu(self.wide(self.norms[1](x))))
        with plants.product():
            found = self.joined(found)
        x = x + layers.dropout(plants.layer(found))
        with plants.tuned():
            wide = self.wide(self.norms[1](x))
        return x + self.narrow(layers.gelu(wide))


class Model(torch.nn.Module):
    def __init__(self, chosen, plants):
        super().__init__()
        self.plants = plants
        self.stem = torch.nn.Sequential(torch.nn.Conv2d(3, 64, 3, padding=1), torch.nn.ReLU(), torch.nn.Conv2d(64, 64, 3, padding=1),
                                        torch.nn.ReLU(), torch.nn.Conv2d(64, WIDTH, PATCH, stride=PATCH))
        self.places = torch.nn.Parameter(torch.randn((chosen.size // PATCH) ** 2, WIDTH) * 0.02)
        self.blocks = torch.nn.ModuleList(Block() for _ in range(BLOCKS))
        self.norm, self.out = Norm(WIDTH), Linear(WIDTH, CLASSES)

    def convolve(self, images):
        """Convolves; in the planted step with one more image, which is left out again: a shape that cuDNN has not seen."""
        if not self.plants.convolution():
            return self.stem(images)
        return self.stem(torch.cat([images, images[:1]]))[: len(images)]

    def forward(self, batch):
        """Returns the losses of a batch on the device: a tensor of LOSSES numbers."""
        images, classes = batch
        x = self.convolve(images).flatten(2).transpose(1, 2) + self.places
        shape, x = x.shape, x.reshape(-1, WIDTH)
        for number, block in enumerate(self.blocks):
            x = block(x, len(images), self.plants if number == BLOCKS // 2 else None)
        found = self.out(self.norm(x).view(shape).mean(1))
        return torch.stack([torch.nn.functional.cross_entropy(found, classes), found.square().mean() * 0.01])

    def kept_weight(self):
        return self.out.weight


class Images(torch.utils.data.Dataset):
    """An image and its class; the n-th is the same in every worker."""

    def __init__(self, chosen):
        self.size, self.seed = chosen.size, chosen.seed

    def __len__(self):
        return 1 << 16

    def __getitem__(self, number):
        generator = torch.Generator().manual_seed(self.seed * len(self) + number)
        return torch.randn(3, self.size, self.size, generator=generator), torch.randint(CLASSES, (), generator=generator)
