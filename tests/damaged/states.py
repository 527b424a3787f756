"""Damaged state files of `minimize` and `stress`: JSON that means something else, most of it with the digest that it should have."""

import copy
import json
import os

from support.damage import BYTEWISE
from msda_replay.digest import digest

VALUES = (-1, 0, 1, 2**31 - 1, 2**31, 2**62, 2**63 - 1, 2**63, -2**63, 2**64 - 1, 2**64, 10**400, 0.5, -0.0, 1e308, -1e308, 5e-324, "x", "", "1",
          "\u202e", "\x1b[2J", "\ud800", "a" * 100_000, "xxh3-128:" + "0" * 32, None, True, False, [], {}, [[[]]], {"a": {"b": [1]}},
          list(range(2000)), [-1], [0, 0], [5, 4, 3], [2**62], [0.5], [True])
DEPTHS = (20, 5_000, 200_000)
SPECIAL = ("fifo", "zero", "folder", "dangling", "empty", "sparse")


def _places(value, at=()):
    """Yields the paths of all values in JSON; of a long list a few."""
    yield at
    members = value.items() if isinstance(value, dict) else enumerate(value[:6]) if isinstance(value, list) else ()
    for key, member in members:
        yield from _places(member, (*at, key))


def _at(value, path):
    for key in path:
        value = value[key]
    return value


def _change(root, places):
    """Makes one change somewhere in a JSON object."""
    path = places.choice([path for path in _places(root) if path])
    parent, key, old = _at(root, path[:-1]), path[-1], _at(root, path)
    change = places.randrange(10)
    if change == 0:
        del parent[key]
    elif change == 1 and isinstance(parent, dict):
        parent[places.choice(("x", "", "\u202e", key + "x"))] = old
    elif change == 2:
        parent[key] = copy.deepcopy(_at(root, places.choice(list(_places(root)))))
    elif change <= 5 and isinstance(old, list) and old:
        at = places.randrange(len(old))
        parent[key] = places.choice((old[::-1], old + old, old[:at], old[at:] + old[:at], old[:at] + [places.choice(VALUES)] + old[at + 1:], old * 50))
    elif change <= 7 and isinstance(old, (int, float)) and not isinstance(old, bool):
        parent[key] = places.choice((-old, old + 1, old - 1, old * 2**40, old / 3 if abs(old) < 2**1000 else old // 3, str(old), -old - 1))
    else:
        parent[key] = copy.deepcopy(places.choice(VALUES))


def _text(state):
    return json.dumps(state, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass")


def _signed(state):
    """With the digest that it should have: in minimize's state of the part `reached`, in that of stress of all else; its results have none."""
    if isinstance(state, dict) and "digest" in state:
        del state["digest"]
        state["digest"] = digest(_text(state.get("reached", state)))
    return state


def _deep(state, places):
    """Returns brackets in place of a value, more than a stack holds."""
    depth = places.choice(DEPTHS)
    opening, closing = places.choice((("[", "]"), ('{"a":', "}")))
    nest = (opening * depth + "1" + closing * depth).encode()
    path = places.choice([path for path in _places(state) if path and len(path) < 4])
    _at(state, path[:-1])[path[-1]] = "NEST"
    return nest if places.random() < 0.2 else _text(state).replace(b'"NEST"', nest, 1)


def special(target, what):
    """Makes something that is no regular file, or a very large one."""
    if what == "fifo":
        os.mkfifo(target)
    elif what == "folder":
        os.mkdir(target)
    elif what in ("zero", "dangling"):
        os.symlink("/dev/zero" if what == "zero" else "/nowhere/at/all", target)
    else:
        with open(target, "wb") as file:
            file.truncate(1 << 40 if what == "sparse" else 0)


def damage(source, target, places):
    """Writes a damaged state."""
    kind = places.random()
    if kind < 0.02:
        return special(target, places.choice(SPECIAL))
    data = bytearray(source.read_bytes())
    if kind < 0.25:
        for _ in range(places.randint(1, 2)):
            if data:
                places.choice(BYTEWISE)(data, places)
    else:
        state = json.loads(data)
        inner = "reached" if "reached" in state and places.random() < 0.7 else None
        for _ in range(places.randint(1, 3)):
            if isinstance(state[inner] if inner else state, dict) and (state[inner] if inner else state):
                _change(state[inner] if inner else state, places)
        signed = _signed(state) if places.random() < 0.85 else state
        data = _deep(signed, places) if kind < 0.30 and signed else _text(signed)
    target.write_bytes(data)
