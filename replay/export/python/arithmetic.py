# --- Arithmetic. Every sign below is one rounding, in the type of its operands: np.float32 or np.float64.


def fma(a, b, c):
    """a*b + c, rounded once."""
    real = type(a)
    if not (math.isfinite(a) and math.isfinite(b) and math.isfinite(c)):
        return a * b + c
    exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
    if exact == 0:
        return a * b + c  # has the right sign
    try:
        near = float(exact)
    except OverflowError:
        return real(math.copysign(math.inf, exact))
    if real is np.float32 and Fraction(near) != exact and int(np.float64(near).view(np.uint64)) % 2 == 0:
        near = np.nextafter(near, math.copysign(math.inf, exact - Fraction(near)))  # to odd, so that only the next line rounds
    return real(near)


def sum_over_channels(some, others):
    """The sum of products: 32 lanes, lane j takes channels j, j + 32, ...; then the lanes are added in pairs."""
    lanes = [type(some[0])(0)] * 32
    for i, (a, b) in enumerate(zip(some, others)):
        lanes[i % 32] = fma(a, b, lanes[i % 32])
    while len(lanes) > 1:
        lanes = [a + b for a, b in zip(lanes[::2], lanes[1::2])]
    return lanes[0]


def sum_by_runs(addends):
    """Runs of up to 32 addends from left to right, then runs of up to 32 such sums, and so on."""
    while len(addends) > 1:
        addends = [functools.reduce(operator.add, addends[i:i + 32]) for i in range(0, len(addends), 32)]
    return addends[0]


def rounded_to(stored, x):
    """x rounded once into a type that tensors are stored in."""
    if stored == "bfloat16":
        if not math.isfinite(x):
            return np.float32(x)
        bits = int(np.float32(x).view(np.uint32))
        return np.uint32((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000).view(np.float32)
    return np.dtype(stored).type(x)


def bits_of(stored, x):
    """"0x3f800000", of a value that the type has."""
    if stored == "bfloat16":
        return f"0x{int(np.float32(x).view(np.uint32)) >> 16:04x}"
    size = np.dtype(stored).itemsize
    return f"0x{int(np.dtype(stored).type(x).view(f'u{size}')):0{2 * size}x}"
