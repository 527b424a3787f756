// Writes which bytes of a launch's memory nobody had written as a text of the capture (docs/capture-format.md), so that
// a replay can fill them with something else.
#pragma once

#include <cstdint>
#include <string>

#include "recorder/preload/survey/unwritten.h"

namespace msda::record {

class UnwrittenText {
 public:
  // Adds a tensor: the bytes of an allocation from `begin` to before `end`. `words` are those of the allocation.
  void add(const std::string& tensor, const Unwritten::Words& words, uint64_t begin, uint64_t end);

  // "inputs/memory_0@3600:400 inputs/memory_1@80:40*99/120": bytes from 3600 on; 99 times 40 bytes, every 120 bytes.
  const std::string& text() const { return text_; }
  uint64_t bytes_left_out() const { return left_out_; }  // for want of room

 private:
  // Runs of bytes of one size, at equal distances.
  struct Series {
    uint64_t offset = 0, bytes = 0, count = 0, stride = 0;
    bool take(uint64_t next, uint64_t size);
  };
  void put(const std::string& tensor, const Series& series);

  std::string text_;
  uint64_t left_out_ = 0;
};

}  // namespace msda::record
