#include "analysis/causes/help.h"

#include <algorithm>
#include <array>
#include <optional>

namespace msda::analysis {
namespace {

constexpr const char* kExact = "expected = reference(*(x.double() for x in inputs))";
constexpr const char* kCompare = "torch.testing.assert_close(a, b, rtol={rtol}, atol={atol})";
constexpr const char* kDeterministic = "with msda_replay.torch.deterministic({devices}): loss.backward()";

// Which findings a row is for. What is empty may be anything.
struct Which {
  Cause cause;
  std::optional<AtFault> at_fault = {};
  std::optional<Origin> origin = {};
  std::string_view kind = {};  // the finding's, or a part of the kernel's name
};

struct Row {
  Which which;
  Help help;
};

// The first row that fits is taken; the last row of each cause fits all that is left.
constexpr Row kRows[] = {
    {{.cause = Cause::kNonFinite, .at_fault = AtFault::kNone},
     {"look for where the first NaN or infinity of the inputs comes from:",
      "with torch.autograd.detect_anomaly(): loss.backward()", false}},
    {{.cause = Cause::kNonFinite, .at_fault = AtFault::kTolerance},
     {"the value may exceed the largest number of its type; scale the loss down:",
      "scaler = torch.amp.GradScaler(init_scale=256.0)", true}},
    {{.cause = Cause::kNonFinite}, {"look for where the first NaN or infinity comes from:", "", true}},

    {{.cause = Cause::kUninitializedOutput, .kind = "unwritten"},
     {"have the kernel write every element, or zero the buffer before the launch:",
      "out = torch.zeros_like(out)  # in place of torch.empty_like", false}},
    {{.cause = Cause::kUninitializedOutput, .kind = "launches"},
     {"zero the buffer before each launch, also before those of an autotuner:",
      "@triton.autotune(configs, key, reset_to_zero=[\"out_ptr\"])", false}},
    {{.cause = Cause::kUninitializedOutput, .origin = Origin::kPyTorch},
     {"the buffer held another result before; reset the gradients in every step:", "optimizer.zero_grad()", false}},
    {{.cause = Cause::kUninitializedOutput},
     {"zero the buffer before each launch:", "out = torch.zeros_like(out)  # in place of torch.empty_like", false}},

    {{.cause = Cause::kCellBoundary, .at_fault = AtFault::kReference},
     {"compare with float64, or with a reference that computes the pixel coordinate as the kernel does. The gradient "
      "jumps there, which no tolerance covers:",
      kExact, true}},
    {{.cause = Cause::kCellBoundary, .at_fault = AtFault::kObserved, .origin = Origin::kPyTorch},
     {"PyTorch's kernel rounds the pixel coordinate into another cell; have it compute in float64. The gradient jumps "
      "there, which no tolerance covers:",
      "inputs = [x.double() for x in inputs]", true}},
    {{.cause = Cause::kCellBoundary, .at_fault = AtFault::kObserved},
     {"compute the pixel coordinate with fewer roundings, or in float64. The gradient jumps there, which no tolerance "
      "covers:",
      "", true}},
    {{.cause = Cause::kCellBoundary},
     {"leave locations this close to a pixel boundary out of the comparison. The gradient jumps there, which no "
      "tolerance covers:",
      "", true}},

    {{.cause = Cause::kBorderClamp},
     {"leave locations on the border itself, where only one side is 0, out of the comparison: both subgradients are "
      "right:",
      "keep = (actual == 0) == (expected == 0)", true}},

    {{.cause = Cause::kStoppedSum, .at_fault = AtFault::kReference},
     {"compute the reference in a wider type:", kExact, false}},
    {{.cause = Cause::kStoppedSum, .origin = Origin::kPyTorch, .kind = "mbedding"},
     {"if the row is padding, say so, and it gets no gradient; else keep the table in float32:",
      "torch.nn.Embedding(num_embeddings, embedding_dim, padding_idx=row)", false}},
    {{.cause = Cause::kStoppedSum, .origin = Origin::kPyTorch},
     {"add up, and count, in a wider type, and round the result to the narrow one:",
      "source = source.float()  # and result.to(torch.{type}) after the sum", false}},
    {{.cause = Cause::kStoppedSum},
     {"add up, and count, in a wider type, and round the result to the narrow one:", "msda-replay explain stopped_sum",
      false}},

    {{.cause = Cause::kAccumulationOrder, .at_fault = AtFault::kReference},
     {"compare with float64, or with an atol of at least {atol}:", kExact, false}},
    {{.cause = Cause::kAccumulationOrder, .at_fault = AtFault::kObserved, .origin = Origin::kPyTorch},
     {"have the sums added in one order, or compare with an atol of at least {atol}:", kDeterministic, false}},
    {{.cause = Cause::kAccumulationOrder, .at_fault = AtFault::kObserved},
     {"add in one order, as mode deterministic does, or compare with an atol of at least {atol}:",
      "msda-replay explain accumulation_order", false}},
    {{.cause = Cause::kAccumulationOrder},
     {"compare with an atol that covers what the order of additions can do:", kCompare, false}},

    {{.cause = Cause::kRounding, .at_fault = AtFault::kReference},
     {"compare with float64, or with an atol of at least {atol}:", kExact, false}},
    {{.cause = Cause::kRounding},
     {"compare with an atol that covers what rounding can do to these elements:", kCompare, false}},

    {{.cause = Cause::kIllConditioned, .at_fault = AtFault::kReference},
     {"compare with float64, or with an atol of at least {atol}:", kExact, true}},
    {{.cause = Cause::kIllConditioned},
     {"compare with an atol that covers what rounding can do to these elements; a smaller one needs float64 where the "
      "sides begin to differ:",
      kCompare, true}},

    {{.cause = Cause::kReducedPrecision, .origin = Origin::kOther, .kind = "tf32"},
     {"compute without TF32, or compare with a tolerance for its 11 significant bits (in PyTorch, "
      "torch.backends.cuda.matmul.allow_tf32 = False):",
      "tl.dot(a, b, input_precision=\"ieee\")", false}},
    {{.cause = Cause::kReducedPrecision, .kind = "tf32"},
     {"compute without TF32, or compare with a tolerance for its 11 significant bits:",
      "torch.backends.cuda.matmul.allow_tf32 = False", false}},
    {{.cause = Cause::kReducedPrecision, .at_fault = AtFault::kReference},
     {"compute the reference outside torch.autocast and without casts to {type}, or compare with a tolerance for "
      "{type}:",
      kExact, false}},
    {{.cause = Cause::kReducedPrecision},
     {"run the kernel outside torch.autocast and without casts to {type}, or compare with a tolerance for {type}:",
      "with torch.autocast(\"cuda\", enabled=False): ...", false}},

    {{.cause = Cause::kImplementationError, .at_fault = AtFault::kReference},
     {"compare with float64 in place of this reference:", kExact, true}},
    {{.cause = Cause::kImplementationError, .origin = Origin::kPyTorch},
     {"PyTorch's kernel is wrong here; until it is right, have another one compute this:", kDeterministic, true}},
    {{.cause = Cause::kImplementationError, .origin = Origin::kDefined},
     {"compare the kernel, addend by addend, with what its definition says:",
      "msda-replay explain implementation_error", false}},
    {{.cause = Cause::kImplementationError}, {"look for the stage at which the value leaves float64:", "", true}},
};

}  // namespace

Origin origin_of(std::string_view kernel) {
  constexpr std::array kNames = {
      "at::native", "at6native", "aten::", "torchvision::", "vision::ops", "6vision3ops", "cudnn"};
  const bool is_pytorch =
      std::ranges::any_of(kNames, [&](const char* name) { return kernel.find(name) != kernel.npos; });
  return is_pytorch ? Origin::kPyTorch : Origin::kOther;
}

const Help& help_on(Cause cause, AtFault at_fault, Origin origin, std::string_view kernel, std::string_view kind) {
  const auto fits = [&](const Which& which) {
    return which.cause == cause && which.at_fault.value_or(at_fault) == at_fault &&
           which.origin.value_or(origin) == origin &&
           (which.kind.empty() || which.kind == kind || kernel.find(which.kind) != kernel.npos);
  };
  return std::ranges::find_if(kRows, fits, &Row::which)->help;
}

}  // namespace msda::analysis
