// A library in the process that it runs in: loads it, describes it, and answers what LibraryProcess asks.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "recorder/process/isolated.h"
#include "replay/own/library_answers.h"
#include "replay/own/library_process.h"

namespace msda::replay {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(LibrarySchema::Dimension, name, may_be_left_out)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(LibrarySchema::Tensor, name, role, is_integer, dimensions)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(LibrarySchema::Output, tensor, coordinates, addends, over, channels)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(LibrarySchema, name, dimensions, tensors, outputs, has_coordinates)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(LibraryProcess::Value, name, integer, real)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(LibraryProcess::Answer, element, fault, has_too_many)

// open() may take a second more of computing time for so many integers.
inline constexpr int64_t kIntegersOfASecond = 1'000'000;

class LibraryServer {
 public:
  using Answer = LibraryProcess::Answer;

  // `cpu_seconds`: for each request.
  LibraryServer(process::Channel& channel, const std::string& path, int cpu_seconds);
  static std::string error(const std::string& path, int cpu_seconds);
  void allow_time() const { process::limit_computing(cpu_seconds_); }

  LibrarySchema schema() const;
  // As LibraryProcess has them; the words of answers, and the integers of a call, are sent as data.
  Answer open(int64_t number, const std::vector<int64_t>& sizes, const std::vector<std::vector<int64_t>>& shapes,
              const std::vector<LibraryProcess::Value>& values);
  bool close(int64_t number);
  Answer coordinates(int64_t call, size_t output, int64_t first, int64_t count);
  Answer addends(int64_t call, size_t output, int64_t first, int64_t count, const std::vector<int32_t>& cells);

 private:
  process::Channel& channel_;
  int cpu_seconds_;
  const msda_own_operator_description* description_ = nullptr;
  std::map<int64_t, std::unique_ptr<OpenedCall>> calls_;
};

}  // namespace msda::replay
