#include "replay/export/event_file.h"

#include <algorithm>
#include <bit>
#include <boost/crc.hpp>

namespace msda::replay {
namespace {

template <class T>
std::string little_endian(T value) {
  std::string bytes;
  for (size_t i = 0; i < sizeof value; ++i) bytes += static_cast<char>(value >> 8 * i & 0xff);
  return bytes;
}

template <class T>
std::string big_endian(T value) {
  std::string bytes = little_endian(value);
  std::ranges::reverse(bytes);
  return bytes;
}

// --- The wire format of protocol buffers.

std::string varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>((value & 0x7f) | 0x80);
  return bytes + static_cast<char>(value);
}

std::string key(int field, int wire_type) { return varint(static_cast<uint64_t>(field << 3 | wire_type)); }
std::string integer(int field, int64_t value) { return key(field, 0) + varint(static_cast<uint64_t>(value)); }
std::string real(int field, double value) { return key(field, 1) + little_endian(std::bit_cast<uint64_t>(value)); }
std::string single(int field, float value) { return key(field, 5) + little_endian(std::bit_cast<uint32_t>(value)); }
std::string bytes_field(int field, std::string_view bytes) {
  return key(field, 2) + varint(bytes.size()) + std::string(bytes);
}
std::string packed(int field, const std::vector<double>& values) {
  std::string bytes;
  for (const double value : values) bytes += little_endian(std::bit_cast<uint64_t>(value));
  return bytes_field(field, bytes);
}

// --- Records.

std::string masked_checksum(std::string_view bytes) {
  boost::crc_optimal<32, 0x1edc6f41, 0xffffffff, 0xffffffff, true, true> crc32c;
  crc32c.process_bytes(bytes.data(), bytes.size());
  return little_endian(std::rotr(static_cast<uint32_t>(crc32c.checksum()), 15) + 0xa282ead8u);
}

// --- PNG.

std::string png_chunk(const char* type, const std::string& data) {
  boost::crc_32_type crc;
  const std::string checked = type + data;
  crc.process_bytes(checked.data(), checked.size());
  return big_endian(static_cast<uint32_t>(data.size())) + checked + big_endian(static_cast<uint32_t>(crc.checksum()));
}

// Returns a zlib stream of stored blocks.
std::string stored(const std::string& data) {
  constexpr size_t kMost = 65535;
  std::string stream("\x78\x01", 2);
  for (size_t at = 0; at < data.size() || at == 0; at += kMost) {
    const auto size = static_cast<uint16_t>(std::min(kMost, data.size() - at));
    stream += static_cast<char>(at + kMost >= data.size());
    stream += little_endian(size) + little_endian(static_cast<uint16_t>(~size)) + data.substr(at, size);
  }
  uint32_t a = 1, b = 0;
  for (const char byte : data) {
    a = (a + static_cast<uint8_t>(byte)) % 65521;
    b = (b + a) % 65521;
  }
  return stream + big_endian(b << 16 | a);
}

}  // namespace

std::string png_of(const ColourImage& image) {
  std::string rows;
  for (size_t y = 0; y < image.height; ++y) {
    rows += '\0';  // no filter
    const size_t bytes = size_t{3} * image.width;
    rows.append(reinterpret_cast<const char*>(image.pixels.data()) + y * bytes, bytes);
  }
  constexpr char kColoursOf8Bits[] = {8, 2, 0, 0, 0};
  const std::string header =
      big_endian(image.width) + big_endian(image.height) + std::string(kColoursOf8Bits, sizeof kColoursOf8Bits);
  return "\x89PNG\r\n\x1a\n" + png_chunk("IHDR", header) + png_chunk("IDAT", stored(rows)) + png_chunk("IEND", "");
}

EventFile::EventFile(double wall_time) : wall_time_(wall_time) {
  add_event(real(1, wall_time_) + bytes_field(3, "brain.Event:2"));
}

void EventFile::add_event(std::string_view event) {
  const std::string length = little_endian(static_cast<uint64_t>(event.size()));
  bytes_ += length + masked_checksum(length);
  bytes_ += event;
  bytes_ += masked_checksum(event);
}

void EventFile::add_value(int64_t step, std::string_view tag, std::string_view value) {
  const std::string entry = bytes_field(1, tag) + std::string(value);
  add_event(real(1, wall_time_) + integer(2, step) + bytes_field(5, bytes_field(1, entry)));
}

void EventFile::add_scalar(int64_t step, std::string_view tag, double value) {
  add_value(step, tag, single(2, static_cast<float>(value)));
}

void EventFile::add_histogram(int64_t step, std::string_view tag, const Histogram& histogram) {
  const std::string message = real(1, histogram.lowest) + real(2, histogram.highest) + real(3, histogram.count) +
                              real(4, histogram.sum) + real(5, histogram.sum_of_squares) + packed(6, histogram.limits) +
                              packed(7, histogram.counts);
  add_value(step, tag, bytes_field(5, message));
}

void EventFile::add_image(int64_t step, std::string_view tag, const ColourImage& image) {
  const std::string message =
      integer(1, image.height) + integer(2, image.width) + integer(3, 3) + bytes_field(4, png_of(image));
  add_value(step, tag, bytes_field(4, message));
}

void EventFile::add_text(int64_t step, std::string_view tag, std::string_view text) {
  constexpr int kString = 7;
  const std::string dimension = bytes_field(2, integer(1, 1));  // a dimension of size 1
  const std::string tensor = integer(1, kString) + bytes_field(2, dimension) + bytes_field(8, text);
  const std::string metadata = bytes_field(1, bytes_field(1, "text"));
  add_value(step, tag, bytes_field(8, tensor) + bytes_field(9, metadata));
}

}  // namespace msda::replay
