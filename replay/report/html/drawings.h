// Drawings of a finding: the cells of its sample, how the gradient jumps between them, and the samples of its pixel.
#pragma once

#include "analysis/causes/finding.h"
#include "replay/report/html/pictures.h"
#include "replay/report/html/writer.h"

namespace msda::replay {

// The pixel grid around the sample, the cell and the coordinate of each side. Nothing where the coordinates are not
// finite, or where there are fewer than two axes.
void draw_cells(Html& html, const analysis::Finding& finding, const SampleView& view);

// The gradient along the axis on which the sides landed differently. Nothing for other causes.
void draw_jump(Html& html, const analysis::Finding& finding);

// The samples that add to a pixel, each with its addend.
void draw_pixel(Html& html, const PixelView& view);

}  // namespace msda::replay
