#include "spool_material.h"

#include <fstream>
#include <random>

#include "kernels/msda.h"
#include "recorder/spool/checksum.h"
#include "recorder/spool/messages.h"

namespace msda::tests {
namespace {

using namespace msda::spool;
using Bytes = std::vector<std::byte>;

template <class T>
Bytes bytes_of(const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

class Frames {
 public:
  template <class Message>
  void add(const Message& message, Bytes payload = {}) {
    frames_.push_back({static_cast<uint32_t>(Message::kKind), encode(message), std::move(payload)});
  }
  void tensor(uint64_t invocation, uint32_t attempt, const char* section, tensors::Description description,
              Bytes payload) {
    Tensor tensor;
    tensor.invocation = invocation;
    tensor.attempt = attempt;
    tensor.section = section;
    tensor.description = std::move(description);
    tensor.zeros = payload.empty();
    add(tensor, std::move(payload));
  }
  std::vector<RawFrame> frames_;
};

constexpr int64_t kQueries = 3, kHeads = 2, kChannels = 4, kLevels = 2, kPoints = 2, kPixels = 5 * 4 + 3 * 2;

std::vector<float> numbers(std::mt19937& random, int64_t count) {
  std::uniform_real_distribution<float> between(0.1f, 0.9f);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = between(random);
  return values;
}

// A call of the operator, with the gradients that its conventions give.
void add_operator_call(Frames& frames, uint64_t invocation, bool unconfirmed) {
  std::mt19937 random(static_cast<unsigned>(invocation));
  const std::vector<int64_t> of_value{1, kPixels, kHeads, kChannels}, of_sizes{kLevels, 2}, sizes{5, 4, 3, 2},
      of_locations{1, kQueries, kHeads, kLevels, kPoints, 2}, of_weights{1, kQueries, kHeads, kLevels, kPoints},
      of_output{1, kQueries, kHeads, kChannels};
  auto value = numbers(random, kPixels * kHeads * kChannels), output = numbers(random, kQueries * kHeads * kChannels);
  auto locations = numbers(random, kQueries * kHeads * kLevels * kPoints * 2);
  locations[0] = -0.3f;  // outside: the padding shows
  auto weights = numbers(random, kQueries * kHeads * kLevels * kPoints);
  std::vector<float> to_value(value.size()), to_locations(locations.size()), to_weights(weights.size());
  const auto as_tensor = [](auto& values, msda_dtype type, const std::vector<int64_t>& shape) {
    return msda_contiguous(values.data(), type, static_cast<int32_t>(shape.size()), shape.data());
  };
  auto sizes_again = sizes;
  msda_call call{};
  call.dialect = MSDA_MSDA_TRITON;
  call.padding = MSDA_PADDING_BORDER;
  call.value = as_tensor(value, MSDA_FLOAT32, of_value);
  call.spatial_shapes = as_tensor(sizes_again, MSDA_INT64, of_sizes);
  call.level_start_index = msda_contiguous(nullptr, MSDA_INT64, 0, nullptr);
  call.sampling_locations = as_tensor(locations, MSDA_FLOAT32, of_locations);
  call.attention_weights = as_tensor(weights, MSDA_FLOAT32, of_weights);
  const msda_tensor grad = as_tensor(output, MSDA_FLOAT32, of_output),
                    grad_value = as_tensor(to_value, MSDA_FLOAT32, of_value),
                    grad_locations = as_tensor(to_locations, MSDA_FLOAT32, of_locations),
                    grad_weights = as_tensor(to_weights, MSDA_FLOAT32, of_weights);
  if (msda_backward(&call, &grad, nullptr, &grad_value, &grad_locations, &grad_weights) != MSDA_OK) {
    throw std::runtime_error(msda_last_error());
  }
  Begin begin{{{{"kernel", "backward"},
                {"kernel_digest", "xxh3-128:00"},
                {"dialect", "msda_triton"},
                {"padding_mode", "border"},
                {"label", "test[1]"},
                {"own", "fact"}},
               {{"align_corners", 0}, {"stream", 7}, {"device", 0}, {"thread", 1}, {"own_number", -3}}},
              invocation,
              0,
              {1, 2, 3},
              {64, 1, 1}};
  if (unconfirmed) begin.integers["unconfirmed"] = 1;
  frames.add(begin);
  frames.tensor(invocation, 0, "inputs", {"value", MSDA_FLOAT32, of_value, {}}, bytes_of(value));
  frames.tensor(invocation, 0, "inputs", {"spatial_shapes", MSDA_INT64, of_sizes, {}}, bytes_of(sizes));
  frames.tensor(invocation, 0, "inputs", {"sampling_locations", MSDA_FLOAT32, of_locations, {}}, bytes_of(locations));
  frames.tensor(invocation, 0, "inputs", {"attention_weights", MSDA_FLOAT32, of_weights, {}}, bytes_of(weights));
  frames.tensor(invocation, 0, "inputs", {"grad_output", MSDA_FLOAT32, of_output, {}}, bytes_of(output));
  frames.tensor(invocation, 0, "outputs_before", {"grad_value", MSDA_FLOAT32, of_value, {}}, {});
  frames.tensor(invocation, 0, "outputs", {"grad_value", MSDA_FLOAT32, of_value, {}}, bytes_of(to_value));
  frames.tensor(invocation, 0, "outputs", {"grad_sampling_locations", MSDA_FLOAT32, of_locations, {}},
                bytes_of(to_locations));
  frames.tensor(invocation, 0, "outputs", {"grad_attention_weights", MSDA_FLOAT32, of_weights, {}},
                bytes_of(to_weights));
  frames.add(Parameters{invocation, 0, {0, 8}, {8, 4}}, Bytes(16));
  frames.add(Digests{invocation, 0, {{"inputs/value", "float32 1x26x2x4 00"}, {"outputs/grad_value", "float32 00"}}});
  frames.add(End{invocation, 0});
  // The same inputs again, with other results.
  begin.attempt = 1;
  frames.add(begin);
  frames.tensor(invocation, 1, "outputs", {"grad_value", MSDA_FLOAT32, of_value, {}}, bytes_of(to_value));
  frames.tensor(invocation, 1, "outputs", {"grad_sampling_locations", MSDA_FLOAT32, of_locations, {}},
                bytes_of(to_locations));
  frames.tensor(invocation, 1, "outputs", {"grad_attention_weights", MSDA_FLOAT32, of_weights, {}},
                bytes_of(to_weights));
  frames.add(End{invocation, 1});
  frames.add(Count{invocation, 5, 2});
}

void add_other_call(Frames& frames, uint64_t invocation) {
  frames.add(Begin{{{{"kernel", "other"}, {"operator", "grid_sample"}}}, invocation, 0, {}, {}});
  frames.tensor(invocation, 0, "inputs", {"strided", MSDA_FLOAT64, {3, 2}, {1, 4}}, Bytes(8 * (2 + 4 + 1)));
  frames.tensor(invocation, 0, "inputs", {"expanded", MSDA_FLOAT16, {30, 20}, {0, 0}}, Bytes(2));
  frames.tensor(invocation, 0, "inputs", {"scalar", kernels::kUInt8, {}, {}}, Bytes(1));
  frames.tensor(invocation, 0, "outputs", {"result", MSDA_BFLOAT16, {4, 4}, {4, 1}}, Bytes(32));
  frames.add(End{invocation, 0});
}

}  // namespace

std::vector<RawFrame> frames_of_everything() {
  Frames frames;
  frames.add(spool::Run{{"python", "train.py"}, {{"SEED", "1"}}, {{"libcuda.so", "1"}}, {{"host", "h"}}});
  frames.add(Seed{"2026-01-01T00:00:00Z", "libc", 42});
  frames.add(Kernel{"xxh3-128:00", "backward", "sm_90", {{"registers", 32}}}, Bytes(200));
  frames.add(Kernel{"xxh3-128:01", "backward", "sm_90", {}}, Bytes(100));
  add_operator_call(frames, 0, false);
  add_other_call(frames, 1);
  add_operator_call(frames, 2, true);
  frames.add(Seed{"2026-01-01T00:00:01Z", "torch_cuda", 43});
  add_operator_call(frames, 3, false);
  frames.add(Begin{{{{"kernel", "unfinished"}}}, 4, 0, {}, {}});
  return std::move(frames.frames_);
}

void write_spool(const std::string& path, const std::vector<RawFrame>& frames) {
  std::ofstream file(path, std::ios::binary);
  const FileHeader start;
  file.write(reinterpret_cast<const char*>(&start), sizeof start);
  for (const auto& [kind, message, payload] : frames) {
    FrameHeader header;
    header.kind = kind;
    header.message_bytes = message.size();
    header.payload_bytes = payload.size();
    header.checksum = checksum_of(header, message, payload);
    file.write(reinterpret_cast<const char*>(&header), sizeof header);
    file.write(reinterpret_cast<const char*>(message.data()), static_cast<std::streamsize>(message.size()));
    file.write(reinterpret_cast<const char*>(payload.data()), static_cast<std::streamsize>(payload.size()));
  }
}

}  // namespace msda::tests
