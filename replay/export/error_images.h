// Pictures of the errors in a gradient, in colours that are the same in all pictures.
#pragma once

#include <string>
#include <vector>

#include "analysis/model/call.h"
#include "replay/export/event_file.h"

namespace msda::replay {

struct ErrorImage {
  std::string name;  // "level 1"; "elements" if the gradient is of no image
  ColourImage image;
};

// Returns a picture for each image whose gradient it is: a pixel has the colour of its worst element. Other gradients
// are one picture, as a matrix whose rows are their first dimensions, divided so that it is nearly square. White: both
// sides agree; blue: from a millionth of the tolerance (light) to the tolerance (dark); red: at or beyond it.
std::vector<ErrorImage> error_images(const analysis::Call& call, analysis::Gradient gradient,
                                     const analysis::Tensor& observed, const analysis::Tensor& expected,
                                     const analysis::Tolerance& tolerance);

}  // namespace msda::replay
