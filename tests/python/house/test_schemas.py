"""Every command with --json has a strict schema in docs/, which its output follows, and whose fields are all met or explained."""

import re
import subprocess

import jsonschema
import numpy as np
import pytest
from conftest import DATA, REPLAY, SOURCE
from support import schemas
from support.problems import backward, make_problem
from support.schemas import validator

from msda_replay import Invocation, Result, write_capture

SCHEMAS = {name.removesuffix(".schema.json"): schema for name, schema in schemas.SCHEMAS.items()}
# `report` writes what `run` does.
SHARED = {"report": "run"}


def help_of(*command):
    return subprocess.run([REPLAY, *command, "--help"], capture_output=True, text=True).stdout


def objects_in(schema, path=""):
    """Every part of a schema that has properties."""
    if isinstance(schema, dict):
        is_condition = path.rsplit("/", 1)[-1] in ("if", "then", "else")
        if isinstance(schema.get("properties"), dict) and not is_condition:
            yield path, schema
        for key, part in schema.items():
            yield from objects_in(part, f"{path}/{key}")
    elif isinstance(schema, list):
        for place, part in enumerate(schema):
            yield from objects_in(part, f"{path}/{place}")


def test_every_command_with_json_has_a_schema():
    commands = re.findall(r"^  ([a-z]+) ", help_of().split("Subcommands:")[1], re.M)
    with_json = {command for command in commands if re.search(r"^  --json ", help_of(command), re.M)}
    assert len(with_json) >= 14
    assert {SHARED.get(command, command) for command in with_json} <= set(SCHEMAS)
    text = (SOURCE / "docs" / "commands.md").read_text()
    for name in SCHEMAS:
        assert f"({name}.schema.json)" in text, f"docs/commands.md does not name {name}.schema.json"


@pytest.mark.parametrize("name", SCHEMAS)
def test_schemas_are_strict(name):
    """No object takes fields of other names, but those that say of what."""
    jsonschema.Draft7Validator.check_schema(SCHEMAS[name])
    for path, entry in objects_in(SCHEMAS[name]):
        assert "additionalProperties" in entry, path
        another = entry["additionalProperties"]
        assert another is False or (isinstance(another, dict) and another), path
        assert set(entry.get("required", ())) <= set(entry["properties"]), path


@pytest.mark.parametrize("name", SCHEMAS)
def test_results_name_their_schema(name):
    """By its $id, which is the file's name, so that schemas refer to each other by it."""
    schema = SCHEMAS[name]
    assert schema["$id"] == f"{name}.schema.json"
    named = [entry["properties"]["schema"] for _, entry in objects_in(schema) if "schema" in entry["properties"]]
    assert named and all(entry == {"const": schema["$id"]} for entry in named)


def operators_in(folder):
    """A capture with a call of each operator, all with an element that is wrong, and one of a kernel of none."""
    rng = np.random.default_rng(5)
    inputs = make_problem(rng, queries=6)
    right = {name: array.astype(np.float32) for name, array in backward(inputs).items()}
    wrong = {**right, "grad_value": -right["grad_value"]}
    ones = lambda *shape: np.ones(shape, np.float32)  # noqa: E731
    align = {"align_corners": 0}
    calls = [
        Invocation(inputs, wrong, "deformable_detr", results={"torch": Result(right, "reference", "grid_sample")}, atol=1e-3, rtol=1e-2),
        Invocation({"input": ones(1, 1, 3, 3), "grid": ones(1, 2, 2, 2) / 3, "grad_output": ones(1, 1, 2, 2)},
                   {"grad_input": ones(1, 1, 3, 3)}, "", facts={"interpolation": "bilinear", "padding_mode": "zeros", **align}),
        Invocation({"index": np.array([0, 1, 1]), "source": ones(3, 2)}, {"sum": ones(2, 2)}, "",
                   facts={"reduce": "sum", "dim": 0, "dim_size": 2, "include_self": 0}),
        Invocation({"grad_output": ones(1, 1, 4, 4)}, {"grad_input": ones(1, 1, 2, 2)}, "",
                   facts={"mode": "bilinear", "input_height": 2, "input_width": 2, **align}),
        Invocation({"boxes": np.float32([[0, 0, 0, 4, 4]]), "grad_output": ones(1, 1, 2, 2)}, {"grad_input": ones(1, 1, 5, 5)}, "",
                   facts={"spatial_scale": "1", "sampling_ratio": 2, "aligned": 1, "input_batch": 1, "input_height": 5, "input_width": 5}),
        Invocation({"x": ones(3)}, {"y": ones(3)}, "", kernel="another", facts={"note": "mine", "width": 3}),
    ]
    write_capture(folder / "all.h5", calls)
    return folder / "all.h5"


@pytest.fixture(scope="module")
def captures(tmp_path_factory, demo_capture):
    folder = tmp_path_factory.mktemp("schemas")
    return {"operators": operators_in(folder), "demo": demo_capture, "recorded": DATA / "v0.1" / "recorded.h5",
            "imported": DATA / "v0.1" / "imported.h5"}


OF_CAPTURES = [["list"], ["show"], ["stages"], ["verify"], ["report", "-o", "page.html"], ["run", "--device", "cpu"], ["order"],
               ["export", "--to", "tensorboard", "-o", "logs"]]


@pytest.mark.parametrize("capture, command", [
    pytest.param(capture, command, id=f"{capture}-{command[0]}", marks=[pytest.mark.long] * ((capture, command[0]) == ("demo", "order")))
    for capture in ("operators", "demo", "recorded", "imported") for command in OF_CAPTURES])
def test_output_follows_the_schema(replay, captures, tmp_path, capture, command):
    printed = replay(command[0], captures[capture], *command[1:], "--json", "-", cwd=tmp_path)
    assert printed.status in (0, 1), printed.err
    validator(SHARED.get(command[0], command[0])).validate(printed.json)
    marks = printed.json[0] if command[0] == "list" else printed.json
    assert list(marks)[:2] == ["schema", "version"] and f"msda-replay {marks['version']}\n" in replay("--version").out
    calls = printed.json[0]["invocations"] if command[0] == "list" else printed.json.get("invocations", [None])
    assert calls, "nothing was checked"


def test_verify_of_damaged_and_several(replay, captures, tmp_path):
    whole = captures["demo"].read_bytes()
    value = np.load(DATA / "h200_border_noalign_0.npz")["value"].tobytes()
    damaged = bytearray(whole)
    damaged[damaged.index(value[:64]) + 5] ^= 1
    (tmp_path / "damaged.h5").write_bytes(damaged)
    (tmp_path / "none.h5").write_text("no capture")
    validate = validator("verify").validate
    entry = replay("verify", tmp_path / "damaged.h5", "--json", "-", expect=2).json
    validate(entry)
    assert [tensor["object"] for tensor in entry["damaged"]] == ["/invocations/000000/inputs/value"]
    several = replay("verify", captures["demo"], tmp_path, "--json", "-", expect=2).json
    validate(several)
    assert [found["status"] for found in several["captures"]] == [0, 2, 2]


def test_a_field_more_is_refused(replay, captures):
    """The schemas notice what they do not describe."""
    for command in ("list", "show", "stages", "verify"):
        result = replay(command, captures["demo"], "--json", "-", expect=0).json
        (result[0] if command == "list" else result)["surprise"] = 1
        with pytest.raises(jsonschema.ValidationError):
            validator(command).validate(result)
