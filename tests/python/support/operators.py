"""The operators, a row each: calls that a kernel computed, random calls with their exact gradients, and what an operator has. Tests of an
aspect are parametrized over the rows, so that what is asserted of one operator is asserted of all of them."""

import copy
import functools
import sys
from dataclasses import dataclass, field

import numpy as np
import pytest
from conftest import SOURCE

from msda_replay import Invocation

sys.path.append(str(SOURCE / "tests"))
from campaign import grid_sample, interpolate, msda, roi_align, scatter_add  # noqa: E402
from campaign.planting import whole  # noqa: E402, F401
from campaign.rounding import round_to  # noqa: E402
from campaign.steps import EXACT, Arithmetic  # noqa: E402
from campaign.subjects import SUBJECTS  # noqa: E402

TYPES = ("float16", "float32", "float64")


def bfloat16(array):
    """The nearest numbers of that type, as NumPy saves the type of ml_dtypes."""
    return (round_to("bfloat16", array).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16).view("V2")


def as_type(array, kind):
    with np.errstate(over="ignore"):
        return bfloat16(array) if kind == "bfloat16" else np.ascontiguousarray(array.astype(kind))


def invocation(problem, conventions, values, **more):
    """A call of the campaign's, with `values` as its results."""
    facts = {**problem.attributes(), **conventions.attributes()}
    own = {name: facts.pop(name) for name in ("dialect", "padding_mode", "align_corners")} if problem.operator == "msda" else {"dialect": ""}

    def stored(tensors):
        return {name: as_type(array, problem.type) for name, array in tensors.items()}

    inputs = {name: as_type(array, kind) for name, array, kind in problem.inputs()}
    return Invocation(inputs, stored(values), facts=facts, outputs_before=stored(problem.begins_with), **own, **more)


def type_of(variant):
    return next(kind for kind in TYPES if kind in variant)


@dataclass(frozen=True, repr=False)
class Operator:
    name: str
    summed: str              # the gradient that samples or sources are added to
    variants: tuple          # names of calls that a kernel computed, as VARIANT-float32 or the like
    call: callable           # the invocation of such a call
    places: tuple            # where samples land in random calls: nowhere near a boundary but by chance
    numbers: dict            # of random calls: normal ones
    places_of: callable = None  # of a random call of these conventions, if not any
    others: dict = field(default_factory=dict)  # by convention and value: another value, of other gradients
    unheld: tuple = ("", {})  # how variants begin whose sum begins with 0, and what makes it so whatever its buffer held
    factors: callable = lambda conventions: "weights"  # how a kernel multiplies whose order of additions can be found
    has_order: callable = lambda conventions: True  # whether such a kernel of these conventions is known
    problems: int = 6        # random calls of each set of conventions


    def __repr__(self):
        return self.name

    @property
    def subject(self):
        return SUBJECTS[self.name]

    @property
    def conventions(self):
        return tuple(dict.fromkeys(self.subject.conventions))

    def recorded(self, variant, /, **more):
        """The invocation of a variant, whose arrays a test may change; `more` as the operator's call takes it."""
        return copy.deepcopy(self.call(variant, **more))

    @property
    def gradients(self):
        return tuple(self.call(self.variants[0]).outputs)

    def typed(self, *types):
        """Variants of these types, or all."""
        return [variant for variant in self.variants if type_of(variant) in (types or TYPES)]

    def all_recorded(self, *types):
        return [self.recorded(variant) for variant in self.typed(*types)]

    def with_another(self, name, kind="float32"):
        """Variants, their calls with another value of a convention, and the right value; none of variants without that."""
        for variant in self.typed(kind):
            call = self.recorded(variant)
            facts = vars(call) if call.dialect and call.dialect != "deformable_detr" else call.facts
            right = facts.get(name)
            if right in self.others[name]:
                facts[name] = self.others[name][right]
                yield variant, call, right

    def random(self, conventions, rng, kind="float32", **given):
        """A random problem and its exact gradients, in longdouble."""
        places = self.places_of(conventions) if self.places_of else self.places
        problem = self.subject.draw(rng, conventions, kind=kind, **{"place": places[rng.integers(len(places))], **self.numbers, **given})
        return problem, self.subject.backward(problem, conventions, EXACT)

    def named(self, numbers):
        """What `random` takes for numbers of this kind."""
        ((parameter, normal),) = self.numbers.items()
        return {parameter: getattr(sys.modules[normal.__module__], numbers)}

    def random_call(self, conventions, rng, kind="float32", values=None, **given):
        """As an invocation, whose results are exact."""
        problem, exact = self.random(conventions, rng, kind, **given)
        return invocation(problem, conventions, exact)

    def orderable(self):
        """Sets of conventions, random problems, and a kernel that adds in float32 and in an order that it drew."""
        for number, conventions in enumerate(2 * self.conventions):
            if self.has_order(conventions):
                problem, _ = self.random(conventions, np.random.default_rng(number))
                yield conventions, problem, Arithmetic(order="random", seed=number, inverse=True, factors=self.factors(conventions))


# --- Calls that a kernel computed.


GRID = dict(np.load(SOURCE / "tests" / "data" / "grid_sample" / "h200.npz"))
SCATTERED = dict(np.load(SOURCE / "tests" / "data" / "scatter" / "torch_cpu.npz"))


def names_in(archive):
    return tuple(sorted({key.split("/")[0] for key in archive}))


@functools.cache
def tensors_of(variant):
    """By name; numbers and texts as such."""
    archive = SCATTERED if variant in SCATTERING else GRID
    found = {key.split("/")[1]: array for key, array in archive.items() if key.startswith(variant + "/")}
    return {name: array.item() if array.ndim == 0 else array for name, array in found.items()}


def grid_sample_call(variant):
    _, _, interpolation, padding, align = variant.split("-")
    tensors = tensors_of(variant)
    inputs, outputs = ({name: tensors[name] for name in names} for names in (("input", "grid", "grad_output"), ("grad_input", "grad_grid")))
    return Invocation(inputs, outputs, "", facts={"interpolation": interpolation, "padding_mode": padding, "align_corners": int(align)})


def scattering_call(variant, defaults, gradient, sizes, /, **more):
    """`more` replaces tensors and facts; None removes them."""
    tensors = {**defaults, **tensors_of(variant), **more}
    tensors = {name: value for name, value in tensors.items() if value is not None}
    arrays = {name: tensors.pop(name) for name in tuple(tensors) if isinstance(tensors[name], np.ndarray)}
    before = {gradient: arrays.pop(f"before_{gradient}")} if f"before_{gradient}" in arrays else {}
    outputs = {gradient: arrays.pop(gradient)}
    return Invocation(arrays, outputs, "", outputs_before=before, facts={**sizes(outputs[gradient], tensors), **tensors})


def scatter_add_call(variant, /, **more):
    defaults = {"dim": 0, "reduce": "sum", "include_self": 1, "scale_grad_by_freq": 0}
    return scattering_call(variant, defaults, "sum", lambda sum, facts: {"dim_size": sum.shape[facts["dim"]]}, **more)


def interpolate_call(variant, /, **more):
    return scattering_call(variant, {}, "grad_input", lambda image, facts: dict(zip(("input_width", "input_height", "input_depth"), image.shape[:1:-1])), **more)


def roi_align_call(variant, /, **more):
    names = ("input_batch", "", "input_height", "input_width")
    return scattering_call(variant, {"input": None}, "grad_input", lambda image, facts: {n: s for n, s in zip(names, image.shape) if n}, **more)


@functools.cache
def msda_call(variant):
    """A kernel's of the campaign."""
    dialect, padding, align, kind = variant.split("-")
    conventions = msda.operator.Conventions(dialect, padding, align == "1")
    rng = np.random.default_rng(MSDA_VARIANTS.index(variant))
    problem = msda.problems.draw(rng, conventions, kind=kind, shape=(2, 7, 2, 2, 8, ((6, 5), (3, 4))), place=msda.problems.uniform,
                                 numbers=msda.problems.normal)
    values = msda.operator.backward(problem, conventions, msda.problems.draw_arithmetic(rng, problem, {"blocks": 1}))
    return invocation(problem, conventions, values)


def archive_of(call, operator):
    """The members of an archive that says the same of a call."""
    own = {name: getattr(call, name) for name in ("dialect", "padding_mode", "align_corners")} if call.dialect else {"operator": operator}
    results = {f"{section}_{name}": array for section, tensors in (("observed", call.outputs), ("before", call.outputs_before))
               for name, array in tensors.items()}
    return {**call.inputs, **own, **call.facts, **results}


# --- The rows.


MSDA_VARIANTS = tuple(f"{c.dialect}-{c.padding}-{int(c.align_corners)}-{kind}" for c in dict.fromkeys(msda.problems.CONVENTIONS) for kind in TYPES)
SCATTERING = names_in(SCATTERED)
NORMAL = {"values": scatter_add.problems.NUMBERS[0]}
SIZES, BOXES = interpolate.problems, roi_align.problems


def sizes_of(conventions):
    """Kernels compute coordinates of nearest pixels in float32: sizes for which nothing is rounded."""
    exact = SIZES.doubled, SIZES.quadrupled, SIZES.halved, SIZES.same
    return exact if conventions.nearest else (*exact, SIZES.any_size, SIZES.scaled)


def scattering(*names):
    return tuple(variant for variant in SCATTERING if variant.startswith(names))


EITHER = {0: 1, 1: 0}
OPERATORS = {row.name: row for row in (
    Operator("msda", "grad_value", MSDA_VARIANTS, msda_call, (msda.problems.uniform, msda.problems.outside, msda.problems.clustered),
             {"numbers": msda.problems.normal}, factors=lambda c: "axes" if c.dialect == "msda_triton" else "grad_output",
             others={"padding_mode": {"zeros": "border", "border": "zeros"}, "align_corners": EITHER}),
    Operator("grid_sample", "grad_input", names_in(GRID), grid_sample_call,
             (grid_sample.problems.uniform, grid_sample.problems.outside, grid_sample.problems.clustered), {"numbers": grid_sample.problems.normal},
             factors=lambda c: "axes", problems=20, others={"padding_mode": {"zeros": "border", "border": "reflection", "reflection": "zeros"}, "align_corners": EITHER,
                     "interpolation": {"bilinear": "bicubic", "bicubic": "bilinear"}}),
    Operator("scatter_add", "sum", scattering("index", "embedding", "gather", "scatter"), scatter_add_call, scatter_add.problems.PLACES, NORMAL,
             others={"reduce": {"sum": "mean", "mean": "sum"}, "scale_grad_by_freq": {1: 0}}, unheld=(("embedding", "gather"), {"include_self": 0})),
    Operator("interpolate", "grad_input", scattering("interpolate"), interpolate_call, (), NORMAL, sizes_of, has_order=lambda c: c.mode != "bicubic",
             others={"mode": {"bilinear": "bicubic", "bicubic": "bilinear", "nearest": "nearest-exact", "nearest-exact": "nearest"},
                     "align_corners": EITHER}),
    Operator("roi_align", "grad_input", scattering("roi_align"), roi_align_call,
             (BOXES.inside, BOXES.tiny, BOXES.across_border, BOXES.outside, BOXES.degenerate, BOXES.clustered), NORMAL,
             has_order=lambda c: c.sampling_ratio in (1, 2),
             others={"aligned": EITHER, "sampling_ratio": {0: 2, 2: 3, 3: 0}}),
)}


@pytest.fixture(params=OPERATORS)
def operator(request):
    return OPERATORS[request.param]
