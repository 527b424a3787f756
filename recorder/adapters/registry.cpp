#include <array>

#include "recorder/adapters/decode.h"
#include "recorder/adapters/made_once.h"

namespace msda::adapters {

std::span<const Adapter* const> built_in() {
  using All = std::array<const Adapter*, 15>;
  static constinit MadeOnce<const All> all;
  return all.get([] {
    return std::make_unique<const All>(
        All{&col2im17(), &msda_triton(), &grid_sampler_2d(), &grid_sampler_3d(), &roi_align(), &upsample_bilinear2d(),
            &upsample_bicubic2d(), &upsample_trilinear3d(), &upsample_nearest1d(), &upsample_nearest2d(),
            &upsample_nearest3d(), &index_add(), &scatter_add(), &index_put(), &embedding()});
  });
}

}  // namespace msda::adapters
