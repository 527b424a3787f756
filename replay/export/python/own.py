import json


# --- The operator's definition, and how NumPy computes it.


def gradient(dialect, real, steps):
    """The element by the definition, in float64 at all points of its sum; kernels' own roundings are not repeated."""
    adapter = json.loads(DEFINITION)["adapters"][0]
    tensors = {tensor["name"]: TENSORS[tensor["name"]] for tensor in adapter["tensors"] if tensor["name"] in TENSORS}
    numbers = {name: ast.literal_eval(number) for name, number in (word.split("=") for word in SCALARS.split())}
    shapes = {TENSOR: TENSORS[f"observed_{TENSOR}"].shape}
    outputs = [output for output in adapter["operator"]["outputs"] if output["tensor"] == TENSOR]
    alone = {**adapter, "operator": {**adapter["operator"], "outputs": outputs}}
    return real(evaluate(alone, tensors, numbers, shapes)[TENSOR][INDEX])


