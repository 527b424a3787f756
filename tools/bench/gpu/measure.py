"""Measures all contenders on one problem, in alternation."""

import time

from harness import summary

from . import verify
from .clock import Track
from .problems import draw, input_sets


class Measuring:
    """What all problems have in common."""

    def __init__(self, library, contenders, clock, device):
        self.library, self.contenders, self.clock, self.device = library, contenders, clock, device

    def cell(self, problem, dtype, contention, runs, seconds=None, least=5, hosts=False):
        """By contender: {"cold": summary, "warm": summary}, or {"absent": why}; optionally "note" and, with `hosts`, "host".

        `runs` rounds; with `seconds`, no more than fit into them, but `least`. In a round each contender has one turn
        with the current inputs, in an order that rotates from round to round.
        """
        caches = self.clock.caches
        try:
            count = input_sets(problem, dtype, self.clock.cache_bytes)
            sets, why = verify.attempt(lambda: [draw(problem, dtype, contention, seed, self.device) for seed in range(count)])
            if why:
                return {contender.name: {"absent": why} for contender in self.contenders}
            found, tracks = self._warm_up(dtype, sets[0], caches)
            self._rounds(found, tracks, sets, caches, runs, seconds, least)
            for contender in tracks if hosts else ():
                times, _ = verify.attempt(lambda: self.clock.host_microseconds(contender.prepare(sets[0])))  # noqa: B023
                if times:
                    found[contender.name]["host"] = summary(times)
            return found
        finally:
            sets = None
            self.clock.release()

    def _warm_up(self, dtype, inputs, caches):
        """Returns what the first calls of each contender showed, and the tracks of the contenders to measure."""
        found, tracks, truths = {}, {}, verify.Truths(self.library, inputs)
        for contender in self.contenders:
            track = Track()
            result, failure = verify.attempt(lambda: self._first_calls(contender, track, dtype, inputs, truths, caches))  # noqa: B023
            absent, note = result or (failure, None)
            if absent:
                found[contender.name] = {"absent": absent}
            else:
                tracks[contender] = track
                found[contender.name] = {"note": note} if note else {}
        return found, tracks

    def _first_calls(self, contender, track, dtype, inputs, truths, caches):
        """Compiles, tunes, checks the results, and lets the clock determine how long the host takes."""
        if hasattr(contender, "begin"):
            contender.begin()
        call = contender.prepare(inputs)
        absent, note = verify.verdict(contender, call, inputs, truths, dtype)
        begin, turns = time.perf_counter(), 0
        while not absent and turns < 3 and time.perf_counter() - begin < 0.3:
            for cache in caches:
                self.clock.milliseconds(call, cache, track)
            turns += 1
        track.widen()
        return absent, note

    def _rounds(self, found, tracks, sets, caches, runs, seconds, least):
        begin, taking_part = time.perf_counter(), list(tracks)
        times = {contender: {cache: [] for cache in caches} for contender in tracks}

        def take_turn(contender, inputs):
            call = contender.prepare(inputs)
            for cache in caches:
                times[contender][cache].append(self.clock.milliseconds(call, cache, tracks[contender]))

        for turn in range(runs):
            if seconds and turn >= least and time.perf_counter() - begin > seconds:
                break
            shift = turn % max(1, len(taking_part))
            for contender in taking_part[shift:] + taking_part[:shift]:
                _, failure = verify.attempt(lambda: take_turn(contender, sets[turn % len(sets)]))  # noqa: B023
                if failure:
                    taking_part.remove(contender)
                    found[contender.name] = {"absent": failure}
        for contender in taking_part:
            found[contender.name].update({cache: summary(numbers) for cache, numbers in times[contender].items()})
            if tracks[contender].waits:
                found[contender.name]["note"] = "waits for the device: the host's time shows"
