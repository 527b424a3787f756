// What the stand-in driver takes for code: the line "stand-in" and then the names of kernels (kernels.cpp), one a line;
// or a cubin, an ELF file whose sections .text.<name> name them; or a fatbin with one, not compressed, for sm_90; or
// PTX.
#pragma once

#include <cstddef>
#include <vector>

#include "tests/stand_in_driver/kernels.h"

namespace msda::stand_in {

struct Image {
  std::vector<const KernelCode*> codes;  // none: it is no image
  std::vector<std::byte> cubin;          // what a tool is shown; none for text, unless it has a line "cubin FILE"
};

Image read_image(const void* image);

}  // namespace msda::stand_in
