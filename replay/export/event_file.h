// TensorBoard's event files: records of protocol buffers with checksums. Only the messages that are written here, in
// the wire format of tensorboard/compat/proto/{event,summary,tensor}.proto.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace msda::replay {

struct Histogram {
  double lowest = 0, highest = 0, count = 0, sum = 0, sum_of_squares = 0;
  std::vector<double> limits, counts;  // of buckets: the upper end of each, and the numbers in it
};

struct ColourImage {
  uint32_t height = 0, width = 0;
  std::vector<uint8_t> pixels;  // red, green and blue of each, row by row
};
// Returns the image as a PNG file.
std::string png_of(const ColourImage& image);

class EventFile {
 public:
  // `wall_time` of all events, in seconds since 1970.
  explicit EventFile(double wall_time);

  void add_scalar(int64_t step, std::string_view tag, double value);
  void add_histogram(int64_t step, std::string_view tag, const Histogram& histogram);
  void add_image(int64_t step, std::string_view tag, const ColourImage& image);
  // Markdown.
  void add_text(int64_t step, std::string_view tag, std::string_view text);

  const std::string& bytes() const { return bytes_; }

 private:
  void add_event(std::string_view event);
  // A message Summary.Value without its tag.
  void add_value(int64_t step, std::string_view tag, std::string_view value);

  double wall_time_;
  std::string bytes_;
};

}  // namespace msda::replay
