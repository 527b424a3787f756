// Certificates for the cause accumulation_order: the order itself, read back from the recorded bits.
#pragma once

#include <vector>

#include "analysis/causes/finding.h"
#include "analysis/model/material.h"

namespace msda::analysis {

// Adds the evidence `order` to findings of a scattered gradient whose cause is accumulation_order: of some pixels, in
// bounded work, so that the result is the same on every machine.
void add_certificates(const Material& material, int threads, std::vector<Finding>& findings);

}  // namespace msda::analysis
