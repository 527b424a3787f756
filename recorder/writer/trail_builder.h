// Puts a trail together from the parts that the recorded program delivers.
#pragma once

#include <cstdint>
#include <span>

#include "recorder/capture/trail.h"
#include "recorder/spool/messages.h"

namespace msda::record {

class TrailBuilder {
 public:
  // Throws spool::Error if the payload, or an index, is not as the message says.
  void add(const spool::TrailPart& part, std::span<const std::byte> payload);

  const capture::Trail& trail() const { return trail_; }
  int64_t launches() const { return launches_; }     // of kernels and of graphs
  bool is_complete() const { return is_complete_; }  // up to the end of the process
  // Returns more bytes than the trail takes in a file.
  int64_t bytes() const { return bytes_; }

 private:
  void add_lists(const spool::TrailPart& part);
  void add_rows(std::span<const std::byte> rows);
  void add_parameters(const spool::TrailPart& part, std::span<const std::byte> bytes);

  capture::Trail trail_;
  int64_t launches_ = 0, bytes_ = 0;
  bool is_complete_ = false;
};

}  // namespace msda::record
