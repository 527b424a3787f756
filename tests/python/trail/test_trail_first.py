"""Which of several differences msda-replay diff calls the first: not one that nothing behind it shows, and not one that a launch before
it explains, whose own result cannot be compared. The trails are made by hand."""

import pytest
from support.made_trails import (
    ADAM,
    CONV,
    COPY_IN,
    COPY_OUT,
    DIGESTED,
    FRESH,
    GEMM,
    LAUNCH,
    MEASURES,
    PLACE,
    RELU,
    SET,
    STEP,
    UNORDERED,
    UNSCALE,
    Row,
    digest,
    from_row,
    parameters,
    training,
    write_trail,
)

FILL = "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIfEESt5arrayIPcLm1EEEEviT0_T1_"
STEPS, EARLY, AT = 400, 20, 150  # steps: 3,600 launches; one in which a result differs without effect; one in which the runs part


@pytest.fixture
def diff(replay, tmp_path):
    def run(a, b, expect):
        files = [write_trail(tmp_path / f"{name}.h5", rows) for name, rows in (("a", a), ("b", b))]
        return replay("diff", *files, "--json", "-", expect=expect).json

    return run


def at(kernel, step=AT):
    return step * STEP + PLACE[kernel]


def with_scratch(rows, step=EARLY, kernel=RELU, count=1):
    """Other bytes in what some launches wrote, in some steps, which no later row shows."""
    for i in range(count):
        rows[at(kernel, step + i)].digest ^= 0xFF
    return rows


def first_of(result):
    first = result["first"]
    return (first["a"] or first["b"])["row"], first["kind"], first["cause"]


def test_a_result_that_nothing_shows_is_a_note(diff):
    result = diff(training(STEPS), with_scratch(training(STEPS)), 0)
    assert result["equal"] and result["first"] is None
    assert result["notes"][0].startswith("another result of 1 launch after which many are equal, first launch")


def test_a_result_of_other_parameters_is_no_note(diff):
    b = with_scratch(training(STEPS))
    b[at(RELU, EARLY)].parameters = parameters(None, 4097)
    assert first_of(diff(training(STEPS), b, 1)) == (at(RELU, EARLY), "other_parameters", None)


@pytest.mark.parametrize("step", [STEPS - 1, STEPS - 100])
def test_a_result_near_the_end_is_no_note(diff, step):
    """Fewer than 1,024 launches behind it are too few to say so: it may be what the program was run for."""
    assert first_of(diff(training(STEPS), with_scratch(training(STEPS), step, ADAM), 1)) == (at(ADAM, step), "other_output", None)


def test_a_result_that_the_host_reads_is_no_note(diff):
    b = training(STEPS)
    b[EARLY * STEP + STEP - 1].digest ^= 1
    assert b[EARLY * STEP + STEP - 1].kind == COPY_OUT
    assert not diff(training(STEPS), with_scratch(b), 1)["equal"]


def test_many_results_are_no_note(diff):
    assert first_of(diff(training(STEPS), with_scratch(training(STEPS), count=65), 1)) == (at(RELU, EARLY), "other_output", None)


def test_other_data_come_first_where_a_result_before_has_no_effect(diff):
    result = diff(training(STEPS), with_scratch(training(STEPS, from_row(at(COPY_IN)))), 1)
    assert result["first"]["kind"] == "other_output"  # training()'s copies do not depend on it
    b = training(STEPS, from_row(at(COPY_IN)))
    b[at(COPY_IN)].digest ^= 1
    result = diff(training(STEPS), with_scratch(b), 1)
    assert first_of(result) == (at(COPY_IN), "other_input", "batch")
    assert any(note.startswith("another result of 1 launch") for note in result["notes"])


def test_a_result_without_origin_of_its_own_may_be_the_late_effect_of_one_before(diff):
    assert first_of(diff(training(STEPS), with_scratch(training(STEPS, from_row(at(CONV)))), 1)) == (at(RELU, EARLY), "other_output", None)


def test_a_fill_with_the_value_that_was_there(diff):
    """Its first run changed nothing, so that nothing of it is digested in that run; what reads the number shows it, a step later."""
    fill, reads = at(RELU), at(ADAM, AT + 10)
    a, b = training(STEPS), training(STEPS, from_row(reads))
    a[fill].parameters, b[fill].parameters = parameters(None, 0x44800000), parameters(None, 0x44000000)
    a[fill].parts, a[fill].bytes, b[fill].parts, b[fill].bytes = "", 0, "8+0:16", 16
    assert first_of(diff(a, b, 1)) == (fill, "other_parameters", None)


@pytest.mark.parametrize("scratch", [False, True])
@pytest.mark.parametrize("scale", [False, True])
def test_a_number_that_is_read_much_later(diff, scale, scratch):
    """Many launches give equal results between the fill that sets another number and the launch that reads it. What is digested of the
    fill is more than the number."""
    fill, reads = at(RELU), at(CONV, AT + 100)
    a, b = training(STEPS), training(STEPS, from_row(reads))
    for rows, number in ((a, 0x44800000), (b, 0x44000000 if scale else 0x44812345)):
        rows[fill] = Row(LAUNCH, FILL, grid=(1, 1, 1), parameters=parameters(number << 32 | 1, None), bytes=176, digest=number)
        rows[at(ADAM, 0)].kernel = UNSCALE
    result = diff(a, with_scratch(b) if scratch else b, 1)
    assert first_of(result) == (fill, "other_parameters", "loss_scale" if scale else None)
    assert any(note.startswith("another result of 1 launch") for note in result["notes"]) == scratch


def test_a_launch_that_another_stream_disturbs_and_whose_results_cannot_be_compared(diff):
    a, b = training(STEPS), training(STEPS, from_row(at(RELU) + 1))
    for rows, parts in ((a, "8+0:1048560"), (b, "")):
        rows[at(RELU)].parts, rows[at(RELU)].flags = parts, DIGESTED | UNORDERED
    assert first_of(diff(a, b, 1)) == (at(RELU), "other_output", "unordered_streams")


@pytest.mark.parametrize("launches", [0, 70])
def test_memory_that_was_first_used_long_before_explains_nothing(diff, launches):
    differs = at(ADAM)
    a, b = training(STEPS), training(STEPS, from_row(differs))
    used = differs - launches - launches // 3
    for rows, what in ((a, "a"), (b, "b")):
        rows.insert(used, Row(FRESH, bytes=1 << 20, parts="", digest=digest(what)))
    assert first_of(diff(a, b, 1)) == (differs + 1, "other_output", None if launches else "unwritten_memory")


def measured(chosen, tried, result):
    """A convolution by a library that tries kernels, twice each, and takes the last."""
    own = [Row(LAUNCH, f"sm90_xmma_fprop_{name}_cudnn", digest=digest(name, i), flags=DIGESTED | (MEASURES if i else 0), code=name)
           for name in tried for i in range(2)]
    return [*own, Row(LAUNCH, f"sm90_xmma_fprop_{chosen}_cudnn", digest=result, code=chosen)]


@pytest.mark.parametrize("chosen", ["tile256", "tile128"])
def test_a_library_that_measures_in_one_run(diff, chosen):
    """The first kernel that it tries is the other run's, with the same result; the one that counts is the last."""
    place = at(CONV)
    is_other = chosen == "tile256"
    a, b = training(STEPS), training(STEPS, from_row(place) if is_other else None)
    a[place] = Row(LAUNCH, "sm90_xmma_fprop_tile128_cudnn", digest=1, code="tile128")
    tried = [Row(LAUNCH, "sm90_xmma_fprop_tile128_cudnn", digest=1, code="tile128"), *measured(chosen, ["tile64", "tile256", "tile32"], 2 if is_other else 1)]
    b[place : place + 1] = tried
    result = diff(a, b, 1 if is_other else 0)
    if is_other:
        assert first_of(result) == (place, "another_kernel", "algorithm")
        assert result["first"]["b"]["row"] == place + len(tried) - 1 and "tile256" in result["first"]["b"]["kernel"]
    else:
        assert result["notes"] == ["7 launches with which a tuner measures are left out"]


def test_a_library_that_clears_memory_between_the_kernels_that_it_tries(diff):
    """What comes after the tried kernels belongs to both runs, so that neither is said to launch it in place of the other's."""
    place = at(CONV)
    a, b = training(STEPS), training(STEPS, from_row(place + 1))
    a[place] = Row(LAUNCH, "sm90_xmma_wgrad_tile128_cudnn", digest=1, code="tile128")
    tried = [a[place]]
    for name, flags in (("tile64", DIGESTED), ("tile64", DIGESTED | MEASURES), ("tile256", DIGESTED)):
        tried += [Row(SET, parameters=parameters(0), bytes=64, parts="0+64", digest=5, flags=flags),
                  Row(LAUNCH, f"sm90_xmma_wgrad_{name}_cudnn", digest=digest(name), flags=flags, code=name)]
    b[place : place + 1] = tried
    result = diff(a, b, 1)
    assert first_of(result) == (place, "another_kernel", "algorithm")
    assert result["first"]["b"]["row"] == place + len(tried) - 1 and "tile256" in result["first"]["b"]["kernel"]


def test_a_memset_before_another_kernel_is_not_the_first(diff):
    place = at(GEMM)
    a, b = training(STEPS), training(STEPS, from_row(place))
    b[place].kernel, b[place].code = "sm90_xmma_gemm_f32f32_cublas", "other"
    a.insert(place, Row(SET, parameters=parameters(0), bytes=64, parts="0+64", digest=5))
    assert first_of(diff(a, b, 1)) == (place + 1, "another_kernel", "algorithm")


def test_a_memset_and_quiet_launches_do_not_hide_what_parts_the_runs(diff):
    """Another kernel, whose own result cannot be compared, shows in few launches, and many equal ones lie between these; a result
    without effect was long before."""
    place = at(GEMM)
    a, b = training(STEPS), training(STEPS)
    b[place].kernel, b[place].code = "sm90_xmma_gemm_tf32_cublas", "other"
    a[place].parts, b[place].parts = "0+64", "0+128"
    a.insert(place, Row(SET, parameters=parameters(0), bytes=64, parts="0+64", digest=5))
    for step in (AT, AT + 20, AT + 50):
        b[at(ADAM, step)].digest ^= 1
    result = diff(a, with_scratch(b), 1)
    assert first_of(result) == (place + 1, "another_kernel", "tf32")
    assert any(note.startswith("another result of 1 launch") for note in result["notes"])
