"""Random calls of operators that scatter: what is recorded is what the program had, what msda-replay makes of it, and the
orders of additions that it finds."""

import collections
import hashlib
import json

from .bench import Skip, expect, invocations_of, tail

OPERATORS = ("scatter_add", "interpolate", "roi_align")
# An order is to be found for this share of the elements with 1 to 15 additions, where the kernel adds one at a time.
FOUND = 0.99
LIMIT_S = 240  # of a program: 900 calls
# Limits the search for orders of more additions, for which nothing is promised. Elements with fewer take their time besides.
ORDERS_LIMIT_S = 10


def random_problems(bench):
    """Returns the cases of the check `scatter`; all calls are recorded in one process."""
    operators = [name for name in OPERATORS if name != "roi_align" or not bench.missing("torchvision")]
    done, capture = bench.record(bench.target("scatter_random", "--problems", bench.scatter_problems, "--operators", ",".join(operators)),
                                 limit=LIMIT_S)
    told, calls = told_by(done.stdout), invocations_of(capture, done)

    def count():
        expect(len(calls) == len(told), f"{len(calls)} calls are recorded, {len(told)} were launched: {tail(done.stderr)}; "
               f"first missing: {first_missing(told, calls)}")
        return f"{len(calls)} calls"

    yield "random, every call once", count
    for operator in OPERATORS:
        if operator in operators:
            mine = [pair for pair in zip(told.items(), calls) if operator_of(pair[0][0]) == operator]
            yield f"random {operator}, tensors", lambda mine=mine: as_told(mine)
        else:
            yield f"random {operator}, tensors", lambda: skip(bench.missing("torchvision"))
    yield "random, explained", lambda: explained(bench, capture, len(calls))
    found = orders_of(bench, capture)
    for operator in operators:
        yield f"random {operator}, orders", lambda operator=operator: judge_orders(found, operator)


def skip(reason):
    raise Skip(reason)


def operator_of(name):
    """Returns the operator of NUMBER-OPERATOR-ENTRY-TYPE."""
    return name.split("-")[1]


def told_by(out):
    """Returns the digests that the program printed: by call, in order, then by tensor."""
    told = collections.defaultdict(dict)
    for line in out.splitlines():
        call, tensor, digest = line.split()
        told[call][tensor] = digest
    return told


def digest_of(array, is_bfloat16):
    """Returns the SHA-1 of the bytes in row-major order. bfloat16 is read as float32; its bits are the upper half."""
    import numpy as np

    array = np.ascontiguousarray(array)
    if is_bfloat16 and array.dtype == np.float32:
        array = (array.view(np.uint32) >> 16).astype(np.uint16)
    return hashlib.sha1(array.tobytes()).hexdigest()


def tensors_of(call):
    """Returns the recorded tensors that the program prints, by its names."""
    ((_, result),) = call.outputs.items()
    return {**{name: array for name, array in call.inputs.items() if name != "self"}, "result": result}


def differing(name, told, call):
    """Returns the names of tensors whose bytes are not those of the program."""
    recorded = {tensor: digest_of(array, name.endswith("-bfloat16")) for tensor, array in tensors_of(call).items()}
    return sorted(tensor for tensor in told.keys() | recorded.keys() if told.get(tensor) != recorded.get(tensor))


def first_missing(told, calls):
    """Returns the first call of the program that is not in the capture at its place."""
    for (name, tensors), call in zip(told.items(), calls):
        if differing(name, tensors, call):
            return name
    return list(told)[len(calls)] if len(calls) < len(told) else "none"


def as_told(pairs):
    wrong = [f"{name}: {', '.join(names)}" for (name, tensors), call in pairs if (names := differing(name, tensors, call))]
    expect(not wrong, f"{len(wrong)} of {len(pairs)} calls have other tensors than the program: {'; '.join(wrong[:4])}")
    return f"{len(pairs)} calls, {sum(len(tensors) for (_, tensors), _ in pairs)} tensors"


def explained(bench, capture, calls):
    done = bench.replay("run", "--invocation", "all", "--json", "-", capture, expected=(0, 1), limit=LIMIT_S)
    return judge_run(json.loads(done.stdout), calls)


def judge_run(told, calls):
    """All calls are judged, and none for an implementation_error."""
    judged = len(told["invocations"])
    expect(judged == calls, f"{judged} of {calls} calls are replayed")
    wrong = [one["id"] for one in told["invocations"] if "implementation_error" in one["verdict"]["causes"]]
    expect(not wrong, f"an implementation_error in {len(wrong)} of {calls} calls, as in --invocation {wrong[0] if wrong else ''}: "
           f"{told['verdict']['summary']}")
    return f"{calls} calls", told["verdict"]["summary"]


def orders_of(bench, capture):
    done = bench.replay("order", "--invocation", "all", "--limit", ORDERS_LIMIT_S, "--list", "0", "--quiet", "--json", "-", capture,
                        expected=(0, 1, 3), limit=LIMIT_S)
    return json.loads(done.stdout) if done.stdout else {"invocations": [], "not_read": []}


def found_of(summary):
    return summary["explained_to_15"] + summary["in_parts_to_15"]


def judge_orders(told, operator):
    """Returns the share of elements with 1 to 15 additions of which an order is found, of kernels that add one at a time. Where other
    threads add to one channel of a pixel than to the next, channels may have an order each."""
    mine = [one for one in told["invocations"] if one["operator"] == operator and one["one_at_a_time"]]
    few = sum(one["summary"]["with_1_to_15"] for one in mine)
    found = sum(found_of(one["summary"]) for one in mine)
    worst = min(mine, key=lambda one: found_of(one["summary"]) - one["summary"]["with_1_to_15"], default=None)
    expect(few > 0, f"no element of {operator} has 1 to 15 additions")
    expect(found >= FOUND * few, f"an order for {found} of {few} elements with 1 to 15 additions, at least {FOUND:.0%} is promised; most are "
           f"missing in --invocation {worst['id'] if worst else ''}")
    return f"{found / few:.2%} of {few}", f"{len(mine)} calls whose kernel adds one at a time"
