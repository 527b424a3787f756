#include "recorder/writer/stages.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <limits>
#include <span>
#include <thread>
#include <vector>

#include "kernels/msda.h"
#include "kernels/names.h"
#include "kernels/parallel.h"
#include "recorder/writer/summarize.h"

namespace msda::record {
namespace {

using capture::TensorView;

// Sizes by their letters (msda.h).
struct Call {
  msda_call call{};
  msda_tensor grad_output{};
  int64_t B = 0, S = 0, M = 0, D = 0, L = 0, Q = 0, P = 0;
  bool float64 = false;  // the arithmetic is, because an input is
};

msda_tensor tensor_from(const std::map<std::string, TensorView>& inputs, const std::string& name) {
  const auto found = inputs.find(name);
  if (found == inputs.end()) throw NoStages("there is no " + name);
  const TensorView& view = found->second;
  if (view.type == kernels::kUInt8) throw NoStages(name + " has type uint8");
  int64_t bytes = kernels::bytes_of(view.type);
  for (const int64_t size : view.shape) {
    if (size < 0 || __builtin_mul_overflow(bytes, size, &bytes)) bytes = -1;
  }
  if (bytes != static_cast<int64_t>(view.bytes.size())) throw NoStages(name + " has not the size of its shape");
  // The C ABI uses one type for inputs and results; it writes no input.
  return msda_contiguous(const_cast<std::byte*>(view.bytes.data()), view.type, static_cast<int32_t>(view.shape.size()),
                         view.shape.data());
}

Call call_from(const capture::CallFacts& facts, const std::map<std::string, TensorView>& inputs) {
  Call result;
  msda_call& call = result.call;
  const auto dialect = kernels::dialect_named(facts.dialect);
  const auto padding = kernels::padding_named(facts.padding_mode.empty() ? "zeros" : facts.padding_mode);
  if (!dialect || !padding) throw NoStages("its conventions are not known");
  call.dialect = *dialect;
  call.padding = *padding;
  call.align_corners = facts.align_corners;
  call.value = tensor_from(inputs, "value");
  call.spatial_shapes = tensor_from(inputs, "spatial_shapes");
  call.level_start_index = inputs.contains("level_start_index") ? tensor_from(inputs, "level_start_index")
                                                                : msda_contiguous(nullptr, MSDA_INT64, 0, nullptr);
  call.sampling_locations = tensor_from(inputs, "sampling_locations");
  call.attention_weights = tensor_from(inputs, "attention_weights");
  result.grad_output = tensor_from(inputs, "grad_output");
  // A call without results only checks the shapes.
  if (msda_backward(&call, &result.grad_output, nullptr, nullptr, nullptr, nullptr) != MSDA_OK) {
    throw NoStages(msda_last_error());
  }
  call.level_start_index = msda_contiguous(nullptr, MSDA_INT64, 0, nullptr);  // invalid for a part of the call
  result.B = call.value.shape[0];
  result.S = call.value.shape[1];
  result.M = call.value.shape[2];
  result.D = call.value.shape[3];
  result.L = call.spatial_shapes.shape[0];
  result.Q = call.sampling_locations.shape[1];
  result.P = call.sampling_locations.shape[4];
  for (const msda_tensor* tensor :
       {&call.value, &call.sampling_locations, &call.attention_weights, &result.grad_output}) {
    result.float64 = result.float64 || tensor->dtype == MSDA_FLOAT64;
  }
  return result;
}

struct Range {
  int64_t begin, size;
};

void narrow(msda_tensor& tensor, int dimension, Range range) {
  tensor.data =
      static_cast<std::byte*>(tensor.data) + range.begin * tensor.stride[dimension] * kernels::bytes_of(tensor.dtype);
  tensor.shape[dimension] = range.size;
}

// Calls visit(Range) for [0, size) cut into ranges of `step`.
template <class Visit>
void for_each_range(int64_t size, int64_t step, Visit&& visit) {
  for (int64_t begin = 0; begin < size; begin += step) visit(Range{begin, std::min(step, size - begin)});
}

// Returns how many indices of a dimension of `size` fit into `room` if each takes `each`; at least 1.
int64_t step_for(int64_t room, int64_t each, int64_t size) {
  return std::clamp<int64_t>(room / std::max<int64_t>(each, 1), 1, std::max<int64_t>(size, 1));
}

// The summaries of one stage.
struct Tally {
  explicit Tally(bool float64)
      : recorded(float64 ? std::numeric_limits<double>::min() : double{std::numeric_limits<float>::min()}) {}
  Summarizer recorded;
  Summarizer exact{std::numeric_limits<double>::min()};
  Differences apart;
};

class StageAdder {
 public:
  StageAdder(const Call& call, bool full, int64_t memory, capture::Writer& writer)
      : call_(call), full_(full), memory_(memory), writer_(writer), tallies_(MSDA_STAGE_COUNT, Tally(call.float64)) {}

  void add_all() {
    make_room();
    for (size_t i = 0; full_ && i < MSDA_STAGE_COUNT; ++i) writer_.begin_stage(name(i), type(), shape_of(i));
    add_samples();
    add_grad_value();
    for (size_t i = 0; i < MSDA_STAGE_COUNT; ++i) {
      const Tally& tally = tallies_[i];
      capture::StageFacts facts{kernels::name_of(type()), tally.recorded.summary(), {}};
      if (!call_.float64) facts.float64 = tally.apart.beside(tally.exact.summary());
      writer_.add_stage_facts(name(i), facts);
      if (full_) writer_.end_stage(name(i));
    }
  }

 private:
  static std::string name(size_t stage) { return msda_stage_name(static_cast<msda_stage_id>(stage)); }
  msda_dtype type() const { return call_.float64 ? MSDA_FLOAT64 : MSDA_FLOAT32; }

  std::vector<int64_t> shape_of(size_t stage) const {
    if (stage == MSDA_STAGE_GRAD_VALUE) return {call_.B, call_.S, call_.M, call_.D};
    std::vector<int64_t> shape{call_.B, call_.Q, call_.M, call_.L, call_.P};
    std::ranges::copy(of_sample(stage), std::back_inserter(shape));
    return shape;
  }

  void make_room() {
    int64_t bytes = int64_t{1} << 18;  // for groups and attributes
    bool fits = true;
    for (size_t i = 0; full_ && i < MSDA_STAGE_COUNT; ++i) {
      int64_t of_stage = kernels::bytes_of(type());
      for (const int64_t size : shape_of(i)) fits = fits && !__builtin_mul_overflow(of_stage, size, &of_stage);
      fits = fits && !__builtin_add_overflow(bytes, of_stage, &bytes);
    }
    if (!fits || !writer_.reserve(bytes)) {
      throw NoStages(fits ? "no room on the disk for the " + std::to_string((bytes >> 20) + 1) + " MiB that they take"
                          : "they are larger than any disk");
    }
  }

  // Returns the dimensions of a stage after those of the samples.
  std::vector<int64_t> of_sample(size_t stage) const {
    switch (stage) {
      case MSDA_STAGE_INTERPOLATION_WEIGHTS:
        return {4};
      case MSDA_STAGE_CORNER_VALUES:
      case MSDA_STAGE_VALUE_CONTRIBUTIONS:
        return {4, call_.D};
      case MSDA_STAGE_SAMPLED_VALUE:
        return {call_.D};
      case MSDA_STAGE_GRAD_ATTENTION_WEIGHTS:
        return {};
      default:
        return {2};
    }
  }

  // Adds all stages except grad_value, for as many samples at a time as fit: whole queries, or some heads of one query,
  // or some points of these. Results are float64 tensors, which hold float32 numbers exactly.
  void add_samples() {
    const int64_t bytes = 8 * (11 + 9 * call_.D) * (call_.float64 ? 1 : 2) + (full_ ? 4 * 4 * call_.D : 0);
    const int64_t room = std::max<int64_t>(memory_ / bytes, 1);
    const int64_t points = step_for(room, call_.L, call_.P);
    const int64_t heads = points < call_.P ? 1 : step_for(room, call_.L * call_.P, call_.M);
    const int64_t queries = heads < call_.M ? 1 : step_for(room, call_.L * call_.P * call_.M, call_.Q);
    for_each_range(call_.B, 1, [&](Range b) {
      for_each_range(call_.Q, queries, [&](Range q) {
        for_each_range(call_.M, heads,
                       [&](Range m) { for_each_range(call_.P, points, [&](Range p) { add_samples(b, q, m, p); }); });
      });
    });
  }

  void add_samples(Range b, Range q, Range m, Range p) {
    Call part = call_;
    for (msda_tensor* tensor :
         {&part.call.value, &part.call.sampling_locations, &part.call.attention_weights, &part.grad_output}) {
      narrow(*tensor, 0, b);
      narrow(*tensor, 2, m);
      if (tensor != &part.call.value) narrow(*tensor, 1, q);
    }
    narrow(part.call.sampling_locations, 4, p);
    narrow(part.call.attention_weights, 4, p);
    std::array<Box, MSDA_STAGE_GRAD_VALUE> boxes;
    for (size_t i = 0; i < boxes.size(); ++i) {
      boxes[i] = {{b.begin, q.begin, m.begin, 0, p.begin}, {b.size, q.size, m.size, call_.L, p.size}};
      for (const int64_t size : of_sample(i)) {
        boxes[i].offset.push_back(0);
        boxes[i].shape.push_back(size);
      }
    }
    const auto run = [&](msda_mode mode, std::array<std::vector<double>, MSDA_STAGE_GRAD_VALUE>& numbers) {
      std::array<msda_tensor, MSDA_STAGE_GRAD_VALUE> tensors;
      const msda_tensor* results[MSDA_STAGE_COUNT] = {};
      for (size_t i = 0; i < boxes.size(); ++i) {
        tensors[i] = result_tensor(boxes[i], numbers[i]);
        results[i] = &tensors[i];
      }
      const msda_options options{mode, 0, 0, 0};
      check(msda_stages(&part.call, &part.grad_output, &options, results));
    };
    run(MSDA_MODE_DETERMINISTIC, numbers_);
    if (!call_.float64) run(MSDA_MODE_FLOAT64, exact_);
    take(MSDA_STAGE_PIXEL_COORDINATES, boxes);
  }

  // Divides the scatter sum by levels, heads and channels, which are independent in it. It uses the loops of
  // msda_backward: the traced ones of msda_stage give the same bits, but hold all addends of a level.
  void add_grad_value() {
    numbers_ = {};
    exact_ = {};
    // Two results, the kernels' own copies of a result and of `value`, and the numbers being written into the file.
    const int64_t room = std::max<int64_t>(memory_ / 40, 1);
    // Each thread has its own copy of a level's samples, and a number for each cell.
    const int64_t for_thread = 96 * call_.Q * call_.P + 16 * call_.S + 1;
    threads_ = static_cast<int32_t>(std::clamp<int64_t>(memory_ / for_thread, 1, std::max(1u, cores())));
    const bool whole = call_.S * call_.M * call_.D <= room;
    for_each_range(call_.B, 1, [&](Range b) {
      if (whole) return add_grad_value(b, {0, call_.L}, {0, call_.S}, {0, call_.M}, {0, call_.D});
      int64_t start = 0;
      for_each_range(call_.L, 1, [&](Range l) {
        const Range pixels{start, side(2 * l.begin) * side(2 * l.begin + 1)};
        start += pixels.size;
        const int64_t channels = step_for(room, pixels.size, call_.D);
        const int64_t heads = channels < call_.D ? 1 : step_for(room, pixels.size * call_.D, call_.M);
        for_each_range(call_.M, heads, [&](Range m) {
          for_each_range(call_.D, channels, [&](Range d) { add_grad_value(b, l, pixels, m, d); });
        });
      });
    });
  }

  void add_grad_value(Range b, Range l, Range pixels, Range m, Range d) {
    Call part = call_;
    narrow(part.call.spatial_shapes, 0, l);
    narrow(part.call.value, 1, pixels);
    narrow(part.call.value, 3, d);
    narrow(part.grad_output, 3, d);
    narrow(part.call.sampling_locations, 3, l);
    narrow(part.call.attention_weights, 3, l);
    for (msda_tensor* tensor :
         {&part.call.value, &part.call.sampling_locations, &part.call.attention_weights, &part.grad_output}) {
      narrow(*tensor, 0, b);
      narrow(*tensor, 2, m);
    }
    const Box box{{b.begin, pixels.begin, m.begin, d.begin}, {b.size, pixels.size, m.size, d.size}};
    const auto run = [&](msda_mode mode, std::vector<double>& numbers) {
      const msda_tensor result = result_tensor(box, numbers);
      const msda_options options{mode, threads_, 0, 0};
      check(msda_backward(&part.call, &part.grad_output, &options, &result, nullptr, nullptr));
    };
    run(MSDA_MODE_DETERMINISTIC, numbers_[0]);
    if (!call_.float64) run(MSDA_MODE_FLOAT64, exact_[0]);
    take(MSDA_STAGE_GRAD_VALUE, std::span(&box, 1));
  }

  static unsigned cores() { return std::thread::hardware_concurrency(); }
  int64_t side(int64_t flat) const {
    const msda_tensor& shapes = call_.call.spatial_shapes;
    return shapes.dtype == MSDA_INT32 ? static_cast<const int32_t*>(shapes.data)[flat]
                                      : static_cast<const int64_t*>(shapes.data)[flat];
  }

  static msda_tensor result_tensor(const Box& box, std::vector<double>& numbers) {
    numbers.resize(static_cast<size_t>(box.elements()));
    return msda_contiguous(numbers.data(), MSDA_FLOAT64, static_cast<int32_t>(box.shape.size()), box.shape.data());
  }
  static void check(msda_status status) {
    if (status != MSDA_OK) throw NoStages(msda_last_error());
  }

  // Adds the numbers of the current part, one or more stages, to the tallies, on all cores, and writes them into the
  // file.
  void take(size_t first_stage, std::span<const Box> boxes) {
    const auto stages = static_cast<int64_t>(boxes.size()), tasks = call_.float64 ? stages : 3 * stages;
    kernels::parallel_for(tasks, kernels::thread_count(0, tasks), [&](int64_t task, int) {
      const auto i = static_cast<size_t>(task % stages);
      Tally& tally = tallies_[first_stage + i];
      if (task / stages == 0) tally.recorded.add(numbers_[i], boxes[i]);
      if (task / stages == 1) tally.exact.add(exact_[i], boxes[i]);
      if (task / stages == 2) tally.apart.add(numbers_[i], exact_[i], boxes[i]);
    });
    for (size_t i = 0; full_ && i < boxes.size(); ++i) {
      TensorView view{{name(first_stage + i), type(), boxes[i].shape}, std::as_bytes(std::span(numbers_[i]))};
      if (!call_.float64) {
        to_file_.assign(numbers_[i].begin(), numbers_[i].end());
        view.bytes = std::as_bytes(std::span(to_file_));
      }
      writer_.add_stage_part(view.name, boxes[i].offset, view);
    }
  }

  const Call& call_;
  bool full_;
  int64_t memory_;
  int32_t threads_ = 1;
  capture::Writer& writer_;
  std::vector<Tally> tallies_;  // by stage
  // The numbers of the current part, by stage.
  std::array<std::vector<double>, MSDA_STAGE_GRAD_VALUE> numbers_, exact_;
  std::vector<float> to_file_;
};

}  // namespace

std::optional<Stages> stages_from(std::string_view word) {
  if (word == "none") return Stages::kNone;
  if (word == "summary") return Stages::kSummary;
  if (word == "full") return Stages::kFull;
  return std::nullopt;
}

void add_stages(const capture::CallFacts& facts, const std::map<std::string, TensorView>& inputs, bool full,
                int64_t memory, capture::Writer& writer) {
  const Call call = call_from(facts, inputs);
  try {
    StageAdder(call, full, memory, writer).add_all();
  } catch (const std::bad_alloc&) {
    throw NoStages("out of memory");
  }
}

}  // namespace msda::record
