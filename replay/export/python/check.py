

# --- The comparison.


def recorded():
    """The gradient to judge: as recorded. To test a fixed kernel, return its result for the same inputs."""
    return TENSORS[f"observed_{TENSOR}"]


def computed(dialect, real, steps=None):
    with np.errstate(all="ignore"):
        return gradient(dialect, real, {} if steps is None else steps)


def expected():
    """What the recorded value is compared with, and the type that it is stored in."""
    if AGAINST == "reference":
        return TENSORS[f"reference_{TENSOR}"][INDEX], STORED[f"reference_{TENSOR}"]
    if AGAINST == "float64":
        return computed(DIALECT, np.float64), "float64"
    stored = STORED[f"observed_{TENSOR}"]
    return rounded_to(stored, computed(AGAINST, np.dtype(ARITHMETIC).type)), stored


def within_tolerance(value, reference):
    """Compares as torch.testing.assert_close does; what is compared with exact results must be finite."""
    value, reference = float(value), float(reference)
    if value == reference:
        return AGAINST != "float64" or math.isfinite(value)
    return math.isfinite(reference) and abs(value - reference) <= ATOL + RTOL * abs(reference)


def table():
    """What each arithmetic gives, step by step."""
    columns = {}
    for dialect, real in dict.fromkeys([(DIALECT, ARITHMETIC), *((dialect, ARITHMETIC) for dialect in OTHER_DIALECTS),
                                        (DIALECT, "float64")]):
        steps = {}
        value = computed(dialect, np.dtype(real).type, steps)
        steps["value"] = value
        columns[f"{dialect} {real}"] = {
            name: str(x) if isinstance(x, int) else f"{x!s} ({bits_of(real, x)})" for name, x in steps.items()}
    names = [name for name in max(columns.values(), key=len)]
    rows = [["", *columns], *([name, *(column.get(name, "") for column in columns.values())] for name in names)]
    widths = [max(map(len, column)) for column in zip(*rows)]
    return "\n".join("    " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows)


def report(value, stored, wanted, wanted_stored, against):
    element = f"{TENSOR}[{','.join(map(str, INDEX))}]"
    apart, allowed = abs(float(value) - float(wanted)), ATOL + RTOL * abs(float(wanted))
    return "\n".join([
        f"{element} is out of tolerance: recorded {value!s}, {against} {wanted!s}",
        f"  recorded: {value!s} ({stored} {bits_of(stored, value)})",
        f"  {against}: {wanted!s} ({wanted_stored} {bits_of(wanted_stored, wanted)})",
        f"  apart: {apart:g}, allowed {allowed:g} (atol {ATOL:g}, rtol {RTOL:g})",
        f"  cause: {CAUSE}, at fault: {AT_FAULT}", f"  why: {WHY}", "  step by step:", table(),
    ])


def test_recorded_gradient():
    value, stored = recorded()[INDEX], STORED[f"observed_{TENSOR}"]
    wanted, wanted_stored = expected()
    if not within_tolerance(value, wanted):
        raise AssertionError(report(value, stored, wanted, wanted_stored, AGAINST))


