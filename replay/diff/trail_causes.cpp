#include "replay/diff/trail_causes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <functional>
#include <set>
#include <string_view>

#include "analysis/causes/finding.h"
#include "recorder/device/kernel_names.h"
#include "recorder/text/demangle.h"
#include "replay/diff/kernel_family.h"

namespace msda::replay {
namespace {

using analysis::thousands;
using capture::TrailKind;
using capture::TrailRow;
using Evidence = std::optional<std::string>;

struct PartingCase {
  const TrailRun &a, &b;
  const TrailAlignment& alignment;
  const TrailPart& part;

  bool is_pair() const { return part.is_pair(); }
  size_t row_a() const { return part.a.front(); }
  size_t row_b() const { return part.b.front(); }
  bool any(const std::function<bool(const TrailRun&, size_t)>& holds) const { return any_a(holds) || any_b(holds); }
  bool any_a(const std::function<bool(const TrailRun&, size_t)>& holds) const {
    return std::ranges::any_of(part.a, [&](size_t row) { return holds(a, row); });
  }
  bool any_b(const std::function<bool(const TrailRun&, size_t)>& holds) const {
    return std::ranges::any_of(part.b, [&](size_t row) { return holds(b, row); });
  }
};

std::string name_of_kernel(const TrailRun& run, size_t row) { return text::demangled(run.kernel(row).name); }

// Returns whether the caller, the operator or the label of the row passes the check.
template <class Matches>
bool is_called_by(const TrailRun& run, size_t row, Matches&& matches) {
  const auto& [python, node, operation, label] = run.caller(row);
  return std::ranges::any_of(std::array{&python, &node, &operation, &label},
                             [&](const std::string* text) { return matches(*text); });
}

bool is_copy_in(const PartingCase& parting) {
  return parting.is_pair() && parting.a.row(parting.row_a()).kind == TrailKind::kCopyIn;
}

Evidence host_memory(const PartingCase& parting) {
  if (!parting.is_pair() || parting.a.row(parting.row_a()).kind != TrailKind::kHostMemory) return std::nullopt;
  return fmt::format("the host's memory that launch {} of A reaches had other contents before this launch",
                     thousands(parting.a.launches[parting.row_a()] + 1));
}

// Finds another loss scale: a gradient scaler's scale is one number, set by one block, and a power of two.
Evidence other_scale(const PartingCase& parting) {
  const auto is_scale = [](uint64_t word) {
    constexpr uint32_t kMantissa = 0x7FFFFF, kOfEight = 0x41000000, kInfinity = 0x7F800000;
    const auto low = static_cast<uint32_t>(word);
    return word >> 32 == 0 && (low & kMantissa) == 0 && low >= kOfEight && low < kInfinity;
  };
  const auto scales = [](const TrailRun& run) {
    return std::ranges::any_of(run.trail.kernels, [](const auto& kernel) {
      return record::has_any(kernel.name, {"amp_update_scale", "amp_non_finite", "amp_foreach_non_finite"});
    });
  };
  const auto* const configuration = parting.is_pair() ? parting.a.configuration(parting.row_a()) : nullptr;
  const bool is_one_block =
      configuration != nullptr && std::ranges::all_of(configuration->grid, [](uint32_t blocks) { return blocks == 1; });
  if (!is_one_block || !scales(parting.a) || !scales(parting.b)) return std::nullopt;
  for (const ParameterDifference& word : parting.part.parameters) {
    // If the lower halves are equal, the upper halves are a parameter of their own.
    const bool is_upper = (word.a & 0xFFFFFFFF) == (word.b & 0xFFFFFFFF);
    const auto differing = [&](uint64_t both) { return is_upper && both >> 32 != 0 ? both >> 32 : both; };
    if (is_scale(differing(word.a)) && is_scale(differing(word.b))) {
      return "it sets one number to another power of two, and the program looks for overflow as a gradient scaler does";
    }
  }
  return std::nullopt;
}

Evidence loss_scale(const PartingCase& parting) {
  const auto of_scaler = [](const TrailRun& run, size_t row) {
    const auto names_scaler = [](const std::string& text) {
      return record::has_any(text, {"grad_scaler", "GradScaler"});
    };
    return is_called_by(run, row, names_scaler) ||
           record::has_any(run.kernel(row).name,
                           {"amp_update_scale", "amp_non_finite_check", "amp_foreach_non_finite"});
  };
  if (!parting.any(of_scaler)) return other_scale(parting);
  return "it is called by the gradient scaler, or is the kernel with which that looks for overflow";
}

// Returns where B copies A's data, among its other copies.
std::optional<size_t> copied_elsewhere(const TrailRun& a, size_t row_a, const TrailRun& b, size_t row_b) {
  constexpr uint64_t kLeast = 32;  // with fewer bytes, equal data are common
  const TrailRow& wanted = a.row(row_a);
  if (wanted.bytes < kLeast) return std::nullopt;
  for (size_t i = 0; i < b.trail.rows.size(); ++i) {
    const TrailRow& row = b.row(i);
    const bool is_same = row.kind == TrailKind::kCopyIn && row.digest == wanted.digest && row.bytes == wanted.bytes;
    if (is_same && i != row_b && is_comparable(a, row_a, b, i)) return i;
  }
  return std::nullopt;
}

Evidence data_order(const PartingCase& parting) {
  if (!is_copy_in(parting)) return std::nullopt;
  if (const auto at = copied_elsewhere(parting.a, parting.row_a(), parting.b, parting.row_b())) {
    return fmt::format("what A copies here, B copies in {}", where_of(parting.b, *at));
  }
  if (const auto at = copied_elsewhere(parting.b, parting.row_b(), parting.a, parting.row_a())) {
    return fmt::format("what B copies here, A copies in {}", where_of(parting.a, *at));
  }
  return std::nullopt;
}

Evidence batch(const PartingCase& parting) {
  if (!is_copy_in(parting) || data_order(parting)) return std::nullopt;
  return fmt::format("{} bytes from the host are not the same, and are in no other copy of the other run",
                     thousands(static_cast<int64_t>(parting.a.row(parting.row_a()).bytes)));
}

// Returns the values of seeds that only `run` has set.
std::vector<uint64_t> own_seeds(const TrailRun& run, const TrailRun& partner) {
  std::set<uint64_t> values, others;
  for (const auto& seed : run.seeds) values.insert(seed.value);
  for (const auto& seed : partner.seeds) others.insert(seed.value);
  std::vector<uint64_t> own;
  std::ranges::set_difference(values, others, std::back_inserter(own));
  return own;
}

Evidence generator(const PartingCase& parting) {
  const std::vector<uint64_t> seeds_a = own_seeds(parting.a, parting.b), seeds_b = own_seeds(parting.b, parting.a);
  const auto is_seed = [&](const ParameterDifference& word) {
    return std::ranges::count(seeds_a, word.a) > 0 || std::ranges::count(seeds_b, word.b) > 0;
  };
  const auto found = std::ranges::find_if(parting.part.parameters, is_seed);
  if (found != parting.part.parameters.end()) {
    return fmt::format("the parameter at byte {} is a seed that only one run has set", found->offset);
  }
  const bool in_a = parting.any_a(draws_random_numbers), in_b = parting.any_b(draws_random_numbers);
  if (!in_a && !in_b) return std::nullopt;
  if (!parting.is_pair() && in_a && in_b) return std::nullopt;
  if (!parting.is_pair()) return "only one run draws random numbers here: what is drawn later differs";
  if (parting.part.parameters.empty()) return std::nullopt;
  if (!seeds_a.empty() || !seeds_b.empty()) {
    return "it draws random numbers, its parameters differ, and so do the recorded seeds";
  }
  return "it draws random numbers, and its parameters, seed or offset among them, differ";
}

Evidence other_gpu(const PartingCase& parting) {
  const std::string a = parting.a.fact("gpu"), b = parting.b.fact("gpu");
  if (!a.empty() && !b.empty() && a != b) return fmt::format("the GPUs are {} and {}", a, b);
  if (!parting.is_pair()) return std::nullopt;
  const std::string &of_a = parting.a.kernel(parting.row_a()).architecture,
                    &of_b = parting.b.kernel(parting.row_b()).architecture;
  if (of_a.empty() || of_b.empty() || of_a == of_b) return std::nullopt;
  return fmt::format("the code is of {} and of {}", of_a, of_b);
}

// Returns whether it is a TF32 kernel, by cuBLAS's and cuDNN's names; s1688 with float16 is another instruction.
bool names_tf32(const TrailRun& run, size_t row) {
  const std::string& name = run.kernel(row).name;
  return record::has_any(name, {"tf32", "TF32"}) ||
         (record::has_any(name, {"s1688"}) && !record::has_any(name, {"f16", "fp16", "h1688"}));
}

Evidence tf32(const PartingCase& parting) {
  const bool in_a = parting.any_a(names_tf32), in_b = parting.any_b(names_tf32);
  if (in_a != in_b) return fmt::format("the name says TF32 in {} only", in_a ? "A" : "B");
  for (const char* name : {"NVIDIA_TF32_OVERRIDE", "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", "TF32_OVERRIDE"}) {
    const auto value = [&](const TrailRun& run) {
      const auto found = run.run.environment.find(name);
      return found == run.run.environment.end() ? std::string("(not set)") : found->second;
    };
    if (value(parting.a) != value(parting.b))
      return fmt::format("{} is {} and {}", name, value(parting.a), value(parting.b));
  }
  return std::nullopt;
}

bool is_library_launch(const TrailRun& run, size_t row) { return is_of_library(name_of_kernel(run, row)); }

int64_t measured(const TrailRun& run, const std::string& name) {
  int64_t count = 0;
  for (size_t i = 0; i < run.trail.rows.size(); ++i) {
    count += (run.row(i).flags & TrailRow::kMeasures) != 0 && run.kernel(i).name == name;
  }
  return count;
}

Evidence tuner(const PartingCase& parting) {
  if (!parting.is_pair() || !is_of_triton(parting.a.kernel(parting.row_a()).name)) return std::nullopt;
  const auto &kernel_a = parting.a.kernel(parting.row_a()), &kernel_b = parting.b.kernel(parting.row_b());
  const auto *of_a = parting.a.configuration(parting.row_a()), *of_b = parting.b.configuration(parting.row_b());
  const bool other_code = kernel_a.digest != kernel_b.digest,
             other_grid = of_a != nullptr && of_b != nullptr && *of_a != *of_b;
  if (kernel_a.name != kernel_b.name || (!other_code && !other_grid)) return std::nullopt;
  const int64_t in_a = measured(parting.a, kernel_a.name), in_b = measured(parting.b, kernel_b.name);
  const std::string how =
      in_a + in_b > 0 ? fmt::format("; a tuner measured it, {} times in A, {} times in B", in_a, in_b) : std::string();
  return fmt::format("a Triton kernel of the same name with other {}{}", other_code ? "code" : "grid or block", how);
}

Evidence algorithm(const PartingCase& parting) {
  if (!parting.any(is_library_launch)) return std::nullopt;
  if (parting.is_pair() && parting.a.kernel(parting.row_a()).name == parting.b.kernel(parting.row_b()).name)
    return std::nullopt;
  return "cuDNN, cuBLAS or CUTLASS chose another kernel";
}

// Finds the last allocation before it that nobody had written and whose memory differed, if this launch or one shortly
// before used it first. Memory that was first used long before has been written since.
Evidence other_fresh_memory(const PartingCase& parting, bool right_before) {
  constexpr int64_t kShortly = 64;
  if (!parting.is_pair()) return std::nullopt;
  const int64_t at = parting.a.launches[parting.row_a()];
  for (auto pair = parting.alignment.fresh.rbegin(); pair != parting.alignment.fresh.rend(); ++pair) {
    const auto [row_a, row_b] = *pair;
    if (row_a > parting.row_a() || !is_comparable(parting.a, row_a, parting.b, row_b)) continue;
    const int64_t user = parting.a.launches[row_a] + 1;
    if (user + kShortly < at) return std::nullopt;
    if (parting.a.row(row_a).digest == parting.b.row(row_b).digest || (user == at) != right_before) continue;
    return fmt::format(
        "{} bytes that launch {} was the first to use had other contents before it: nobody had written them",
        thousands(static_cast<int64_t>(parting.a.row(row_a).bytes)), thousands(user));
  }
  return std::nullopt;
}
Evidence unwritten_memory(const PartingCase& parting) { return other_fresh_memory(parting, true); }
Evidence unwritten_before(const PartingCase& parting) { return other_fresh_memory(parting, false); }

Evidence unordered_streams(const PartingCase& parting) {
  const auto is_unordered = [](const TrailRun& run, size_t row) {
    return (run.row(row).flags & TrailRow::kIsUnordered) != 0;
  };
  if (!parting.any(is_unordered)) return std::nullopt;
  return "another stream's work writes memory that it reaches, and nothing orders the two";
}

Evidence with_fact(const PartingCase& parting, std::initializer_list<const char*> names, const char* text) {
  int64_t most = 0;
  const auto count = [&](const TrailRun& run, size_t row) {
    for (const char* name : names) {
      const auto found = run.kernel(row).facts.find(name);
      if (found != run.kernel(row).facts.end()) most = std::max(most, found->second);
    }
    return false;
  };
  parting.any(count);
  return most > 0 ? Evidence(fmt::format(fmt::runtime(text), thousands(most))) : std::nullopt;
}
Evidence float_atomics(const PartingCase& parting) {
  return with_fact(parting, {"float_atomics", "used_float_atomics"},
                   "its code has {} atomic instructions that add floating-point numbers: their order may differ");
}
Evidence arrival_order(const PartingCase& parting) {
  return with_fact(parting, {"may_communicate"}, "its blocks can hand results to one another as they arrive");
}

// Data of other ranks arrive through collectives, whose own results are seldom digested: the next launch shows them.
Evidence other_rank(const PartingCase& parting) {
  constexpr size_t kShortly = 64;
  if (!parting.is_pair()) return std::nullopt;
  const size_t row = parting.row_a();
  for (size_t i = row + 1; i-- > 0 && i + kShortly >= row;) {
    if (!is_collective(parting.a, i)) continue;
    return fmt::format("{}, a collective, {}", where_of(parting.a, i),
                       i == row ? "takes in what other ranks sent" : "took in what other ranks sent before it");
  }
  return std::nullopt;
}

std::string file_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

// Returns "libcudnn.so.9: libcudnn.so.9.1.0 | libcudnn.so.9.2.1", for the driver's library or for all others.
std::vector<std::string> other_libraries(const TrailRun& a, const TrailRun& b, bool of_driver) {
  std::vector<std::string> differences;
  for (const auto& [name, path] : a.run.libraries) {
    const auto found = b.run.libraries.find(name);
    if (found == b.run.libraries.end() || name.starts_with("libcuda.") != of_driver) continue;
    if (file_name(path) != file_name(found->second)) {
      differences.push_back(fmt::format("{}: {} | {}", name, file_name(path), file_name(found->second)));
    }
  }
  return differences;
}

std::vector<std::string> other_driver(const TrailRun& a, const TrailRun& b) {
  std::vector<std::string> differences = other_libraries(a, b, true);
  for (const char* name : {"driver", "cuda"}) {
    const std::string of_a = a.fact(name), of_b = b.fact(name);
    if (!of_a.empty() && !of_b.empty() && of_a != of_b)
      differences.push_back(fmt::format("{}: {} | {}", name, of_a, of_b));
  }
  return differences;
}

Evidence listed(const std::vector<std::string>& differences) {
  if (differences.empty()) return std::nullopt;
  return fmt::format("{}", fmt::join(differences, "; "));
}
Evidence library(const PartingCase& parting) { return listed(other_libraries(parting.a, parting.b, false)); }
Evidence driver(const PartingCase& parting) { return listed(other_driver(parting.a, parting.b)); }

constexpr unsigned bit(TrailDivergence kind) { return 1U << static_cast<unsigned>(kind); }
constexpr unsigned kKernel = bit(TrailDivergence::kAnotherKernel), kParameters = bit(TrailDivergence::kOtherParameters),
                   kInput = bit(TrailDivergence::kOtherInput), kOutput = bit(TrailDivergence::kOtherOutput),
                   kOnly = bit(TrailDivergence::kOnlyInA) | bit(TrailDivergence::kOnlyInB),
                   kWork = kKernel | kParameters | kOutput | kOnly, kAny = kWork | kInput;

struct CauseRule {
  const char* cause;
  unsigned kinds;  // the divergences that it can cause
  Evidence (*evidence)(const PartingCase&);
};
// The first rule that holds gives the cause. What comparing found comes before what the code could do, and that before
// facts of the machine.
constexpr CauseRule kRules[] = {
    {"host_memory", kInput, host_memory},
    {"loss_scale", kAny, loss_scale},
    {"data_order", kInput, data_order},
    {"batch", kInput, batch},
    {"generator", kWork, generator},
    {"gpu", kWork, other_gpu},
    {"tf32", kKernel | kOnly, tf32},
    {"library", kKernel, library},
    {"tuner", kKernel | kParameters, tuner},
    {"algorithm", kKernel | kOnly, algorithm},
    {"unwritten_memory", kOutput, unwritten_memory},
    {"unordered_streams", kOutput, unordered_streams},
    {"float_atomics", kOutput, float_atomics},
    {"arrival_order", kOutput, arrival_order},
    {"unwritten_memory", kOutput, unwritten_before},
    {"other_rank", kOutput, other_rank},
    {"library", kOutput | kParameters | kOnly, library},
    {"driver", kKernel | kOutput | kParameters, driver},
};

}  // namespace

bool draws_random_numbers(const TrailRun& run, size_t row) {
  const auto matches = [](const std::string& text) {
    return record::draws_random_numbers(text) || record::has_any(text, {"aten::rand"});
  };
  return matches(name_of_kernel(run, row)) || is_called_by(run, row, matches);
}

void find_cause(const TrailRun& a, const TrailRun& b, const TrailAlignment& alignment, TrailPart& part) {
  const PartingCase parting{a, b, alignment, part};
  std::string cause;
  std::vector<std::string> evidence;
  for (const CauseRule& rule : kRules) {
    if ((rule.kinds & bit(part.kind)) == 0) continue;
    const Evidence found = rule.evidence(parting);
    if (!found) continue;
    if (cause.empty()) cause = rule.cause;
    evidence.push_back(*found);
  }
  part.cause = cause;
  part.evidence.insert(part.evidence.end(), evidence.begin(), evidence.end());
}

std::vector<std::string> other_machine(const TrailRun& a, const TrailRun& b) {
  std::vector<std::string> differences = other_driver(a, b);
  if (a.fact("gpu") != b.fact("gpu")) differences.push_back(fmt::format("gpu: {} | {}", a.fact("gpu"), b.fact("gpu")));
  for (std::string& library : other_libraries(a, b, false)) differences.push_back(std::move(library));
  return differences;
}

}  // namespace msda::replay
