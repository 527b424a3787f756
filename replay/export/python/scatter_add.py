

# --- Sums of the rows, or the elements, of a tensor that share an index: one element of the sum.


def named_row(row):
    """The index that a source row has, or its element in the column of INDEX; None: the row is left out."""
    index = TENSORS["index"]
    name = int(index[row] if index.ndim == 1 else index[source_place(row)])
    if HAS_PADDING_IDX and name == PADDING_IDX:
        return None
    rows = TENSORS[f"observed_{TENSOR}"].shape[DIM]
    return name + rows if WRAPS_NEGATIVE and name < 0 else name


def source_place(row):
    return (*INDEX[:DIM], row, *INDEX[DIM + 1:])


def contributions(real):
    rows = [row for row in range(TENSORS["source"].shape[DIM]) if named_row(row) == INDEX[DIM]]
    share = real(1 / len(rows)) if SCALE_GRAD_BY_FREQ and rows else real(1)
    return [(TENSORS["source"][source_place(row)], share) for row in rows]


def held(count):
    """What the sum begins with. A row that nothing is added to keeps it in any case."""
    return TENSORS["self"][INDEX] if "self" in TENSORS and (INCLUDE_SELF or count == 0) else None


def divided_by(count):
    return max(1, count + INCLUDE_SELF) if REDUCE == "mean" else 1
