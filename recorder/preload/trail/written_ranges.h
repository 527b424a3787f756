// What a copy or a memset writes, as the hooks report it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "recorder/preload/driver/copy_layout.h"
#include "recorder/preload/driver/digester.h"

namespace msda::record {

// Has the same functions as Unwritten.
class WrittenRanges {
 public:
  void written(const DeviceRange& range) { ranges_.push_back(range); }
  // Includes what lies between the rows.
  void written_rows(const DeviceRange& row, uint64_t pitch, uint64_t rows) {
    if (rows > 0) ranges_.push_back({row.address, (rows - 1) * pitch + row.bytes});
  }
  template <class Copy>
  void copied(const Copy& copy) {
    cuda::for_each_layer(copy, copy.to, [this](uint64_t address, uint64_t bytes, uint64_t pitch, uint64_t rows) {
      written_rows({address, bytes}, pitch, rows);
    });
  }
  void none_written() { ranges_.clear(); }
  void all_written() {}  // no range is known

  const std::vector<DeviceRange>& ranges() const { return ranges_; }

 private:
  std::vector<DeviceRange> ranges_;
};

}  // namespace msda::record
