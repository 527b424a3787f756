"""msda-replay diff of two runs' trails: the launch at which they part, its kind and its cause. The trails are made by hand, so that
where they part is known."""

import dataclasses
import shutil

import h5py
import pytest
from support.made_trails import (
    ADAM,
    CONV,
    COPY_IN,
    COPY_OUT,
    DIGESTED,
    DROPOUT,
    FRESH,
    GEMM,
    HOST,
    LAUNCH,
    LAUNCHES,
    LOCKED,
    MEASURES,
    PLACE,
    RELU,
    SCATTER,
    SET,
    SPARSE,
    STEP,
    TRITON,
    UNORDERED,
    UNSCALE,
    Row,
    digest,
    from_row,
    launches_before,
    parameters,
    training,
    write_trail,
)
from support.report_page import read as read_page
from support.schemas import check

STEPS = 20
AT = 7  # the step in which the runs part


@pytest.fixture
def diff(replay, tmp_path):
    """diff(rows, rows): what --json says of files with these rows; keywords are write_trail's, with _a or _b."""

    def run(a, b, *flags, expect, **options):
        files = []
        for name, rows in (("a", a), ("b", b)):
            own = {key[:-2]: value for key, value in options.items() if key.endswith(f"_{name}")}
            files.append(write_trail(tmp_path / f"{name}.h5", rows, **own))
        result = replay("diff", *files, "--json", "-", *flags, expect=expect).json
        check(result, "diff")
        assert result["kind"] == "trail" and result["equal"] == (expect == 0) == (result["first"] is None)
        return result

    return run


def place(kernel, step=AT):
    return step * STEP + PLACE[kernel]


def parted_at(result, rows, at, kind, cause):
    first = result["first"]
    assert (first["a"]["row"], first["kind"], first["cause"]) == (at, kind, cause), first
    if rows[at].kind == LAUNCH:
        assert first["a"]["launch"] == launches_before(rows, at) + 1
    return first


def test_equal_runs(diff, replay, tmp_path):
    result = diff(training(STEPS), training(STEPS), expect=0)
    assert result["compared"] == {"launches": LAUNCHES * STEPS, "copies": 2 * STEPS, "sets": STEPS, "unknown": 0, "measuring": 0}
    assert result["notes"] == [] and result["after"]["rows"] == 0
    text = replay("diff", tmp_path / "a.h5", tmp_path / "b.h5").out
    assert text == f"Equal: {LAUNCHES * STEPS} launches, {2 * STEPS} copies, {STEPS} memsets\n"


def test_another_result_with_atomics(diff, replay, tmp_path):
    at = place(SCATTER)
    a, b = training(STEPS), training(STEPS, from_row(at))
    result = diff(a, b, expect=1, argv_a=("python3", "my train.py"))
    first = parted_at(result, a, at, "other_output", "float_atomics")
    launch = launches_before(a, at) + 1
    assert first["next"] == f"msda-replay survey --from {launch} --to {launch} -- python3 'my train.py'"
    assert first["a"]["caller"] == {"node": "IndexAddBackward0", "operation": "aten::index_add_"}
    assert first["a"]["digest"] == f"{a[at].digest:016x}" and first["b"]["digest"] == f"{b[at].digest:016x}"
    differing = sum(x.digest != y.digest for x, y in zip(a, b))
    assert result["after"] == {"rows": len(a) - at, "differ": differing, "unpaired": 0, "unknown": 0}
    text = replay("diff", tmp_path / "a.h5", tmp_path / "b.h5", expect=1).out
    assert text.splitlines()[0].startswith(f"The runs part at launch {launch} of {LAUNCHES * STEPS}: at::native::indexAddSmall<float>")
    assert all(len(line) <= 80 for line in text.splitlines() if "msda-replay" not in line)


def test_blocks_that_hand_results_on(diff):
    at = place(LOCKED)
    a = training(STEPS)
    parted_at(diff(a, training(STEPS, from_row(at)), expect=1), a, at, "other_output", "arrival_order")


def test_another_result_that_nothing_explains(diff):
    at = place(ADAM)
    a = training(STEPS)
    first = parted_at(diff(a, training(STEPS, from_row(at)), expect=1), a, at, "other_output", None)
    assert first["evidence"] == []


def test_streams_that_nothing_orders(diff):
    at = place(ADAM)
    a, b = training(STEPS), training(STEPS, from_row(at))
    b[at].flags |= UNORDERED
    first = parted_at(diff(a, b, expect=1), a, at, "other_output", "unordered_streams")
    assert first["next"].startswith("CUDA_LAUNCH_BLOCKING=1 msda-record --trail")


@pytest.mark.parametrize("kernel", [GEMM, SCATTER])
def test_memory_that_nobody_had_written(diff, kernel):
    at = place(kernel)

    def with_fresh(changed, content):
        rows = training(STEPS, changed)
        rows.insert(at, Row(FRESH, digest=digest("fresh", content)))
        rows.insert(3 * STEP, Row(FRESH, digest=digest("fresh", "equal")))
        return rows

    a, b = with_fresh(None, 1), with_fresh(from_row(at), 2)
    first = parted_at(diff(a, b, expect=1), a, at + 2, "other_output", "unwritten_memory")
    assert "--poison" in first["next"]
    # The same memory: it is something else.
    result = diff(a, with_fresh(from_row(at), 1), expect=1)
    assert result["first"]["cause"] == ("float_atomics" if kernel == SCATTER else None)


def test_what_was_compared_comes_before_what_may_be(diff):
    """Memory that an earlier launch was the first to use explains less than atomics of the launch itself, and more than nothing."""
    for kernel, cause in ((SCATTER, "float_atomics"), (ADAM, "unwritten_memory")):
        at = place(kernel)
        a, b = training(STEPS), training(STEPS, from_row(at))
        for content, rows in enumerate((a, b)):
            rows.insert(3 * STEP + 2, Row(FRESH, digest=content))
        first = parted_at(diff(a, b, expect=1), a, at + 1, "other_output", cause)
        assert any(f"launch {3 * LAUNCHES + 1} was the first to use" in text for text in first["evidence"])


def test_other_memory_that_changes_nothing_is_a_note(diff):
    a, b = training(STEPS), training(STEPS)
    a.insert(50, Row(FRESH, digest=1))
    b.insert(50, Row(FRESH, digest=2))
    result = diff(a, b, expect=0)
    assert result["notes"] == ["1 allocations held other data before anybody had written them"]


def test_another_algorithm(diff):
    at = place(CONV)
    a, b = training(STEPS), training(STEPS, from_row(at))
    for step in range(AT, STEPS):
        b[place(CONV, step)].kernel = "cudnn_winograd_4x4_kernel"
    first = parted_at(diff(a, b, expect=1), a, at, "another_kernel", "algorithm")
    assert first["b"]["kernel"] == "cudnn_winograd_4x4_kernel" and first["b"]["row"] == at
    assert first["next"].startswith("msda-record --kernel ")


def test_an_algorithm_of_more_kernels(diff):
    at = place(CONV)
    a, changed = training(STEPS), training(STEPS, from_row(at))
    b = []
    for i, row in enumerate(changed):
        if i >= at and row.kernel == CONV:
            for part in ("cudnn_nchwToNhwc", "cudnn_winograd_4x4_kernel", "cudnn_nhwcToNchw"):
                b.append(dataclasses.replace(row, kernel=part, digest=digest(i, part)))
        else:
            b.append(row)
    result = diff(a, b, expect=1)
    first = parted_at(result, a, at, "another_kernel", "algorithm")
    assert (first["a"]["rows"], first["b"]["rows"], first["b"]["row"]) == (1, 3, at)
    # Everything else keeps its partner.
    steps = STEPS - AT
    assert result["after"]["unpaired"] == 4 * steps and result["after"]["rows"] == len(a) - at + 3 * steps


def test_another_algorithm_with_the_same_result_is_a_note(diff):
    a, b = training(STEPS), training(STEPS)
    b[place(CONV)].kernel = "cudnn_winograd_4x4_kernel"
    b[place(GEMM)].code = "other code"
    b[place(RELU)].grid = (1, 2, 3)
    b[place(SCATTER)].parameters = parameters(None, 5)
    result = diff(a, b, expect=0)
    assert [note.split(",")[0] for note in result["notes"]] == [
        "other code and the same result in 1 launch",
        "other grid or block and the same result in 1 launch",
        "other parameters and the same result in 1 launch",
        "only in A: 1 row after which results are equal",
        "only in B: 1 row after which results are equal",
    ]


@pytest.mark.parametrize("how", ["code", "grid"])
def test_a_tuner_chose_otherwise(diff, how):
    at = place(TRITON)
    a, b = training(STEPS), training(STEPS, from_row(at))
    for step in range(AT, STEPS):
        row = b[place(TRITON, step)]
        if how == "code":
            row.code = "code triton, other block"
        else:
            row.grid = (32, 1, 1)
    # Each run measures as often as it likes.
    for rows, times in ((a, 5), (b, 11)):
        for i in range(times):
            rows.insert(30, Row(LAUNCH, TRITON, digest=digest("measured", i), flags=DIGESTED | MEASURES))
    result = diff(a, b, expect=1)
    first = parted_at(result, a, at + 5, "another_kernel" if how == "code" else "other_parameters", "tuner")
    assert first["b"]["row"] == at + 11 and "5 times in A, 11 times in B" in first["evidence"][0]
    assert result["compared"]["measuring"] == 16 and result["after"]["unpaired"] == 0
    # A tuner's measuring is counted among the program's launches.
    assert first["b"]["launch"] == launches_before(b, at + 11) + 1


@pytest.mark.parametrize("how", ["name", "environment"])
def test_tf32(diff, how):
    at = place(GEMM)
    a, b = training(STEPS), training(STEPS, from_row(at))
    for step in range(AT, STEPS):
        b[place(GEMM, step)].kernel = "cutlass_80_tensorop_s1688gemm_128x128_nn" if how == "name" else "ampere_sgemm_64x32_nn"
    variable = {"NVIDIA_TF32_OVERRIDE": "0"} if how == "environment" else {}
    first = parted_at(diff(a, b, expect=1, environment_a=variable), a, at, "another_kernel", "tf32")
    assert first["next"] == "NVIDIA_TF32_OVERRIDE=0 msda-record --trail -o again.h5 -- python3 train.py"


def test_kernels_of_float16_are_no_tf32(diff):
    at = place(GEMM)
    a, b = training(STEPS), training(STEPS, from_row(at))
    b[at].kernel = "turing_fp16_s1688gemm_fp16_128x128_nn"
    parted_at(diff(a, b, expect=1), a, at, "another_kernel", "algorithm")


def test_another_library(diff):
    at = place(CONV)
    a, b = training(STEPS), training(STEPS, from_row(at))
    b[at].kernel = "cudnn_winograd_4x4_kernel"
    result = diff(a, b, expect=1, libraries_a={"libcudnn.so.9": "/opt/a/libcudnn.so.9.1.0"}, libraries_b={"libcudnn.so.9": "/opt/b/libcudnn.so.9.2.1"})
    first = parted_at(result, a, at, "another_kernel", "library")
    assert first["evidence"][0] == "libcudnn.so.9: libcudnn.so.9.1.0 | libcudnn.so.9.2.1"
    # The same version elsewhere is the same.
    result = diff(a, b, expect=1, libraries_a={"libcudnn.so.9": "/opt/a/libcudnn.so.9.1.0"}, libraries_b={"libcudnn.so.9": "/opt/b/libcudnn.so.9.1.0"})
    assert result["first"]["cause"] == "algorithm" and result["notes"] == []


def test_another_gpu(diff):
    at = 2  # the first launch
    a, b = training(STEPS), training(STEPS, from_row(at))
    for row in b:
        row.architecture = "sm_80"
        row.code += " for sm_80"
    result = diff(a, b, expect=1, run_a={"gpu": "NVIDIA H200"}, run_b={"gpu": "NVIDIA A100"})
    parted_at(result, a, at, "another_kernel", "gpu")
    assert "gpu: NVIDIA H200 | NVIDIA A100" in result["notes"]


def test_another_driver(diff):
    at = place(ADAM)
    a, b = training(STEPS), training(STEPS, from_row(at))
    printed = diff(a, b, expect=1, libraries_a={"libcuda.so.1": "/x/libcuda.so.570.1"}, libraries_b={"libcuda.so.1": "/x/libcuda.so.580.1"})
    parted_at(printed, a, at, "other_output", "driver")


@pytest.mark.parametrize("seeds", [((), ()), ((1234,), (4321,))])
def test_another_seed_of_a_dropout(diff, seeds):
    at = place(DROPOUT)
    a, b = training(STEPS), training(STEPS, from_row(at))
    for step in range(AT, STEPS):
        b[place(DROPOUT, step)].parameters = parameters(None, 4321, 4 * step)
    first = parted_at(diff(a, b, expect=1, seeds_a=seeds[0], seeds_b=seeds[1]), a, at, "other_parameters", "generator")
    assert first["parameters"] == [{"offset": 8, "a": f"{1234:#018x}", "b": f"{4321:#018x}"}]
    assert (seeds != ((), ())) == ("is a seed" in first["evidence"][0])


def test_an_extra_draw_is_where_the_generator_parts(diff):
    at = place(DROPOUT)
    a, b = training(STEPS), training(STEPS, from_row(at))
    for step in range(AT, STEPS):
        b[place(DROPOUT, step)].parameters = parameters(None, 1234, 4 * step + 4)
    b.insert(AT * STEP + 1, Row(LAUNCH, "_ZN2at6native27distribution_nullary_kernelEv", digest=5))
    first = diff(a, b, expect=1)["first"]
    assert (first["kind"], first["cause"], first["a"], first["b"]["row"]) == ("only_in_b", "generator", None, AT * STEP + 1)
    assert f"launch {launches_before(a, at) + 1}," in first["evidence"][-1]


def test_other_scalars(diff):
    at = place(ADAM)
    a, b = training(STEPS), training(STEPS, from_row(at))
    b[at].parameters = parameters(None, 0x3F000000)
    first = parted_at(diff(a, b, expect=1), a, at, "other_parameters", None)
    assert first["parameters"] == [{"offset": 8, "a": "0x000000003f800000", "b": "0x000000003f000000"}]


def test_words_that_decide_nothing_are_no_other_parameters(diff):
    """Padding of a parameter differs in all launches of the kernel, and in most with equal results."""
    at = place(SCATTER)
    a, b = training(STEPS), training(STEPS, from_row(at))
    for step in range(STEPS):
        b[place(SCATTER, step)].parameters = parameters(None, None, 77 + step)
        a[place(SCATTER, step)].parameters = parameters(None, None, 0)
    parted_at(diff(a, b, expect=1), a, at, "other_output", "float_atomics")


def test_changes_of_parameters_are_read(diff):
    """The same, with parameters that are written as changes of an entry of the list."""
    at = place(ADAM)
    a, b = training(STEPS), training(STEPS, from_row(at))
    first = parted_at(diff(a, b, expect=1, changes_b=[(at, 8, 0x3F000000)]), a, at, "other_parameters", None)
    assert first["parameters"] == [{"offset": 8, "a": "0x000000003f800000", "b": "0x000000003f000000"}]


def test_another_order_of_the_data(diff):
    at = place(COPY_IN)
    a, b = training(STEPS), training(STEPS, from_row(at))
    another = place(COPY_IN, AT + 1)
    b[at].digest, b[another].digest = b[another].digest, b[at].digest
    first = parted_at(diff(a, b, expect=1), a, at, "other_input", "data_order")
    assert f"before launch {launches_before(a, another) + 1}" in first["evidence"][0]


def test_other_data(diff):
    at = place(COPY_IN)
    a, b = training(STEPS), training(STEPS, from_row(at))
    b[at].digest = 99
    first = parted_at(diff(a, b, expect=1), a, at, "other_input", "batch")
    assert first["a"]["launch"] is None and first["a"]["what"] == "copy_in"


def test_another_value_of_a_memset(diff):
    at = place(SET)
    a, b = training(STEPS), training(STEPS, from_row(at))
    b[at].digest = 99
    parted_at(diff(a, b, expect=1), a, at, "other_input", None)


def test_memory_of_the_host(diff):
    at = place(ADAM)
    a, b = training(STEPS), training(STEPS, from_row(at))
    a.insert(at, Row(HOST, digest=1, bytes=8))
    b.insert(at, Row(HOST, digest=2, bytes=8))
    first = parted_at(diff(a, b, expect=1), a, at, "other_input", "host_memory")
    assert f"launch {launches_before(a, at) + 1} " in first["evidence"][0]


def test_the_scale_of_the_loss(diff):
    at = place(ADAM)
    a, b = training(STEPS), training(STEPS, from_row(at))
    for rows in (a, b):
        rows[at].kernel = UNSCALE
        rows[at].caller = {"python": "grad_scaler.py:279 unscale_"}
    parted_at(diff(a, b, expect=1), a, at, "other_output", "loss_scale")


def test_an_insertion_amidst_equal_launches_is_a_note(diff):
    a, b = training(STEPS), training(STEPS)
    for i in range(3):
        b.insert(100 + i, Row(LAUNCH, RELU, digest=digest("extra", i)))
    result = diff(a, b, expect=0)
    assert len(result["notes"]) == 1 and result["notes"][0].startswith("only in B: 3 rows after which results are equal")
    assert result["compared"]["launches"] == LAUNCHES * STEPS


@pytest.mark.parametrize("swapped", [False, True])
def test_an_insertion_that_differences_follow(diff, swapped):
    at = place(ADAM)
    a, b = training(STEPS), training(STEPS, from_row(at))
    b.insert(at, Row(LAUNCH, "_Z5scalePf", digest=5))
    first = (diff(b, a, expect=1) if swapped else diff(a, b, expect=1))["first"]
    here, there = ("a", "b") if swapped else ("b", "a")
    assert (first["kind"], first[here]["row"], first[there]) == (f"only_in_{here}", at, None)
    assert first["next"] == "msda-record --kernel '^_Z5scalePf$' -o launch.h5 -- python3 train.py"


def test_an_insertion_long_before_a_launch_that_explains_itself(diff):
    """The extra launch changed nothing that the next launches read, and the difference has a cause of its own."""
    at = place(SCATTER)
    a, b = training(STEPS), training(STEPS, from_row(at))
    b.insert(30, Row(LAUNCH, "_Z3logPf", digest=5))
    result = diff(a, b, expect=1)
    parted_at(result, a, at, "other_output", "float_atomics")
    assert result["notes"][0].startswith("only in B: 1 row after which")


def test_an_insertion_explains_what_nothing_else_does(diff):
    """A launch without atomics cannot differ by itself: the extra launch wrote what it reads."""
    at = place(ADAM)
    a, b = training(STEPS), training(STEPS, from_row(at))
    b.insert(AT * STEP + 4, Row(LAUNCH, "_Z5scalePf", digest=5))
    first = diff(a, b, expect=1)["first"]
    assert (first["kind"], first["b"]["row"], first["a"]) == ("only_in_b", AT * STEP + 4, None)


def test_more_reading_is_a_note(diff):
    a, b = training(STEPS), training(STEPS)
    b.append(Row(COPY_OUT, digest=5))
    b.insert(40, Row(COPY_OUT, digest=6))
    diff(a, b, expect=0)


@pytest.mark.parametrize("at", [3, 11, STEPS])
def test_loops_of_equal_launches(diff, at):
    """B has a step more, of which no name shows where it is: only its results do."""
    a, rows = training(STEPS), training(STEPS + 1)
    extra = [dataclasses.replace(row, digest=digest("extra", i)) for i, row in enumerate(rows[:STEP])]
    b = a[: at * STEP] + extra + a[at * STEP :]
    if at == STEPS:  # nothing follows that could be equal
        result = diff(a, b, expect=1)
        assert (result["first"]["kind"], result["first"]["b"]["row"], result["first"]["b"]["rows"]) == ("only_in_b", at * STEP, STEP - 1)
        return
    result = diff(a, b, expect=0)
    assert result["compared"]["launches"] == LAUNCHES * STEPS and f"first the copy from the host before launch {LAUNCHES * at + 1}," in result["notes"][0]


def test_a_round_more_before_the_runs_part(diff):
    """Only results show that the third round is the one too many: then the others are equal, up to a launch with atomics."""
    at = place(SCATTER)
    a, changed = training(STEPS), training(STEPS, from_row(at))
    extra = [dataclasses.replace(row, digest=digest("extra", i)) for i, row in enumerate(a[:STEP])]
    result = diff(a, changed[: 3 * STEP] + extra + changed[3 * STEP :], expect=1)
    first = parted_at(result, a, at, "other_output", "float_atomics")
    assert first["b"]["row"] == at + STEP and result["notes"][0].startswith(f"only in B: {STEP} rows")


def test_rounds_of_a_loop_that_are_missing_here_and_there(diff):
    a = training(STEPS)
    b = [row for i, row in enumerate(a) if i // STEP not in (2, 9, 10, 15)]
    result = diff(a, b, expect=0)
    assert result["compared"]["launches"] == LAUNCHES * (STEPS - 4) and result["notes"][0].startswith(f"only in A: {4 * STEP} rows")


@pytest.mark.parametrize("streams", [1, 3])
def test_a_recording_that_ended_early(diff, replay, tmp_path, streams):
    """What the other run did later is not compared; a difference before that is one."""
    whole = training(STEPS)
    for i, row in enumerate(whole):
        row.stream = i % streams
    part, early = whole[: 5 * STEP + 3], {"trail_end": "early"}
    assert diff(part, whole, expect=1)["first"]["kind"] == "only_in_b"
    assert diff(part, whole, expect=1, run_b=early)["first"]["kind"] == "only_in_b"
    result = diff(part, whole, expect=0, run_a=early)
    assert result["compared"]["ended_early"] == 1 and result["compared"]["launches"] == 5 * LAUNCHES + 1
    assert result["notes"] == [f"A's recording ended early, after {5 * LAUNCHES + 1} launches: what the other run did later is not compared"]
    text = replay("diff", tmp_path / "a.h5", tmp_path / "b.h5", expect=0).out
    assert text.startswith(f"Equal: {5 * LAUNCHES + 1} launches, 11 copies, 6 memsets; 1 recording ended early\n")
    assert diff(whole, part, expect=0, run_b=early)["notes"][0].startswith("B's recording ended early, after ")
    part[2 * STEP + PLACE[SCATTER]] = dataclasses.replace(part[2 * STEP + PLACE[SCATTER]], digest=3)
    result = diff(part, whole, expect=1, run_a=early)
    assert result["first"]["a"]["row"] == 2 * STEP + PLACE[SCATTER] and result["after"]["unpaired"] == 0


def test_rows_of_other_parts_are_unknown(diff):
    """They are neither equal nor different; the index into the list is ignored."""
    a, b = training(STEPS), training(STEPS)
    b[place(GEMM)].parts, b[place(GEMM)].digest = "64+4032", 7
    b[place(TRITON)].flags, b[place(TRITON)].digest = 0, 8
    result = diff(a, b, expect=0)
    assert result["compared"]["unknown"] == 2 and result["compared"]["launches"] == LAUNCHES * STEPS - 2
    assert result["notes"][0].startswith("not comparable: 2 pairs without a digest, or of other memory, first launch")


def test_nothing_to_compare(replay, tmp_path):
    rows = training(2)
    for row in rows:
        row.flags = 0
    for name in "ab":
        write_trail(tmp_path / f"{name}.h5", rows)
    assert "no result can be compared" in replay("diff", tmp_path / "a.h5", tmp_path / "b.h5", expect=2).err
    for name in "ab":
        write_trail(tmp_path / f"{name}.h5", [])
    assert "hold no launches" in replay("diff", tmp_path / "a.h5", tmp_path / "b.h5", expect=2).err


def test_streams_may_overtake_one_another(diff):
    a = training(STEPS)
    for i, row in enumerate(a):
        row.stream = i % 2
    b = [row for pair in zip(a[1::2], a[::2]) for row in pair]
    result = diff(a, b, expect=0)
    assert result["notes"] == [] and result["compared"]["launches"] == LAUNCHES * STEPS


def test_streams_may_be_numbered_otherwise(diff):
    rows = training(STEPS)
    for row in rows:
        row.stream = 1 if row.kind in (COPY_IN, SET) else 2 if row.kernel == ADAM else 0
    another = [dataclasses.replace(row, stream=(2, 0, 1)[row.stream]) for row in rows]
    assert diff(rows, another, expect=0)["compared"]["launches"] == LAUNCHES * STEPS


def test_equal_streams_are_told_apart_by_number(diff):
    """Two that launch the same: only their numbers show which is which."""
    at = place(SCATTER) + STEP
    a, b = training(STEPS), training(STEPS, from_row(at))
    for rows in (a, b):
        for i, row in enumerate(rows):
            row.stream = i // STEP % 2
    parted_at(diff(a, b, expect=1), a, at, "other_output", "float_atomics")
    # One of them ends early.
    parted_at(diff(a, [row for row in b if row.stream == 1] + [row for row in b if row.stream == 0][:-STEP], expect=1), a, at, "other_output", "float_atomics")


def test_launches_that_a_trail_lacks_are_a_note(diff):
    result = diff(training(2), training(2), expect=0, missing_b=3)
    assert result["notes"] == ["B lacks 3 launches: there was no memory for them, or the program was killed"]


def test_a_file_without_a_trail(replay, tmp_path):
    a = write_trail(tmp_path / "a.h5", training(2))
    b = write_trail(tmp_path / "b.h5", training(2))
    with h5py.File(b, "r+") as file:
        del file["trail"]
    for pair in ((a, b), (b, a)):
        said = replay("diff", *pair, expect=2).err
        assert f"{b}: has no trail to compare with" in said and "msda-record --trail -o" in said
    assert "name two" in replay("diff", b, b, b, expect=2).err
    assert "--slices" in replay("diff", a, a, "--slices", expect=2).err


EXTRA = 50


def rank_rows(changed=None):
    """A collective behind each step."""
    rows = []
    for i, row in enumerate(training(STEPS, changed)):
        rows.append(row)
        if i % STEP == STEP - 1:
            state = changed(i // STEP, STEP - 1) if changed else None
            rows.append(Row(LAUNCH, "ncclDevKernel_AllReduce_Sum_f32", digest=digest("reduced", i, state)))
    return rows


@pytest.mark.parametrize("told_by", ["environment", "name"])
def test_ranks(replay, tmp_path, told_by):
    """Rank 1 parts in a step, and rank 0 sees it in the collective's result."""
    at = place(SCATTER)
    for run in "ab":
        (tmp_path / run).mkdir()
        for rank in range(3):
            parts_at = at if rank == 1 else AT * STEP + STEP - 1
            rows = rank_rows(from_row(parts_at) if run == "b" else None)
            if run == "b" and rank != 1:
                rows[AT * (STEP + 1) + STEP - 1].digest = rank_rows()[AT * (STEP + 1) + STEP - 1].digest
            if rank == 1:  # which therefore parts at a later row than the others
                rows = [Row(SET, digest=i) for i in range(EXTRA)] + rows
            name = f"rank{rank}.h5" if told_by == "name" else f"{run}-{7 - rank if run == 'a' else rank}.h5"
            write_trail(tmp_path / run / name, rows, environment={"RANK": str(rank)} if told_by == "environment" else {})
    result = replay("diff", tmp_path / "a", tmp_path / "b", "--json", "-", expect=1).json
    check(result, "diff")
    first, rank = result["first"], "rank1.h5" if told_by == "name" else "1"
    assert (first["rank"], first["cause"], first["a"]["row"]) == (rank, "float_atomics", at + AT + EXTRA)
    assert [rank["collectives"] for rank in result["ranks"]] == [AT] * 3
    others = [entry for entry in result["ranks"] if entry["rank"] != rank]
    assert all("nccl" in entry["first"]["a"]["kernel"] for entry in others)
    text = replay("diff", tmp_path / "a", tmp_path / "b", expect=1).out
    assert text.startswith(f"Rank {rank} of 3 parts first, at launch ")
    result = replay("diff", tmp_path / "a", tmp_path / "a", "--json", "-").json
    assert result["equal"] and result["compared"]["launches"] == 3 * (LAUNCHES + 1) * STEPS


def test_a_rank_is_not_first_on_a_guess(replay, tmp_path):
    """What a collective wrote is in no digest, so that rank 0 parts at a launch that nothing explains, for which a result of partly written
    memory long before may be to blame; rank 1 parts where it draws other random numbers."""
    at = AT * (STEP + 1) + PLACE[DROPOUT]
    for run in "ab":
        (tmp_path / run).mkdir()
        for rank in range(2):
            parts_at = at - AT if rank == 1 else (AT + 1) * STEP
            rows = rank_rows(from_row(parts_at) if run == "b" else None)
            for row in rows:
                if "nccl" in row.kernel:
                    row.digest, row.bytes, row.parts = 0, 0, ""
            rows[PLACE[RELU]].flags |= SPARSE
            if run == "b" and rank == 0:
                rows[PLACE[RELU]].digest ^= 1
            if run == "b" and rank == 1:
                rows[at].parameters = parameters(None, 77, 0)
            write_trail(tmp_path / run / f"{rank}.h5", rows, environment={"RANK": str(rank)})
    result = replay("diff", tmp_path / "a", tmp_path / "b", "--json", "-", expect=1).json
    assert (result["first"]["rank"], result["first"]["kind"], result["first"]["a"]["row"]) == ("1", "other_parameters", at)


def test_bytes_of_a_buffer_that_nobody_wrote_yet_put_no_rank_first(replay, tmp_path):
    """Both ranks write parts of a buffer of gradients, in the first step, whose digests have bytes of their neighbours. Rank 1 draws other
    numbers later, and rank 0 takes in its gradients."""
    later, steps = 60, 100
    for run in "ab":
        (tmp_path / run).mkdir()
        for rank in range(2):
            differs = later * STEP + (PLACE[DROPOUT] if rank == 1 else STEP)
            rows = []
            for i, row in enumerate(training(steps, from_row(differs) if run == "b" else None)):
                rows.append(row)
                if i % STEP == STEP - 1:
                    rows.append(Row(LAUNCH, "ncclDevKernel_AllReduce_Sum_f32", digest=0, bytes=0, parts=""))
            for i in range(20):
                rows.insert(5, Row(LAUNCH, RELU, digest=digest("bucket", i, run)))
            if run == "b" and rank == 1:
                rows[20 + later * (STEP + 1) + PLACE[DROPOUT]].parameters = parameters(None, 77, 0)
            write_trail(tmp_path / run / f"{rank}.h5", rows, environment={"RANK": str(rank)})
    result = replay("diff", tmp_path / "a", tmp_path / "b", "--json", "-", expect=1).json
    assert (result["first"]["rank"], result["first"]["kind"], result["first"]["cause"]) == ("1", "other_parameters", "generator")
    another = result["ranks"][0]["first"]
    assert (another["kind"], another["cause"]) == ("other_output", "other_rank")
    assert another["next"] == f"msda-replay diff {tmp_path / 'a'} {tmp_path / 'b'}"
    alone = replay("diff", shutil.copy(tmp_path / "a" / "0.h5", tmp_path / "c.h5"), shutil.copy(tmp_path / "b" / "0.h5", tmp_path / "d.h5"), "--json", "-", expect=1).json
    assert "-o run/%r.h5 -- python3 train.py" in alone["first"]["next"]


def test_a_rank_without_partner(replay, tmp_path):
    for run, ranks in (("a", 2), ("b", 1)):
        (tmp_path / run).mkdir()
        for rank in range(ranks):
            write_trail(tmp_path / run / f"{rank}.h5", training(1), environment={"RANK": str(rank)})
    assert "has no capture of rank 1" in replay("diff", tmp_path / "a", tmp_path / "b", expect=2).err
    assert "two folders" in replay("diff", tmp_path / "a", tmp_path / "a" / "0.h5", expect=2).err


def test_several_runs(replay, tmp_path):
    """One of five other runs is equal, three part at one launch, and one earlier."""
    late, early = place(SCATTER), place(LOCKED, 2)
    files = [write_trail(tmp_path / "a.h5", training(STEPS))]
    for i, at in enumerate((late, None, early, late, late)):
        files.append(write_trail(tmp_path / f"{i}.h5", training(STEPS, from_row(at) if at else None)))
    result = replay("diff", *files, "--json", "-", expect=1).json
    check(result, "diff")
    assert [(vary["row"], vary["runs"]) for vary in result["varies"]] == [(late, 3), (early, 1)]
    assert [run["equal"] for run in result["runs"]] == [False, True, False, False, False]
    assert result["first"]["a"]["row"] == early and "b" not in result
    text = replay("diff", *files, expect=1).words
    assert text.startswith(f"4 of 5 runs part from A, first at launch {launches_before(training(STEPS), early) + 1} of {LAUNCHES * STEPS}: ")
    assert replay("diff", files[0], files[2], files[0]).out.startswith(f"Equal: 3 runs, {LAUNCHES * STEPS} launches")


def test_list_show_and_run_say_what_it_is(replay, tmp_path):
    path = write_trail(tmp_path / "a.h5", training(STEPS))
    for command in ("list", "show"):
        assert f"trail of {LAUNCHES * STEPS} launches; to compare it: msda-replay diff" in replay(command, path).words
        result = replay(command, path, "--json", "-").json
        check(result, command)
        assert (result[0] if command == "list" else result)["trail"] == {"launches": LAUNCHES * STEPS}
    said = replay("run", path, expect=2).err
    assert f"holds no invocations, but a trail of {LAUNCHES * STEPS} launches: msda-replay diff" in said


def test_page(replay, tmp_path):
    at = place(SCATTER)
    a, b = training(STEPS), training(STEPS, from_row(at))
    a[at].caller = b[at].caller = {"python": "</script><script>alert(1)</script>"}
    files = [write_trail(tmp_path / f"{name}.h5", rows) for name, rows in (("a", a), ("b", b))]
    replay("diff", *files, "--page", tmp_path / "page.html", expect=1)
    page = read_page(tmp_path / "page.html")
    text = " ".join(page.texts)
    assert "float_atomics" in text and f"{a[at].digest:016x}" in text and f"{b[at].digest:016x}" in text
    assert "</script><script>alert(1)</script>" in text
    # The rows before it, too.
    assert f"{a[at - 1].digest:016x}" in text and "equal" in page.texts and "differs" in page.texts
    for _ in range(2):  # both replace what they wrote
        replay("diff", *files, "--page", tmp_path / "page.html", "--json", tmp_path / "a.json", expect=1)
    (tmp_path / "mine.html").write_text("mine")
    replay("diff", *files, "--page", tmp_path / "mine.html", expect=2)
    assert (tmp_path / "mine.html").read_text() == "mine"
