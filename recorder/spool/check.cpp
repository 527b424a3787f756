#include "recorder/spool/check.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "recorder/spool/ring.h"
#include "recorder/tensors/tensor.h"

namespace msda::spool {
namespace {

void require(bool holds, const char* otherwise) {
  if (!holds) throw Error(otherwise);
}

// HDF5 takes C strings: what follows a NUL would be lost.
void check_text(std::string_view text) { require(text.find('\0') == text.npos, "a text in a message has a NUL in it"); }

bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }

// Checks an attribute's name.
void check_key(std::string_view key) {
  require(!key.empty() && key.size() <= kLongestName && std::ranges::none_of(key, is_control),
          "a fact's name is empty, too long or has control characters in it");
}

// Checks a group's or dataset's name: one component of a path.
void check_name(std::string_view name) {
  require(!name.empty() && name != "." && name != ".." && name.size() <= kLongestName && name.find('/') == name.npos &&
              std::ranges::none_of(name, is_control),
          "a name is none that a part of a capture can have");
}

template <class Value>
void check_facts(const std::map<std::string, Value>& facts) {
  require(facts.size() <= kMostFacts, "a message has too many facts");
  for (const auto& [key, value] : facts) {
    check_key(key);
    if constexpr (std::is_same_v<Value, std::string>) check_text(value);
  }
}

void check_invocation(uint64_t invocation) {
  require(invocation < kMostInvocations, "an invocation has an absurd number");
}

void check_launch_size(const std::vector<int64_t>& size) {
  require(size.empty() || size.size() == 3, "a launch has neither three dimensions nor none");
  require(std::ranges::none_of(size, [](int64_t n) { return n < 0; }), "a launch has a negative size");
}

}  // namespace

void check(const Run& run) {
  for (const std::string& argument : run.argv) check_text(argument);
  for (const auto* facts : {&run.environment, &run.libraries, &run.facts}) check_facts(*facts);
}

void check(const Seed& seed) {
  for (const std::string& text : {seed.time, seed.source}) {
    check_text(text);
    require(text.size() <= kMostSeedText, "a seed has an absurd text");
  }
}

void check(const Kernel& kernel) {
  check_name(kernel.digest);
  check_text(kernel.name);
  check_text(kernel.architecture);
  check_facts(kernel.facts);
}

void check(const Begin& begin) {
  check_invocation(begin.invocation);
  for_each_type(begin, [](const auto& facts) { check_facts(facts); });
  check_launch_size(begin.grid);
  check_launch_size(begin.block);
}

void check(const Surveyed& surveyed) {
  check_facts(surveyed.texts);
  check_facts(surveyed.integers);
  check_facts(surveyed.numbers);
}

// The writer checks the lists, as it puts them together.
void check(const TrailPart& part) {
  for (const auto& facts : part.kernel_facts) check_facts(facts);
}

void check(const Tensor& tensor) {
  check_invocation(tensor.invocation);
  static constexpr std::array kSections{"inputs", "outputs_before", "outputs"};
  require(std::ranges::find(kSections, tensor.section) != kSections.end(), "a tensor is in an unknown section");
  const auto& [name, type, shape, strides] = tensor.description;
  check_name(name);
  require(shape.size() <= kMostRank, "a tensor has too many dimensions");
  require(std::ranges::none_of(strides, [](int64_t stride) { return stride < 0; }), "a tensor has a negative stride");
  require(kernels::bytes_of(type) > 0, "a tensor has an unknown type");
  const auto extent = extent_of(tensor.description);
  require(extent.has_value(), "a tensor has a shape that cannot be");
  const bool in_block = tensor.block >= 0;
  require(tensor.block >= -1 && tensor.block < int64_t{RingHeader::kBlocks}, "a tensor lies in no block that there is");
  require(!(in_block && tensor.zeros), "a tensor is zero all over and has bytes");
  require(in_block ? tensor.offset >= RingHeader::kBytes && extent->can_be_recorded_in(tensor.bytes)
                   : tensor.offset == 0 && tensor.bytes == 0,
          "a tensor does not have the bytes that its shape wants");
}

void check(const Parameters& parameters) {
  check_invocation(parameters.invocation);
  const std::vector<int64_t>&offsets = parameters.offsets, &sizes = parameters.sizes;
  require(offsets.size() == sizes.size() && offsets.size() <= kMostFacts, "parameters do not have a size each");
  for (size_t i = 0; i < offsets.size(); ++i) {
    int64_t end = 0;
    require(offsets[i] >= 0 && sizes[i] >= 0 && !__builtin_add_overflow(offsets[i], sizes[i], &end),
            "a parameter lies where none can");
  }
}

void check_payload(const Tensor& tensor, uint64_t bytes) {
  const bool has_payload = tensor.block < 0 && !tensor.zeros;
  require(has_payload ? extent_of(tensor.description)->can_be_recorded_in(bytes) : bytes == 0,
          "a tensor does not have the bytes that its shape wants");
}

void check_payload(const Parameters& parameters, uint64_t bytes) {
  require(bytes <= kMostParameterBytes, "a launch has more parameters than any");
  for (size_t i = 0; i < parameters.offsets.size(); ++i) {
    require(static_cast<uint64_t>(parameters.offsets[i] + parameters.sizes[i]) <= bytes,
            "a parameter lies where none can");
  }
}

void check_payload(const Kernel&, uint64_t bytes) {
  require(bytes <= kMostImageBytes, "an image of code is too large");
}

void check(const Digests& digests) {
  check_invocation(digests.invocation);
  check_facts(digests.digests);
}

void check(const End& end) { check_invocation(end.invocation); }

void check(const Drop& drop) { check_invocation(drop.invocation); }

void check(const Count& count) {
  check_invocation(count.invocation);
  require(count.duplicates >= 0 && count.distinct_outputs >= 0, "a count is negative");
}

}  // namespace msda::spool
