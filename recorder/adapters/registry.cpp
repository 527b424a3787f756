#include <array>

#include "recorder/adapters/decode.h"

namespace msda::adapters {

std::span<const Adapter* const> built_in() {
  static const std::array<const Adapter*, 2> all{&col2im17(), &msda_triton()};
  return all;
}

}  // namespace msda::adapters
