"""msda-triton on a GPU, its autotuner included, recorded: four conventions, float32 and float64."""

import re
import statistics

import pytest
from support.gpu import assert_same, invocations_of, saved_tensors

gpu = pytest.mark.gpu("torch", "triton", "msda_triton")
RUNS = 3  # with the recorder, and without
TUNED = re.compile(r"Triton autotuning for function (\w+).*?best config selected: (.*?);", re.S)


def by_case(out):
    """For each case the digests of its tensors, and the autotuner's last choice for the backward kernel."""
    cases, choice = {}, None
    for part in re.split(r"^case ", out, flags=re.M)[1:]:
        for function, config in TUNED.findall(part):
            choice = config if "bwd" in function else choice
        digests = dict(re.findall(r"^\S+ (\w+) ([0-9a-f]{40})$", part, re.M))
        digests.pop("grad_value")  # depends on the order of atomics
        cases[part.split()[0]] = (choice, digests)
    return cases


@pytest.fixture(scope="module")
def runs(programs):
    """The cases of each run without the recorder and with it, and for each case of the last one the saved tensors and the recorded call."""
    settings = {"TRITON_CACHE_DIR": programs.folder(), "TRITON_PRINT_AUTOTUNING": "1", "limit": 300}
    command = programs.python("msda")
    programs.run(command, **settings)  # compiles
    outputs = [], []
    for _ in range(RUNS):
        saved_in = programs.folder()
        outputs[0].append(programs.run(command, **settings).stdout)
        done, capture = programs.record([*command, "--save", saved_in], **settings)
        outputs[1].append(done.stdout)
    saved = saved_tensors(saved_in)
    seconds = [statistics.median(float(re.search(r"^took (\S+)", out, re.M)[1]) for out in side) for side in outputs]
    print(f"backward calls with tuning {seconds[0]:.2f} s, recorded {seconds[1]:.2f} s")
    plain, recorded = ([by_case(out) for out in side] for side in outputs)
    return plain, recorded, list(zip(sorted(saved.items()), invocations_of(capture, done, len(saved))))


@gpu
def test_the_last_call_is_recorded(runs):
    """With the outputs of a run without the recorder in which the autotuner chose the same variant."""
    plain, recorded, pairs = runs
    for (name, real), call in pairs:
        padding, align = name.split("-")[1:3]
        for tensor, array in {**call.inputs, **call.outputs}.items():
            assert_same(array, real[tensor], f"{name}: {tensor}")
        assert (call.dialect, call.padding_mode, call.align_corners) == ("msda_triton", padding, align == "align")
        for run in recorded:
            choice, digests = run[name]
            twins = [other_digests for other_choice, other_digests in (another[name] for another in plain) if other_choice == choice]
            assert not twins or digests in twins, name


@gpu
def test_the_autotuner_chooses_as_without_the_recorder(runs):
    """Its choices with the recorder occur in the runs without it as often as those agree with one another, but for chance."""
    plain, recorded, _ = runs

    def agreeing(run, others):
        return sum(run[name][0] in {another[name][0] for another in others} for name in run)

    assert any(choice for run in plain for choice, _ in run.values()), "the autotuner prints nothing with TRITON_PRINT_AUTOTUNING=1"
    total = sum(map(len, plain))
    with_recorder = sum(agreeing(run, plain) for run in recorded)
    without = sum(agreeing(run, plain[:i] + plain[i + 1:]) for i, run in enumerate(plain))
    # A count lower by more than two standard deviations is attributed to the recorder.
    assert with_recorder >= without - 2 * max(1, total - without) ** 0.5


def test_tuner_output_is_read():
    digest = "0" * 40
    out = (f"case a\n0 grad_output {digest}\nTriton autotuning for function x_bwd_kernel,\nwith key as (1,),\nfinished after "
           f"1.00s,\nbest config selected: BLOCK: 4, num_warps: 2;\na grad_value {digest}\na value {digest}\n"
           f"case b\nb grad_value {digest}\nb value {digest[:-1]}1\n")
    assert by_case(out) == {
        "a": ("BLOCK: 4, num_warps: 2", {"grad_output": digest, "value": digest}),
        "b": ("BLOCK: 4, num_warps: 2", {"value": digest[:-1] + "1"})}
