"""Adapters of the users' kernels in tests/gpu/, as `--adapter` takes them."""

SCALE_ADD = {
    "format": "msda-adapter", "version": 1,
    "adapters": [{
        "name": "scale_add", "kernel": "^_Z9scale_addi5ScalePKfPfPh$",
        "parameters": [
            {"name": "rows", "type": "int32"},
            {"name": "scale", "type": "bytes", "size": 8, "fields": [
                {"name": "columns", "offset": 0, "type": "int32"}, {"name": "alpha", "offset": 4, "type": "float32"}]},
            {"name": "x", "type": "pointer"}, {"name": "y", "type": "pointer"}, {"name": "positive", "type": "pointer"}],
        "conditions": ["rows * scale.columns <= grid.x * block.x"],
        "tensors": [
            {"name": "x", "role": "input", "pointer": "x", "type": "float32", "shape": ["rows", "scale.columns"]},
            {"name": "y", "role": "inout", "pointer": "y", "type": "float32", "shape": ["rows", "scale.columns"]},
            {"name": "positive", "role": "output", "pointer": "positive", "type": "uint8",
             "shape": ["rows", "scale.columns"]}],
    }],
}
POISON = {
    "format": "msda-adapter", "version": 1,
    "adapters": [{
        "name": "poison", "kernel": "poison_",
        "parameters": [{"name": "count", "type": "int32"}] + [{"name": n, "type": "pointer"} for n in ("x", "y", "scratch")],
        "tensors": [{"name": "x", "role": "input", "pointer": "x", "type": "float32", "shape": ["count"]},
                    {"name": "y", "role": "output", "pointer": "y", "type": "float32", "shape": ["count"]}]}]}
