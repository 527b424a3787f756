// Measures what the order of additions can change in a launch whose order-free twin gave equal results. Other twins
// (recorder/device/twin.h), on the memory that the launch found, count the additions at each address and find the
// greatest addend; what differs is compared with a bound for each number (docs/survey.md).
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "recorder/device/evidence_launch.h"
#include "recorder/preload/driver/images.h"
#include "recorder/preload/launch/launch.h"
#include "recorder/preload/survey/trial.h"

namespace msda::record {

struct Evidence {
  // Why there is no evidence; empty if there is. docs/survey.md lists the names.
  std::string missing;
  std::string type;      // of the numbers that are added: "f32", "f64", "f16", "bf16"
  int64_t launches = 0;  // that were compared with the program's own
  EvidenceResults results{};

  void describe(std::map<std::string, std::string>& texts, std::map<std::string, int64_t>& integers,
                std::map<std::string, double>& numbers) const;
};

// Call it after the trial's run(): memory is as after the program's launch, and stays so. `share` is how much of the
// free memory it may take meanwhile.
Evidence evidence_of(const Launched& launched, const Image& image, const std::string& kernel,
                     const std::string& architecture, const Trial& trial, double share);

}  // namespace msda::record
