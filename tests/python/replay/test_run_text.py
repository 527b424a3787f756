"""What `msda-replay run` prints for a person: groups of findings with what they share, help, widths and colours."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios

import numpy as np
import pytest
from conftest import GRADIENTS, REPLAY
from support.problems import backward
from support.report_page import drawn
from support.run_results import check_schema, right_invocation
from support.terminal import read_terminal

from msda_replay import Invocation, Result, write_capture


def squeezed(text):
    """Without line breaks, as a paragraph is read."""
    return re.sub(r"\s+", " ", text)


def run_both(replay, tmp_path, invocations, *flags, expect=1):
    path = tmp_path / "a.h5"
    write_capture(path, invocations, overwrite=True)
    result = replay("run", path, "--json", "-", *flags, expect=expect).json
    check_schema(result)
    return result, replay("run", path, *flags, expect=expect).out


def groups_of(result, cause):
    (call,) = result["invocations"]
    return [group for group in call["groups"] if group["cause"] == cause and not group.get("advisory")]


def test_a_single_finding(replay, demo_capture):
    lines = replay("run", demo_capture, expect=1).out.splitlines()
    text = squeezed("\n".join(lines))
    assert text.startswith("The reference is wrong, the recorded kernel right, in 1 element of grad_sampling_locations")
    assert f" --> {demo_capture}, at fault: reference " in text
    assert "error[cell_boundary]: the reference is wrong in 1 element of grad_sampling_locations" in text
    assert "where: grad_sampling_locations[0,948,0,0,2,0]: batch 0, query 948, head 0, level 0 (64 x 64), point 2, x what:" in text
    assert "what: recorded -128.07782, reference 131.80838, float64 -128.077826: 260 apart, 1.32 allowed why:" in text
    for part in ("2.99999976 (0x403fffff)", "3 (0x40400000)", "1 ULP", "2.9999997615814209"):
        assert part in text
    assert "help: " in text
    assert "a test against grid_sample in float32 fails in 1 element, reported above for the same cause" in text
    assert text.count("query 948") == 1  # an element is reported once


def test_the_command_of_help_works(replay, demo_capture, tmp_path):
    """Also for a name that a shell would take apart, and with the flags that decide what is compared."""
    path = tmp_path / "it's a $capture.h5"
    path.write_bytes(open(demo_capture, "rb").read())
    text = replay("run", path, "--atol", 0.5, expect=1).out
    (command,) = re.findall(r"^ +(msda-replay stages .*)$", text, re.M)
    assert "--atol 0.5" in command
    environment = {**os.environ, "PATH": f"{REPLAY.parent}:{os.environ['PATH']}"}
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, env=environment)
    assert done.stderr == "" and "pixel_coordinates" in done.stdout
    write_capture(path, [right_invocation(np.random.default_rng(1)), right_invocation(np.random.default_rng(2))], overwrite=True)
    text = replay("run", path, "--atol", 0, "--rtol", 0, expect=1).out
    numbers = [int(number) for number in re.findall(r"msda-replay stages .* --invocation (\d)", text)]
    assert numbers == sorted(numbers) and set(numbers) == {0, 1}


def test_swapped_width_and_height(replay, tmp_path, rng):
    invocation = right_invocation(rng, levels=((4, 4), (10, 6)))
    wrong = invocation.outputs["grad_sampling_locations"]
    wrong[:, :, :, 1, :, 0] *= np.float32(10 / 6)
    wrong[:, :, :, 1, :, 1] *= np.float32(6 / 10)
    result, text = run_both(replay, tmp_path, invocation)
    (group,) = groups_of(result, "implementation_error")
    assert group["shared"] == {"batch": 0, "level": 1} and group["as_if"] == "width and height were swapped"
    ratios = {pattern["part"]["axis"]: pattern["ratio"] for pattern in group["patterns"]}
    assert ratios["x"] == pytest.approx(10 / 6, rel=1e-4) and ratios["y"] == pytest.approx(0.6, rel=1e-4)
    assert sum(pattern["count"] for pattern in group["patterns"]) == group["count"]
    x, y = (sum(p["count"] for p in group["patterns"] if p["part"]["axis"] == axis) for axis in "xy")
    assert f"x is 1.67 times what it should be ({x} elements); y is 0.6 times what it should be ({y} elements): as if width and" in squeezed(text)
    assert "level 1 (10 x 6)" in text


def test_ratios_of_levels_and_of_all(replay, tmp_path, rng):
    invocation = right_invocation(rng)
    invocation.outputs["grad_attention_weights"] *= np.float32(1.1)
    result, text = run_both(replay, tmp_path, invocation)
    (group,) = groups_of(result, "implementation_error")
    (pattern,) = group["patterns"]
    assert pattern["ratio"] == pytest.approx(1.1, rel=1e-3) and "part" not in pattern
    assert "each is 1.1 times what it should be" in text
    invocation.outputs["grad_attention_weights"][:, :, :, 1] *= np.float32(1.5)
    (group,) = groups_of(run_both(replay, tmp_path, invocation)[0], "implementation_error")
    assert [(p["part"], round(p["ratio"], 2)) for p in group["patterns"]] == [({"level": 0}, 1.1), ({"level": 1}, 1.65)]


def test_a_pattern_of_a_whole_tensor(replay, tmp_path, rng):
    """All of it is a single finding, as its elements lie one behind the other."""
    source, index = rng.standard_normal((512, 32)).astype(np.float32), rng.integers(0, 32, 512)
    right = np.zeros((32, 32))
    np.add.at(right, index, source.astype(np.float64))
    facts = {"operator": "scatter_add", "reduce": "sum", "dim": 0, "dim_size": 32, "include_self": 1}
    wrong = {"scaled": right * 1.01, "moved": np.concatenate([np.zeros((1, 32)), right[:-1]])}
    for name, what in (("scaled", "each is 1.01 times what it should be"), ("moved", "as if everything had been added at row + 1 in place of row")):
        before = {"sum": np.zeros((32, 32), np.float32)}
        write_capture(tmp_path / f"{name}.h5", Invocation({"index": index, "source": source}, {"sum": wrong[name].astype(np.float32)}, "",
                                                          facts=facts, outputs_before=before))
        lines = replay("run", tmp_path / f"{name}.h5", expect=1).out.splitlines()
        assert lines[lines.index("  where: every element") + 1] == f"  what:  {what}"


def test_values_without_a_pattern_have_none(replay, tmp_path, rng):
    invocation = right_invocation(rng)
    shape = invocation.outputs["grad_attention_weights"].shape
    invocation.outputs["grad_attention_weights"] = rng.standard_normal(shape).astype(np.float32)
    result, text = run_both(replay, tmp_path, invocation)
    (group,) = groups_of(result, "implementation_error")
    assert group["patterns"] == [] and group["as_if"] == "" and "times what it should be" not in text


def test_where_the_elements_lie(replay, tmp_path, rng):
    """The last queries are not handled; one head; the whole tensor."""
    invocation = right_invocation(rng)
    for name in ("grad_sampling_locations", "grad_attention_weights"):
        invocation.outputs[name][:, 16:] = 0
    result, text = run_both(replay, tmp_path, invocation)
    for group in groups_of(result, "implementation_error"):
        assert group["extents"]["query"] == {"size": 20, "first": 16, "last": 19, "distinct": 4}
        assert group["complete"] and group["as_if"] == "it had never been computed"
    assert "all in batch" not in text and "every element of queries 16 to 19" in squeezed(text)
    invocation = right_invocation(rng)
    invocation.outputs["grad_value"][:, :, 1] *= -1
    result, text = run_both(replay, tmp_path, invocation)
    (group,) = groups_of(result, "implementation_error")
    assert group["shared"] == {"batch": 0, "head": 1} and "head 1" in text
    assert group["as_if"] == "its sign were flipped"


def test_groups_hold_every_element_once(replay, tmp_path, rng):
    """The reference is wrong in some, the recorded side in others, of which some miss both."""
    invocation = right_invocation(rng)
    reference = {name: array.copy() for name, array in invocation.outputs.items()}
    reference["grad_attention_weights"][0, :5] *= 2
    invocation.outputs["grad_attention_weights"][0, 10:] *= -1
    invocation.results["torch"] = Result(reference, "reference", "grid_sample")
    result, text = run_both(replay, tmp_path, invocation)
    groups = groups_of(result, "implementation_error")
    assert sum(group["count"] for group in groups) == result["verdict"]["causes"]["implementation_error"]
    by_fault = {group["at_fault"]: group for group in groups}
    assert by_fault["observed"]["extents"]["query"]["first"] == 10 and by_fault["reference"]["extents"]["query"]["last"] == 4
    assert groups[0]["at_fault"] == result["verdict"]["at_fault"] == "observed"  # what the verdict rests on comes first
    assert "each is 2 times what it should be" in text
    findings = result["invocations"][0]["findings"]
    for group in groups:
        assert findings[group["worst"]]["at_fault"] == group["at_fault"]


def test_nobody_is_at_fault_where_nobody_set_the_tolerance_that_is(replay, tmp_path, rng):
    """0.35 * 10 - 0.5 is 3 in float32 and less in float64: no float32 kernel meets float64 there. Alone, among others, and on the page."""
    invocation = right_invocation(rng, tolerance=None, levels=((10, 10),))
    locations = invocation.inputs["sampling_locations"]
    locations[0, 3, 1, 0, 1, 0] = 0.35000002
    x = backward(invocation.inputs)["grad_sampling_locations"][0, 3, 1, 0, 1, 0]
    invocation.outputs = {name: array.astype(np.float32) for name, array in backward(invocation.inputs).items()}
    locations[0, 3, 1, 0, 1, 0] = 0.35
    assert abs(x - backward(invocation.inputs)["grad_sampling_locations"][0, 3, 1, 0, 1, 0]) > 1, "no jump"
    result, text = run_both(replay, tmp_path, invocation)
    assert result["verdict"]["at_fault"] == "tolerance" and result["verdict"]["causes"] == {"cell_boundary": 1}
    assert squeezed(text).startswith("No kernel is wrong: the precision of the type explains 1 element of grad_sampling_locations (cell_boundary,")
    title = "warning[cell_boundary]: no kernel is wrong: the precision of the type explains 1 element of grad_sampling_locations"
    (tmp_path / "two").mkdir()
    for name in "ab":
        write_capture(tmp_path / "two" / f"{name}.h5", invocation)
    many = replay("run", tmp_path / "two", expect=1).out
    replay("report", tmp_path / "a.h5", "-o", tmp_path / "a.html")
    page = drawn(tmp_path / "a.html")
    assert title in squeezed(text) and title.replace("1 element", "2 elements") in squeezed(many)
    for subject in (text, many, page, result["verdict"]["summary"]):
        assert not re.search("olerance is (at fault|tighter)|fault: tolerance|asks for more", subject)
    assert ">nobody<" in page
    given = replay("run", tmp_path / "a.h5", "--atol", 1e-3, "--rtol", 1e-2, expect=1).out
    assert given.startswith("The tolerance is at fault, no kernel is wrong, in 1 element") and ", at fault: tolerance " in squeezed(given)
    assert "the tolerance is tighter than the arithmetic can meet in 1 element" in squeezed(given)


def test_cancellation_is_told_of_what_cancels(replay, tmp_path, rng):
    result, text = run_both(replay, tmp_path, right_invocation(rng, tolerance=(0, 1e-9)))
    assert "ill_conditioned, cancellation, or a coordinate's error, magnifies rounding" in squeezed(text)
    kinds = set()
    for finding in result["invocations"][0]["findings"]:
        if finding["cause"] not in ("rounding", "ill_conditioned"):
            continue
        evidence = finding["evidence"]
        cancels, by_coordinate = evidence["condition_number"] > 2, evidence["from_coordinates"] > evidence["from_rounding"]
        assert (finding["cause"] == "ill_conditioned") == (cancels or by_coordinate)
        assert ("is what is left of" in finding["why"]) == cancels and ("little cancels" in finding["why"]) != cancels, finding["why"]
        assert ("through the coordinates" in finding["why"]) == (finding["cause"] == "ill_conditioned")
        kinds.add((cancels, by_coordinate))
    assert len(kinds) > 2


def test_an_infinity_times_a_weight_that_is_rounded_to_0_is_no_mistake(replay, tmp_path, rng):
    """0.85 * 10 - 0.5 is 8 in float32, and a little more in float64: there the pixel after it gets an infinity, here a NaN."""
    invocation = right_invocation(rng, levels=((10, 10),))
    inputs = invocation.inputs
    inputs["grad_output"][0, 3, 1, 2] = np.inf
    inputs["sampling_locations"][0, 3, 1, 0, 1] = (0.85, 0.37)
    with np.errstate(all="ignore"):
        invocation.outputs = {name: array.astype(np.float32) for name, array in backward(inputs).items()}
    column = invocation.outputs["grad_value"].reshape(1, 10, 10, 2, 8)[0, :, 9, 1, 2]
    assert np.isinf(column).any()
    column[np.isinf(column)] = np.nan
    result, _ = run_both(replay, tmp_path, invocation)
    assert {group["at_fault"] for group in result["invocations"][0]["groups"] if group["tensor"] == "grad_value"} == {"none"}


def test_invocations_within_tolerance_are_folded(replay, tmp_path, rng):
    right = [right_invocation(rng) for _ in range(4)]
    wrong = right_invocation(rng)
    wrong.outputs["grad_value"] *= -1
    _, text = run_both(replay, tmp_path, [right[0], right[1], wrong, right[2], right[3]])
    assert "Invocations 0-1, 3-4: within tolerance" in text
    assert len(re.findall("^Invocation 2: ", text, re.M)) == 1
    verbose = run_both(replay, tmp_path, [right[0], right[1], wrong], "--verbose")[1]
    assert [int(n) for n in re.findall(r"^Invocation (\d): ", verbose, re.M)] == [0, 1, 2]


def test_tables_are_verbose(replay, demo_capture):
    assert "max abs" not in replay("run", demo_capture).out
    text = replay("run", demo_capture, "--verbose").out
    for name in GRADIENTS:
        assert re.search(rf"^  {name} +out of tolerance +max abs +max rel +max ULP", text, re.M)
    (jump,) = re.findall(r"^ +recorded : reference +1 of 24,000 .*$", text, re.M)
    assert jump.split()[-1] == "-"  # so many units in the last place say nothing
    (close,) = re.findall(r"^ +recorded : float64 +0 of 174,080 .*$", text, re.M)
    assert close.split()[-1] == "9"


@pytest.mark.parametrize("dtype, digits", [(np.float64, 17), (np.float32, 9)])
def test_digits_tell_values_apart(replay, tmp_path, rng, dtype, digits):
    invocation = right_invocation(rng, dtype=dtype, tolerance=(0, 0))
    outputs = invocation.outputs["grad_attention_weights"]
    outputs[0, 3, 0, 0, 0] = np.nextafter(outputs[0, 3, 0, 0, 0], dtype(np.inf))
    outputs[0, 3, 0, 0, 0] = np.nextafter(outputs[0, 3, 0, 0, 0], dtype(np.inf))
    text = replay_text = run_both(replay, tmp_path, invocation, "--verbose")[1]
    for recorded, expected in re.findall(r"recorded (\S+), float64 (\S+):", squeezed(replay_text)):
        assert recorded != expected, text


class TestWidth:
    @pytest.mark.parametrize("columns", [60, 80, 120])
    @pytest.mark.parametrize("colour", ["never", "always"])
    def test_text_fits(self, replay, demo_capture, columns, colour):
        environment = {**os.environ, "COLUMNS": str(columns)}
        text = replay("run", demo_capture, "--color", colour, env=environment).out
        plain = re.sub(r"\x1b\[[0-9;]*m", "", text)
        for line in plain.splitlines():
            assert len(line) <= columns or line.startswith((" -->", "         msda-replay stages")) or str(demo_capture) in line, line
        assert max(map(len, plain.splitlines())) > columns - 20
        assert squeezed(plain) == squeezed(replay("run", demo_capture).out)

    def test_out_of_the_way(self, replay, demo_capture):
        for wish, width in (("10", 60), ("100000", 120), ("wide", 80), ("", 80)):
            text = replay("run", demo_capture, env={**os.environ, "COLUMNS": wish}).out
            running = [line for line in text.splitlines() if not line.startswith((" -->", "         msda-replay")) and str(demo_capture) not in line]
            assert width - 20 < max(map(len, running)) <= width


def on_terminal(columns, *arguments, **variables):
    """What the command writes to a terminal of so many columns."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    environment = {name: text for name, text in os.environ.items() if name not in ("NO_COLOR", "COLUMNS")}
    process = subprocess.Popen([REPLAY, *map(str, arguments)], stdout=theirs, stderr=subprocess.DEVNULL,
                               env={**environment, "TERM": "xterm", **variables})
    os.close(theirs)
    text = read_terminal(ours)
    os.close(ours)
    process.wait()
    return text.replace("\r\n", "\n")


class TestColour:
    def test_on_a_terminal(self, replay, demo_capture):
        text = on_terminal(70, "run", demo_capture)
        assert text.startswith("\x1b[1;31mThe reference is wrong") and "\x1b[1;34mwhy:\x1b[0m" in text
        plain = re.sub(r"\x1b\[[0-9;]*m", "", text)
        assert "\x1b" not in plain
        assert plain == replay("run", demo_capture, env={**os.environ, "COLUMNS": "70"}).out
        for line in text.splitlines():  # none reaches over a line's end
            assert "\x1b" not in line or line.rindex("\x1b[0m") == line.rindex("\x1b")

    def test_not_wanted(self, demo_capture):
        plain = on_terminal(70, "run", demo_capture, "--color", "never")
        assert "\x1b" not in plain
        assert on_terminal(70, "run", demo_capture, NO_COLOR="1") == plain
        assert on_terminal(70, "run", demo_capture, TERM="dumb") == plain
        assert on_terminal(70, "run", demo_capture, NO_COLOR="") != plain

    def test_none_in_a_pipe(self, replay, demo_capture):
        assert "\x1b" not in replay("run", demo_capture).out
        assert "\x1b[1;31m" in replay("run", demo_capture, "--color", "always").out
        assert "--color" in replay("run", demo_capture, "--color", "blue", expect=2).err

    def test_by_verdict(self, replay, tmp_path, rng):
        path = tmp_path / "a.h5"
        write_capture(path, right_invocation(rng))
        assert replay("run", path, "--color", "always", expect=0).out.startswith("\x1b[1;32m")
        assert replay("run", path, "--color", "always", "--atol", 0, "--rtol", 0).out.startswith("\x1b[1;33m")


def test_control_characters_stay_escaped(replay, tmp_path, rng):
    invocation = right_invocation(rng)
    invocation.kernel = "a\x1b[31mkernel\n"
    invocation.outputs["grad_value"] *= -1
    text = run_both(replay, tmp_path, invocation, "--color", "always")[1]
    assert "a\\x1b[31mkernel\\n" in text and "\x1b[31m" not in text


def test_grid_sample_is_wrong_heads_the_text(replay, demo_capture, tmp_path):
    """A capture of the failing call without the reference: a test against grid_sample fails, and the kernel is right."""
    from msda_replay import read_capture

    (invocation,) = read_capture(demo_capture).invocations
    invocation.results = {}
    result, text = run_both(replay, tmp_path, invocation, expect=0)
    assert result["verdict"]["at_fault"] == "none" and result["verdict"]["causes"] == {}
    assert squeezed(text).startswith("A test against grid_sample in float32 fails: grid_sample is wrong, the recorded kernel right, in 1 element "
                                     "of grad_sampling_locations, at [0,948,0,0,2,0] (cell_boundary, ")
    assert "at fault: none" not in text and "note[cell_boundary]:" in text
    both = [invocation, right_invocation(np.random.default_rng(3))]
    assert "grid_sample is wrong" in squeezed(run_both(replay, tmp_path, both, expect=0)[1].split(" -->")[0])
