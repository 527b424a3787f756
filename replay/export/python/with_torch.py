def test_against_torch():
    """The same element by this machine's torch, whose CPU and GPU kernels round coordinates in different ways."""
    torch = __import__("pytest").importorskip("torch")
    by_torch = grad_by_torch(torch, "cuda" if torch.cuda.is_available() else "cpu")[INDEX]
    value = recorded()[INDEX]
    if not within_tolerance(value, by_torch):
        raise AssertionError(report(value, STORED[f"observed_{TENSOR}"], by_torch, by_torch.dtype.name, "torch"))


