"""Times of one call, with the caches cold or warm. On a GPU only the device's time counts."""

import time

import torch

FLUSH_BYTES = 256 << 20


class Track:
    """What the clock knows about one contender: how long the device must be kept busy while the host enqueues its work."""

    def __init__(self):
        self.cycles = 500_000  # a quarter of a millisecond
        self.waits = False  # the call itself waits for the device

    def widen(self):
        self.cycles = min(self.cycles * 2, DeviceClock.MOST_CYCLES)


class DeviceClock:
    """CUDA events around a call.

    Before the first event the device is given something to wait for, long enough that the host has enqueued the call and
    the second event before the device reaches the first: between the two the device never waits for the host. That is
    checked each time, by asking whether the first event is still ahead, and a time that fails the check is not used.

    cold: 256 MB are written before. warm: the same call with the same inputs ran before.
    """

    caches = ("cold", "warm")
    MOST_CYCLES = 100_000_000  # 50 ms

    def __init__(self):
        self.cache_bytes = torch.cuda.get_device_properties(torch.cuda.current_device()).L2_cache_size
        self.junk = torch.empty(max(FLUSH_BYTES, 4 * self.cache_bytes), dtype=torch.uint8, device="cuda")

    def milliseconds(self, call, cache, track):
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        while True:
            torch.cuda.synchronize()
            if cache == "cold":
                self.junk.zero_()
            torch.cuda._sleep(track.cycles)
            if cache == "warm":
                call()
            start.record()
            call()
            stop.record()
            ahead = not start.query()
            stop.synchronize()
            if ahead or track.waits:
                return start.elapsed_time(stop)
            # If 50 ms are not enough, enqueueing is not the reason: the call waits for the device itself, which is reported.
            track.waits = track.cycles == self.MOST_CYCLES
            track.widen()

    def host_microseconds(self, call, runs=1000):
        """Returns how long the host takes to enqueue the call while the device waits for it; each run's."""
        found = []
        for run in range(runs + 20):
            torch.cuda.synchronize()
            begin = time.perf_counter()
            call()
            if run >= 20:
                found.append(1e6 * (time.perf_counter() - begin))
        return found

    def release(self):
        torch.cuda.empty_cache()


class HostClock:
    """Wall time on the CPU, where a call returns when it is done."""

    caches = ("warm",)
    cache_bytes = 32 << 20

    def milliseconds(self, call, cache, track):
        begin = time.perf_counter()
        call()
        return 1e3 * (time.perf_counter() - begin)

    def release(self):
        pass
