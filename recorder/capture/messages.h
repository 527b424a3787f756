// What a reading process sends to its parent, as JSON (in CBOR, which keeps every bit of a number and any byte of a
// text).
#pragma once

#include <nlohmann/json.hpp>

#include <cstddef>
#include <span>
#include <vector>

#include "recorder/capture/call_attributes.h"
#include "recorder/capture/capture.h"
#include "recorder/capture/contents.h"
#include "recorder/capture/reader.h"
#include "recorder/process/isolated.h"

namespace nlohmann {

template <>
struct adl_serializer<std::vector<std::byte>> {
  static void to_json(json& to, const std::vector<std::byte>& bytes) {
    const auto* begin = reinterpret_cast<const uint8_t*>(bytes.data());
    to = json::binary({begin, begin + bytes.size()});
  }
  static void from_json(const json& from, std::vector<std::byte>& bytes) {
    const json::binary_t& binary = from.get_binary();
    const auto all = std::as_bytes(std::span(binary.data(), binary.size()));
    bytes.assign(all.begin(), all.end());
  }
};

template <>
struct adl_serializer<msda::capture::SharedBytes> {
  static void to_json(json& to, const msda::capture::SharedBytes& bytes) {
    const auto* begin = reinterpret_cast<const uint8_t*>(bytes.data());
    to = json::binary({begin, begin + bytes.size()});
  }
  static void from_json(const json& from, msda::capture::SharedBytes& bytes) {
    bytes = from.get<std::vector<std::byte>>();
  }
};

}  // namespace nlohmann

namespace msda::capture {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(TensorInfo, name, path, type, shape, digest, strides)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Run, argv, environment, libraries, facts)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Seed, time, source, value, invocation)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(KernelImage, digest, name, architecture, facts, image)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(SurveyedKernel, texts, integers, numbers)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RecordedTolerance, atol, rtol)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Parameters, bytes, offsets, sizes)

inline void to_json(nlohmann::json& to, const CallFacts& facts) {
  to = {{"texts", facts.texts}, {"integers", facts.integers}, {"reals", facts.reals}, {"flags", facts.flags}};
  const auto put = [&](const char* name, const auto& value) { to[name] = value; };
  for_each_call_attribute(facts, put);
  for_each_convention(facts, put);
}
inline void from_json(const nlohmann::json& from, CallFacts& facts) {
  from.at("texts").get_to(facts.texts);
  from.at("integers").get_to(facts.integers);
  from.at("reals").get_to(facts.reals);
  from.at("flags").get_to(facts.flags);
  const auto take = [&](const char* name, auto& value) { from.at(name).get_to(value); };
  for_each_call_attribute(facts, take);
  for_each_convention(facts, take);
}

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ResultFacts, name, role, dialect)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Extreme, value, index)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(StageSummary, count, finite, nan, positive_infinite, negative_infinite, zeros,
                                   subnormal, minimum, maximum, mean_magnitude, largest_magnitude)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(StageInFloat64, summary, largest_absolute_difference, largest_relative_difference,
                                   differing_finiteness)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(StageFacts, arithmetic, summary, float64)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Invocation::Result, facts, tensors)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Invocation::Stage, name, facts, full)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Invocation, id, path, facts, inputs, outputs_before, outputs, results, stages,
                                   digests, parameters)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Difference, object, why)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(TrailOutline, missing, bytes)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Verification, has_list, objects, datasets, differences)

// What a reader knows once it has opened the file.
struct Opened {
  std::string tool_version, created;
  std::vector<int64_t> ids;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Opened, tool_version, created, ids)

}  // namespace msda::capture
