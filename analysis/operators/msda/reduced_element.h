// Elements of gradients whose inner steps are rounded to fewer bits.
#pragma once

#include "analysis/operators/msda/element.h"

namespace msda::analysis {

// Steps behind the inputs. The rounding of such a number depends on its bits, so the error that coordinates and earlier
// roundings bring is carried from step to step.
inline constexpr Steps kInnerSteps = kInterpolationWeights | kSampledValue | kWeightedGradOutput | kAddends;

// Does the same as sample_element(), for narrowings with inner steps.
Element reduced_sample_element(const MsdaCall& call, const SampleId& sample, Gradient gradient, int axis,
                               const Landing& x, const Landing& y, const CornerRows& rows, const Precision& precision,
                               const Narrowing& narrowing);

// Returns an addend of grad_value from the corner's weight and its inputs. `unit`: of the arithmetic around the rounded
// steps.
Uncertain reduced_addend(const Narrowing& narrowing, Uncertain weight, double grad_output, double attention,
                         double unit);

}  // namespace msda::analysis
