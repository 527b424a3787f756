// Where a tensor of places and channels keeps its elements.
#pragma once

#include <cstdint>

namespace msda::analysis {

// A tensor [outer, major, channels, minor, inner]: a place is a major and a minor index, all else are channels.
// [N,C,H,W] with places of every batch: {1, N, C, H*W, 1}; with rows along dimension d: {outer, rows, 1, 1, inner}.
struct PlaceLayout {
  int64_t outer = 1, major = 1, channels = 1, minor = 1, inner = 1;

  struct At {
    int64_t place, channel;
  };

  int64_t places() const { return major * minor; }
  int64_t all_channels() const { return outer * channels * inner; }
  int64_t elements() const { return places() * all_channels(); }

  int64_t flat(const At& at) const { return of_place(at.place) + of_channel(at.channel); }
  // The two parts of a flat index.
  int64_t of_place(int64_t place) const { return (place / minor * channels * minor + place % minor) * inner; }
  int64_t of_channel(int64_t channel) const {
    const int64_t b = channel % inner, c = channel / inner % channels, a = channel / inner / channels;
    return (a * major * channels + c) * minor * inner + b;
  }

  At at(int64_t flat) const {
    const int64_t b = flat % inner, low = flat / inner % minor, c = flat / inner / minor % channels,
                  high = flat / inner / minor / channels % major, a = flat / inner / minor / channels / major;
    return {high * minor + low, (a * channels + c) * inner + b};
  }
};

}  // namespace msda::analysis
