// Where a location of deformable attention lands along one axis of a level, by dialect.
#pragma once

#include <vector>

#include "analysis/model/landing.h"
#include "analysis/operators/msda/call.h"

namespace msda::analysis {

Coordinate pixel_coordinate(const Conventions& conventions, double location, int32_t size, const Precision& precision);

Landings landings(const Conventions& conventions, double location, int32_t size, const Precision& precision);

// Evaluates in float32, or in float64 for float64 arithmetic. The first evaluation is that of kernels/sample.h.
std::vector<Evaluation> evaluations(const Conventions& conventions, double location, int32_t size,
                                    msda_dtype arithmetic);

}  // namespace msda::analysis
