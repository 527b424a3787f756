// Checks what libhdf5 1.10 does not check in an object's header: whether the parts of an attribute (its name, type,
// shape and value) lie within the attribute. libhdf5 reads them from whatever memory follows, so a damaged length gives
// another value in each process, or a crash. Internal to the reader.
#pragma once

#include <hdf5.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace msda::capture::hdf5 {

inline constexpr std::string_view kBrokenAttribute = "its parts do not lie within it";

class HeaderCheck {
 public:
  // Takes a file that libhdf5 has open for reading, and uses its descriptor.
  explicit HeaderCheck(hid_t file);

  // Returns the name of an attribute whose parts do not lie within it; nothing if there is none. Call it before reading
  // any attribute of the object. Headers of version 2 have checksums, which libhdf5 compares.
  std::optional<std::string> broken_attribute(hid_t object) const;

 private:
  std::vector<std::byte> read(uint64_t address, uint64_t bytes) const;  // fewer at the file's end
  uint64_t number(std::span<const std::byte> bytes, size_t at, size_t size) const;
  bool fits(std::span<const std::byte> attribute) const;

  int fd_ = -1;
  uint64_t base_ = 0, file_bytes_ = 0;
  size_t address_bytes_ = 8, length_bytes_ = 8;
};

}  // namespace msda::capture::hdf5
