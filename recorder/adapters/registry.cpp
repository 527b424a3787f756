#include <array>

#include "recorder/adapters/decode.h"

namespace msda::adapters {

std::span<const Adapter* const> built_in() {
  static const std::array<const Adapter*, 3> all{&col2im17(), &msda_triton(), &grid_sampler_2d()};
  return all;
}

}  // namespace msda::adapters
