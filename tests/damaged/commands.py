"""What is run on a damaged file: every command that reads it, as a user would start it, with little to compute."""

from dataclasses import dataclass

from .seeds import STRESS


@dataclass
class Command:
    """Its arguments; `names`: of these files one must be named where it refuses. `end_after`: seconds after which it is interrupted, as by Ctrl-C,
    which must end it. `made`: a capture that it writes, which must then be whole."""

    name: str
    arguments: list
    names: list
    statuses: tuple = (0, 1, 2, 3)
    end_after: float = None
    made: object = None
    json: bool = False


ONE_THREAD = ("--threads", "1")
EXPORTS = {"pytest": "e.py", "cpp": "e.cpp", "npz": "archive.npz", "zip": "e.zip", "tensorboard": "events"}
SEARCH_SECONDS = 0.8  # of minimize, as long as a search may go on


def of_capture(path, whole, folder, places):
    """`whole`: the capture that was damaged."""
    damaged = ("--damaged",) if places.random() < 0.7 else ()
    replayed = (*ONE_THREAD, *damaged)
    on_cpu = (*replayed, "--device", "cpu")  # no machine code of a damaged file runs on a GPU
    few_runs = ("--runs", "2", *replayed)

    def command(name, *arguments, **more):
        more.setdefault("names", [path])
        json = ("--json", "-") if places.random() < 0.3 else ()
        return Command(name, [name.split()[0], *arguments, *json], json=bool(json), **more)

    yield command("list", path)
    yield command("verify", path)
    yield command("survey", path, *places.choice(((), ("--all",))))
    yield command("show", path)
    yield command("run", path, *on_cpu, *places.choice(((), (), ("--verbose",), ("--mode", "recorded_order"), ("--reference", "0"),
                                                          ("--save-replays", folder / "replays.h5"))))
    yield command("order", path, *replayed, "--limit", "0.2", "--seconds-each", "0.1", "--moves", "50", "--exhaustive", "6")
    yield command("stress", path, *few_runs, "--curve-runs", "0", *places.choice(((), ("--invocation", "all"))))
    yield command("advise", path, *few_runs, "--check-runs", "2", *places.choice(((), ("--markdown",), ("--patch",))))
    yield command("gradcheck", path, *replayed, "--samples", "4")
    yield command("minimize", path, "-o", folder / "small.h5", *replayed, end_after=SEARCH_SECONDS, made=folder / "small.h5", statuses=(0, 2, 3, 130))
    yield command("stages", path, *on_cpu)
    sides = [path, whole] if places.random() < 0.5 else [whole, path]
    yield command("diff", *sides, *replayed, *places.choice(((), ("--slices",))), names=sides)
    yield command("report", path, "-o", folder / "page.html", *on_cpu, *places.choice(((), (), (), ("--stress", "2"))))
    for kind, target in EXPORTS.items():
        yield command(f"export {kind}", path, "--to", kind, "-o", folder / target, *replayed)


def of_spool(path, folder, places):
    made = folder / "recovered.h5"
    for stages in ("none", places.choice(("summary", "full"))):
        yield Command("recover", ["recover", path, "-o", made, "--force", "--stages", stages], [path, made], (0, 2), made=made)


def of_state(command, path, capture, small):
    """Yields commands that take the damaged state of a command; for minimize it is the state of `small`."""
    if command == "stress":
        yield Command("stress --state", ["stress", capture, *STRESS, "--runs", "4", "--least-runs", "4", "--state", path], [path], (0, 1, 2))
        return
    if command == "report":  # what `stress --json` found
        yield Command("report --stress-json", ["report", capture, "-o", small.with_suffix(".html"), *ONE_THREAD, "--device", "cpu", "--stress-json", path], [path])
        return
    for name, flags, seconds in (("minimize", (), SEARCH_SECONDS), ("minimize --from-scratch", ("--force", "--from-scratch"), 0.1)):
        yield Command(name, ["minimize", capture, "-o", small, *ONE_THREAD, *flags], [path, small, capture], (0, 2, 130), end_after=seconds, made=small)
