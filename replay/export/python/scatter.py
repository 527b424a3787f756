

# --- Operators that scatter: an element adds up numbers of the source, each times a weight. contributions(real) gives both, in order.


def tree_sum(addends):
    """Halves, quarters, ...: the sum of the first half and the sum of the second half."""
    if len(addends) <= 1:
        return addends[0] if addends else 0
    half = (len(addends) + 1) // 2
    return tree_sum(addends[:half]) + tree_sum(addends[half:])


def exact_sum(found, begin):
    """In float64, one after the other. What rounding alone may bring to the element has a weight of 0, and no NaN of its own."""
    total = np.float64(0)
    for number, weight in found:
        if abs(weight) > 1e-9 or math.isfinite(number):
            total = total + np.float64(weight) * np.float64(number)
    return total if begin is None else total + np.float64(begin)


def gradient(_, real, steps):
    found = list(contributions(real))
    begin, divisor = held(len(found)), divided_by(len(found))
    steps["addends"] = len(found)
    if real is np.float64:
        steps["sum"] = exact_sum(found, begin)
        return steps["sum"] / np.float64(divisor)
    addends = [] if begin is None else [real(begin)]
    addends += [real(weight) * real(number) for number, weight in found]
    steps["sum"] = real(tree_sum(addends))
    return real(np.float64(steps["sum"]) * (np.float64(1) / np.float64(divisor)))


def held(_):
    """What is in the element without any source; None: nothing."""


def divided_by(_):
    return 1
