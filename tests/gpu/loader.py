"""DataLoader workers, by --phase fork or spawn, work on the CPU while this process' calls are recorded."""

import torch
from common import arguments, backward, make, show
from torch.utils.data import DataLoader, Dataset


class Numbers(Dataset):
    def __len__(self):
        return 12

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(index)
        matrix = torch.randn(16, 16, generator=generator)
        return (matrix * 0.1).matrix_exp().mean() + torch.rand(())  # the worker's seed too


def main():
    torch.manual_seed(5)
    torch.set_num_threads(1)
    first = make(100)
    show("first", backward(*first)[1])
    generator = torch.Generator().manual_seed(9)
    loader = DataLoader(Numbers(), batch_size=2, num_workers=2, multiprocessing_context=arguments().phase, generator=generator)
    for number, batch in enumerate(loader):
        grad_output, image, grid = make(number)
        show(f"{number}.batch", batch)
        show(f"{number}.grad_grid", backward(grad_output * batch.mean().item(), image, grid)[1])


if __name__ == "__main__":
    main()
