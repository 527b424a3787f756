"""To wait for what another process does, and to limit what it computes."""

import contextlib
import resource
import time


def wait_until(holds, seconds=20):
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it did not come to that"
        time.sleep(0.01)


def _processor_seconds():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


@contextlib.contextmanager
def computing_at_most(seconds):
    """Limits the processor time of the commands inside, which other work on the machine does not lengthen."""
    begin = _processor_seconds()
    yield
    assert _processor_seconds() - begin < seconds
