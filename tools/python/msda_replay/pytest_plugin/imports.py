"""Calls a function once a module has been imported, by the program and never by this plugin."""

import importlib.abc
import importlib.util
import sys
from typing import Any, Callable, Dict


class ImportHook(importlib.abc.MetaPathFinder):
    """From install() on calls `callbacks[name]` with each module of such a name when its import has ended; at once if it has ended
    before."""

    def __init__(self, callbacks: Dict[str, Callable[[Any], None]]):
        self._callbacks = callbacks
        self._finding = False

    def install(self):
        if self in sys.meta_path:
            return
        sys.meta_path.insert(0, self)
        for name, callback in self._callbacks.items():
            if sys.modules.get(name) is not None:
                callback(sys.modules[name])

    def uninstall(self):
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(self, name, path, target=None):
        if name not in self._callbacks or self._finding:
            return None
        self._finding = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._finding = False
        if spec is None or spec.loader is None:
            return spec
        run = spec.loader.exec_module

        def run_and_call(module):
            run(module)
            self._callbacks[name](module)

        setattr(spec.loader, "exec_module", run_and_call)  # noqa: B010 (a type checker refuses a method as a target)
        return spec
