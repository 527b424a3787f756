"""Which folder of the recorder may include which: no file includes from a folder above its own."""

import re

import pytest

from conftest import SOURCE

PRELOAD = "recorder/preload/"
MAY_INCLUDE = {
    "recorder/spool": {"recorder/spool"},
    "recorder/capture": {"recorder/capture", "recorder/text"},
    "recorder/device": {"recorder/device"},
    "recorder/text": {"recorder/text"},
    "recorder/adapters": {"recorder/adapters", "kernels"},
    PRELOAD + "session": {PRELOAD + "session", "recorder/spool", "recorder/adapters", "recorder/device", "recorder/text"},
    PRELOAD + "driver": {PRELOAD + "driver", "recorder/spool", "recorder/device", "kernels"},
    PRELOAD + "launch": {PRELOAD + "launch", PRELOAD + "driver", PRELOAD + "session", "recorder/spool", "recorder/adapters",
                         "recorder/device", "kernels"},
    PRELOAD + "hooks": {PRELOAD + "hooks", "recorder/device", PRELOAD + "launch", PRELOAD + "driver", PRELOAD + "session", "kernels"},
    "recorder/writer": {"recorder/writer", "recorder/capture", "recorder/spool", "recorder/device", "recorder/adapters",
                        "recorder/text", "kernels"},
}


@pytest.mark.parametrize("room", MAY_INCLUDE)
def test_includes_no_room_above(room):
    files = [path for path in (SOURCE / room).iterdir() if path.suffix in (".h", ".cpp")]
    assert files
    for path in files:
        for header in re.findall(r'^#include "([^"]+)/[^/"]+"', path.read_text(), re.M):
            assert header in MAY_INCLUDE[room], f"{path.relative_to(SOURCE)} includes from {header}"


def test_every_room_is_here():
    rooms = {str(path.parent.relative_to(SOURCE)) for path in (SOURCE / "recorder").rglob("*.cpp")}
    assert rooms == set(MAY_INCLUDE)
