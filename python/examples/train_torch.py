"""Feeds a PyTorch DataLoader from an image, with several worker processes.

An open image pickles: each worker opens it again by its path or URL. A batch is read at once, in the order of storage.

    python train_torch.py x.shale 4
"""

import sys
from typing import List, Tuple

import torch
from torch.utils.data import DataLoader, Dataset

import shalefs


class Files(Dataset):
    """The regular files of an image as tensors of bytes."""

    def __init__(self, image: shalefs.FileSystem, top: str = "") -> None:
        self.image = image
        self.paths = [path for path in image.find(top) if image.isfile(path)]

    def __len__(self) -> int:
        return len(self.paths)

    def __getitems__(self, indices: List[int]) -> List[Tuple[str, torch.Tensor]]:
        paths = [self.paths[index] for index in indices]
        contents = self.image.read_ranges([(path, 0, None) for path in paths], threads=1)
        return [(path, torch.frombuffer(bytearray(data), dtype=torch.uint8) if data else torch.empty(0))
                for path, data in zip(paths, contents)]

    def __getitem__(self, index: int) -> Tuple[str, torch.Tensor]:
        return self.__getitems__([index])[0]


def loader(image: shalefs.FileSystem, workers: int, batch: int = 64) -> "DataLoader[Tuple[str, torch.Tensor]]":
    return DataLoader(Files(image), batch_size=batch, shuffle=True, num_workers=workers, collate_fn=list)


if __name__ == "__main__":
    with shalefs.open(sys.argv[1]) as opened:
        print(sum(len(data) for batch in loader(opened, int(sys.argv[2])) for _, data in batch), "bytes")
