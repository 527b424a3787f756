// The layout is that of the HDF5 File Format Specification 3.0, IV.A.1.a (headers of version 1) and IV.A.2.m
// (attributes).
#include "recorder/capture/object_header.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "recorder/capture/hdf5.h"

namespace msda::capture::hdf5 {
namespace {

constexpr size_t kPrefixBytes = 16, kMessageHeadBytes = 8;
constexpr uint64_t kAttribute = 0x0c, kContinuation = 0x10;  // types of messages
constexpr uint64_t kShared = 2;                              // flag of a message that lies elsewhere

uint64_t address_of(hid_t object) {
#if H5_VERSION_GE(1, 12, 0)
  H5O_info1_t info{};
#else
  H5O_info_t info{};
#endif
  return H5Oget_info2(object, &info, H5O_INFO_BASIC) < 0 ? 0 : static_cast<uint64_t>(info.addr);
}

}  // namespace

HeaderCheck::HeaderCheck(hid_t file) {
  const Properties access(H5Fget_access_plist(file)), creation(H5Fget_create_plist(file));
  void* descriptor = nullptr;
  if (H5Pget_driver(access.get()) != H5FD_SEC2 || H5Fget_vfd_handle(file, H5P_DEFAULT, &descriptor) < 0) return;
  hsize_t before_the_file = 0;
  struct stat status {};
  if (H5Pget_userblock(creation.get(), &before_the_file) < 0 ||
      H5Pget_sizes(creation.get(), &address_bytes_, &length_bytes_) < 0 ||
      fstat(*static_cast<int*>(descriptor), &status) != 0) {
    return;
  }
  fd_ = *static_cast<int*>(descriptor);
  base_ = before_the_file;
  file_bytes_ = static_cast<uint64_t>(status.st_size);
}

std::vector<std::byte> HeaderCheck::read(uint64_t address, uint64_t bytes) const {
  if (address > file_bytes_ || base_ > file_bytes_ - address) return {};
  std::vector<std::byte> result(std::min(bytes, file_bytes_ - address - base_));
  const ssize_t got = pread(fd_, result.data(), result.size(), static_cast<off_t>(address + base_));
  result.resize(static_cast<size_t>(std::max<ssize_t>(got, 0)));
  return result;
}

// Reads little-endian. Returns 0 if the number does not lie within the bytes.
uint64_t HeaderCheck::number(std::span<const std::byte> bytes, size_t at, size_t size) const {
  if (size > 8 || at > bytes.size() || size > bytes.size() - at) return 0;
  uint64_t result = 0;
  for (size_t i = size; i-- > 0;) result = result << 8 | std::to_integer<uint64_t>(bytes[at + i]);
  return result;
}

bool HeaderCheck::fits(std::span<const std::byte> attribute) const {
  const uint64_t version = number(attribute, 0, 1);
  if (version < 1 || version > 3) return true;  // libhdf5 refuses it
  const auto part = [&](size_t at) {
    const auto bytes = static_cast<size_t>(number(attribute, at, 2));
    return version == 1 ? (bytes + 7) / 8 * 8 : bytes;
  };
  const size_t type = (version == 3 ? 9 : 8) + part(2), shape = type + part(4), value = shape + part(6);
  if (value > attribute.size()) return false;
  const bool has_flags = version > 1;
  if (has_flags && number(attribute, 1, 1) != 0) return true;  // its type or shape lies elsewhere
  const bool is_new = number(attribute, shape, 1) == 2;
  constexpr uint64_t kNull = 2;
  if (is_new && number(attribute, shape + 3, 1) == kNull) return true;
  const auto rank = static_cast<size_t>(number(attribute, shape + 1, 1));
  const size_t sizes = shape + (is_new ? 4 : 8);
  if (sizes + rank * length_bytes_ > value) return false;
  uint64_t bytes = number(attribute, type + 4, 4);
  for (size_t d = 0; d < rank; ++d) {
    if (__builtin_mul_overflow(bytes, number(attribute, sizes + d * length_bytes_, length_bytes_), &bytes))
      return false;
  }
  return bytes <= attribute.size() - value;
}

std::optional<std::string> HeaderCheck::broken_attribute(hid_t object) const {
  constexpr uint64_t kUsualBytes = 1024;
  if (fd_ < 0) return std::nullopt;
  const uint64_t address = address_of(object);
  std::vector<std::byte> chunk = read(address, kUsualBytes);
  if (chunk.size() < kPrefixBytes || number(chunk, 0, 1) != 1) return std::nullopt;
  const uint64_t messages = number(chunk, 2, 2), first = kPrefixBytes + number(chunk, 8, 4);
  if (first > kUsualBytes) chunk = read(address, first);
  chunk.resize(std::min<uint64_t>(chunk.size(), first));
  std::vector<std::pair<uint64_t, uint64_t>> further;  // chunks: where, how long
  size_t at = kPrefixBytes;
  for (uint64_t i = 0; i < messages; ++i) {
    if (chunk.size() < at + kMessageHeadBytes) {
      if (further.empty()) break;
      chunk = read(further.back().first, further.back().second);
      further.pop_back();
      at = 0;
      if (chunk.size() < kMessageHeadBytes) break;
    }
    const uint64_t type = number(chunk, at, 2), flags = number(chunk, at + 4, 1);
    const std::span<const std::byte> rest = std::span(chunk).subspan(at + kMessageHeadBytes);
    const auto body = rest.first(std::min<size_t>(rest.size(), number(chunk, at + 2, 2)));
    at += kMessageHeadBytes + body.size();
    if (type == kContinuation) {
      further.emplace_back(number(body, 0, address_bytes_), number(body, address_bytes_, length_bytes_));
    }
    if (type != kAttribute || (flags & kShared) != 0 || fits(body)) continue;
    const auto* name = reinterpret_cast<const char*>(body.data()) + (number(body, 0, 1) == 3 ? 9 : 8);
    const auto* end = reinterpret_cast<const char*>(body.data() + body.size());
    return std::string(std::min(name, end), std::find(std::min(name, end), end, '\0'));
  }
  return std::nullopt;
}

}  // namespace msda::capture::hdf5
