// Launches of the kernels that are not the operator's backward (other_kernels.h), one after the other on a stream each.
#pragma once

#include <cstdint>
#include <string>

#include "tests/stand_in_driver/client.h"

namespace msda::stand_in {

struct OtherLaunch {
  LaunchWay way;
  bool as_kernel;
  uint64_t seed;
  int number;
  std::string image;  // of the kernel; empty: text
  std::string which;  // as --kernel names it
  int repeat = 1;     // launches of a sum of rows on the same memory, each with indices of its own

  CUfunction load(const Client& client, const std::string& kernel) const {
    return image.empty() ? client.load(kernel, as_kernel) : client.load_image(kernel, image, "data", as_kernel);
  }
};

// Each returns a line with a checksum for each output.

// The modes go by the launch's number: padding changes with each, align_corners with every third, interpolation with
// every sixth; every fifth requests no gradient of the input. T is float with int indices, or double with int64 ones;
// the input's pixels have 2 or 3 axes.
template <class T, int kAxes>
std::string launch_grid_sampler(const Client& client, const OtherLaunch& launch);

// For float. Every third launch of roi_align has boxes that are not aligned.
std::string launch_roi_align(const Client& client, const OtherLaunch& launch);
// Every second launch has no mask.
std::string launch_deform_conv2d(const Client& client, const OtherLaunch& launch);
// align_corners changes with each launch; every fourth has a scale factor.
std::string launch_upsample_bilinear2d(const Client& client, const OtherLaunch& launch);
std::string launch_upsample_nearest2d(const Client& client, const OtherLaunch& launch);

// 20 rows into 9, whose indices change with the launch. Every second launch of embedding has a padding_idx.
std::string launch_index_add(const Client& client, const OtherLaunch& launch);
std::string launch_index_put(const Client& client, const OtherLaunch& launch);
std::string launch_embedding(const Client& client, const OtherLaunch& launch);

std::string launch_scale_add(const Client& client, const OtherLaunch& launch);
std::string launch_whereabouts(const Client& client, const OtherLaunch& launch);
std::string launch_poison(const Client& client, const OtherLaunch& launch);  // poison_kernels.h

}  // namespace msda::stand_in
