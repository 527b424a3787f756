#include "analysis/causes/help.h"

#include <algorithm>
#include <array>
#include <optional>

namespace msda::analysis {
namespace {

constexpr const char* kExact = "expected = reference(*(x.double() for x in inputs))";
constexpr const char* kCompare = "torch.testing.assert_close(a, b, rtol={rtol}, atol={atol})";
constexpr const char* kDeterministic = "with msda_replay.torch.deterministic({devices}): loss.backward()";

struct Row {
  Cause cause;
  std::optional<AtFault> at_fault;  // empty: any
  std::optional<Origin> origin;     // empty: any
  std::string_view kind;            // empty: any; else the finding's kind, or a part of the kernel's name
  Help help;
};

// The first row that fits is taken; the last row of each cause fits all that is left.
constexpr Row kRows[] = {
    {Cause::kNonFinite,
     AtFault::kNone,
     {},
     "",
     {"look for where the first NaN or infinity of the inputs comes from:",
      "with torch.autograd.detect_anomaly(): loss.backward()", false}},
    {Cause::kNonFinite,
     AtFault::kTolerance,
     {},
     "",
     {"the value may exceed the largest number of its type; scale the loss down:",
      "scaler = torch.amp.GradScaler(init_scale=256.0)", true}},
    {Cause::kNonFinite, {}, {}, "", {"look for where the first NaN or infinity comes from:", "", true}},

    {Cause::kUninitializedOutput,
     {},
     {},
     "unwritten",
     {"have the kernel write every element, or zero the buffer before the launch:",
      "out = torch.zeros_like(out)  # in place of torch.empty_like", false}},
    {Cause::kUninitializedOutput,
     {},
     {},
     "launches",
     {"zero the buffer before each launch, also before those of an autotuner:",
      "@triton.autotune(configs, key, reset_to_zero=[\"out_ptr\"])", false}},
    {Cause::kUninitializedOutput,
     {},
     Origin::kPyTorch,
     "",
     {"the buffer held another result before; reset the gradients in every step:", "optimizer.zero_grad()", false}},
    {Cause::kUninitializedOutput,
     {},
     {},
     "",
     {"zero the buffer before each launch:", "out = torch.zeros_like(out)  # in place of torch.empty_like", false}},

    {Cause::kCellBoundary,
     AtFault::kReference,
     {},
     "",
     {"compare with float64, or with a reference that computes the pixel coordinate as the kernel does. The gradient "
      "jumps there, which no tolerance covers:",
      kExact, true}},
    {Cause::kCellBoundary,
     AtFault::kObserved,
     Origin::kPyTorch,
     "",
     {"PyTorch's kernel rounds the pixel coordinate into another cell; have it compute in float64. The gradient jumps "
      "there, which no tolerance covers:",
      "inputs = [x.double() for x in inputs]", true}},
    {Cause::kCellBoundary,
     AtFault::kObserved,
     {},
     "",
     {"compute the pixel coordinate with fewer roundings, or in float64. The gradient jumps there, which no tolerance "
      "covers:",
      "", true}},
    {Cause::kCellBoundary,
     {},
     {},
     "",
     {"leave locations this close to a pixel boundary out of the comparison. The gradient jumps there, which no "
      "tolerance covers:",
      "", true}},

    {Cause::kBorderClamp,
     {},
     {},
     "",
     {"leave locations on the border itself, where only one side is 0, out of the comparison: both subgradients are "
      "right:",
      "keep = (actual == 0) == (expected == 0)", true}},

    {Cause::kStoppedSum, AtFault::kReference, {}, "", {"compute the reference in a wider type:", kExact, false}},
    {Cause::kStoppedSum,
     {},
     Origin::kPyTorch,
     "mbedding",
     {"if the row is padding, say so, and it gets no gradient; else keep the table in float32:",
      "torch.nn.Embedding(num_embeddings, embedding_dim, padding_idx=row)", false}},
    {Cause::kStoppedSum,
     {},
     Origin::kPyTorch,
     "",
     {"add up, and count, in a wider type, and round the result to the narrow one:",
      "source = source.float()  # and result.to(torch.{type}) after the sum", false}},
    {Cause::kStoppedSum,
     {},
     {},
     "",
     {"add up, and count, in a wider type, and round the result to the narrow one:", "msda-replay explain stopped_sum",
      false}},

    {Cause::kAccumulationOrder,
     AtFault::kReference,
     {},
     "",
     {"compare with float64, or with an atol of at least {atol}:", kExact, false}},
    {Cause::kAccumulationOrder,
     AtFault::kObserved,
     Origin::kPyTorch,
     "",
     {"have the sums added in one order, or compare with an atol of at least {atol}:", kDeterministic, false}},
    {Cause::kAccumulationOrder,
     AtFault::kObserved,
     {},
     "",
     {"add in one order, as mode deterministic does, or compare with an atol of at least {atol}:",
      "msda-replay explain accumulation_order", false}},
    {Cause::kAccumulationOrder,
     {},
     {},
     "",
     {"compare with an atol that covers what the order of additions can do:", kCompare, false}},

    {Cause::kRounding,
     AtFault::kReference,
     {},
     "",
     {"compare with float64, or with an atol of at least {atol}:", kExact, false}},
    {Cause::kRounding,
     {},
     {},
     "",
     {"compare with an atol that covers what rounding can do to these elements:", kCompare, false}},

    {Cause::kIllConditioned,
     AtFault::kReference,
     {},
     "",
     {"compare with float64, or with an atol of at least {atol}:", kExact, true}},
    {Cause::kIllConditioned,
     {},
     {},
     "",
     {"compare with an atol that covers what rounding can do to these elements; a smaller one needs float64 where the "
      "sides begin to differ:",
      kCompare, true}},

    {Cause::kReducedPrecision,
     {},
     Origin::kOther,
     "tf32",
     {"compute without TF32, or compare with a tolerance for its 11 significant bits (in PyTorch, "
      "torch.backends.cuda.matmul.allow_tf32 = False):",
      "tl.dot(a, b, input_precision=\"ieee\")", false}},
    {Cause::kReducedPrecision,
     {},
     {},
     "tf32",
     {"compute without TF32, or compare with a tolerance for its 11 significant bits:",
      "torch.backends.cuda.matmul.allow_tf32 = False", false}},
    {Cause::kReducedPrecision,
     AtFault::kReference,
     {},
     "",
     {"compute the reference outside torch.autocast and without casts to {type}, or compare with a tolerance for "
      "{type}:",
      kExact, false}},
    {Cause::kReducedPrecision,
     {},
     {},
     "",
     {"run the kernel outside torch.autocast and without casts to {type}, or compare with a tolerance for {type}:",
      "with torch.autocast(\"cuda\", enabled=False): ...", false}},

    {Cause::kImplementationError,
     AtFault::kReference,
     {},
     "",
     {"compare with float64 in place of this reference:", kExact, true}},
    {Cause::kImplementationError,
     {},
     Origin::kPyTorch,
     "",
     {"PyTorch's kernel is wrong here; until it is right, have another one compute this:", kDeterministic, true}},
    {Cause::kImplementationError,
     {},
     Origin::kDefined,
     "",
     {"compare the kernel, addend by addend, with what its definition says:",
      "msda-replay explain implementation_error", false}},
    {Cause::kImplementationError, {}, {}, "", {"look for the stage at which the value leaves float64:", "", true}},
};

}  // namespace

Origin origin_of(std::string_view kernel) {
  constexpr std::array kNames = {"at::native", "at6native", "aten::", "vision::ops", "6vision3ops", "cudnn"};
  const bool is_pytorch =
      std::ranges::any_of(kNames, [&](const char* name) { return kernel.find(name) != kernel.npos; });
  return is_pytorch ? Origin::kPyTorch : Origin::kOther;
}

const Help& help_on(Cause cause, AtFault at_fault, Origin origin, std::string_view kernel, std::string_view kind) {
  return std::ranges::find_if(kRows,
                              [&](const Row& row) {
                                return row.cause == cause && row.at_fault.value_or(at_fault) == at_fault &&
                                       row.origin.value_or(origin) == origin &&
                                       (row.kind.empty() || row.kind == kind || kernel.find(row.kind) != kernel.npos);
                              })
      ->help;
}

}  // namespace msda::analysis
