def test_against_torch():
    """The same element by this machine's torch, whose CPU and GPU kernels round coordinates in different ways."""
    torch = __import__("pytest").importorskip("torch")
    other = grad_by_torch(torch, "cuda" if torch.cuda.is_available() else "cpu")[INDEX]
    one = recorded()[INDEX]
    if not within_tolerance(one, other):
        raise AssertionError(report(one, STORED[f"observed_{TENSOR}"], other, other.dtype.name, "torch"))


