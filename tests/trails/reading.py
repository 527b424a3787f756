"""What a recorded trail holds, read without msda-replay (docs/capture-format.md): so that what it says of two trails can be judged."""

import json
import re

NO_KERNEL, LAUNCH = 0xFFFFFFFF, 0


class Trail:
    """kinds, kernels: of each row, the kernel as an index into names."""

    def __init__(self, path):
        import h5py  # here, because it loads slowly and only recorded trails need it

        with h5py.File(path, "r") as file:
            group = file["trail"]
            self.kinds, self.kernels = group["kind"][:], group["kernel"][:]
            self.names = [kernel["name"] for kernel in json.loads(bytes(group["names"][:]))["kernels"]]
            self.missing = int(group.attrs["missing"])

    def launches(self):
        return int((self.kinds == LAUNCH).sum())

    def row_of(self, pattern):
        """Returns the only row that launches a kernel of such a name; None if there is none or several."""
        wanted = [number for number, name in enumerate(self.names) if re.search(pattern, name)]
        rows = [row for row, kernel in enumerate(self.kernels.tolist()) if kernel in wanted]
        return rows[0] if len(rows) == 1 else None

    def name_at(self, row):
        """Returns "" for a row without a kernel; None if there is no such row."""
        if not 0 <= row < len(self.kernels):
            return None
        kernel = int(self.kernels[row])
        return "" if kernel == NO_KERNEL else self.names[kernel]
