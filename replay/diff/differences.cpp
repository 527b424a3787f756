#include "replay/diff/differences.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <span>

#include "recorder/capture/digest.h"
#include "replay/calls/conventions.h"
#include "replay/diff/facts.h"
#include "replay/diff/pairs.h"
#include "replay/diff/tensors.h"

namespace msda::replay {
namespace {

template <class T>
std::string difference_text(const std::optional<T>& value) {
  return value ? fmt::format("{}", *value) : "";
}

std::string difference_text(const std::optional<std::array<int64_t, 3>>& value) {
  return value ? fmt::format("{}", fmt::join(*value, ",")) : "";
}

// A stream that a program creates has another handle in every run; the streams that CUDA names are 0, 1 and 2.
std::string stream_text(const std::optional<int64_t>& stream) {
  constexpr int64_t kLastNamed = 2;
  return stream > kLastNamed ? "one that was created" : difference_text(stream);
}

// Shortens a long text, such as a list of bytes.
std::string brief(const std::string& text) {
  constexpr size_t kMost = 240, kShown = 60;
  if (text.size() <= kMost) return text;
  return fmt::format("{}... ({} characters, {})", text.substr(0, kShown), text.size(),
                     capture::digest(std::as_bytes(std::span(text))));
}

// Returns how the call's kernel was launched.
Facts launch_of(const capture::CallFacts& facts) {
  Facts launch{{"grid", difference_text(facts.grid)},
               {"block", difference_text(facts.block)},
               {"shared_bytes", difference_text(facts.shared_bytes)},
               {"stream", stream_text(facts.stream)},
               {"device", difference_text(facts.device)}};
  for_each_type(facts, [&](const auto& values) {
    for (const auto& [name, value] : values) launch[name] = brief(tensors::fact_text(value));
  });
  std::erase_if(launch, [](const auto& entry) { return entry.second.empty(); });
  return launch;
}

Facts compared_conventions(const capture::CallFacts& facts) {
  Facts conventions;
  if (!facts.dialect.empty()) {
    conventions = {{"dialect", facts.dialect},
                   {"padding_mode", facts.padding_mode},
                   {"align_corners", facts.align_corners ? "true" : "false"}};
  }
  if (facts.tolerance) {
    conventions["tolerance"] = fmt::format("atol {}, rtol {}", facts.tolerance->atol, facts.tolerance->rtol);
  }
  return conventions;
}

// Returns the last seed of each source before the invocation.
Facts last_seeds(const std::vector<capture::Seed>& seeds, int64_t id) {
  Facts last;
  for (const auto& seed : seeds) {
    if (!seed.invocation || *seed.invocation <= id) last[seed.source] = fmt::format("{}", seed.value);
  }
  return last;
}

std::string left_out_of(const capture::IsolatedReader& reader) {
  const capture::Run run = reader.run();
  const auto found = run.facts.find("left_out");
  return found == run.facts.end() ? "" : brief(found->second);
}

class Comparer {
 public:
  Comparer(const Operand& a, const Operand& b) : a_(a), b_(b) {}

  Differences run() {
    result_.notes = differing_runs(a_.reader, b_.reader, result_.facts);
    result_.left_out = left_out_of(a_.reader);
    seeds_a_ = a_.reader.seeds();
    seeds_b_ = b_.reader.seeds();
    Pairs pairs = pair_invocations(a_, b_);
    std::ranges::move(pairs.notes, std::back_inserter(result_.notes));
    for (const auto& [a, b] : pairs.pairs) compare_invocations(a, b);
    result_.only_a = std::move(pairs.only_a);
    result_.only_b = std::move(pairs.only_b);
    return std::move(result_);
  }

 private:
  void compare_facts(const std::string& section, const Facts& a, const Facts& b) {
    result_.facts += count_names(a, b);
    for (Difference& difference : differing_facts(section, a, b)) {
      set_invocation(difference);
      result_.notes.push_back(std::move(difference));
    }
  }

  void set_invocation(Difference& difference) const {
    difference.invocations = invocations_;
    difference.kernel = kernel_;
    difference.label = label_;
    difference.source_line = source_line_;
  }

  void add(const std::string& section, Difference difference) {
    set_invocation(difference);
    difference.section = section;
    // What a buffer held before is often left over from other work, and is overwritten. If it is not, outputs differ.
    difference.may_decide = section == "outputs_before";
    (difference.may_decide ? result_.notes : result_.found).push_back(std::move(difference));
  }

  void compare_tensors(const std::string& section, const std::vector<HeldTensor>& a, const std::vector<HeldTensor>& b) {
    for (const HeldTensor& tensor : a) {
      const auto entry = std::ranges::find(b, tensor.name, &HeldTensor::name);
      if (entry == b.end()) {
        add(section, {{}, "", tensor.name, tensor_text(tensor), ""});
        continue;
      }
      ++result_.tensors;
      if (auto differs = differing_tensors(a_.reader, tensor, b_.reader, *entry)) add(section, *std::move(differs));
    }
    for (const HeldTensor& tensor : b) {
      if (std::ranges::find(a, tensor.name, &HeldTensor::name) == a.end()) {
        add(section, {{}, "", tensor.name, "", tensor_text(tensor)});
      }
    }
  }

  // A seed that differs is reported before the first invocation that it may have changed.
  void compare_seeds(int64_t a, int64_t b) {
    Facts before_a = last_seeds(seeds_a_, a), before_b = last_seeds(seeds_b_, b);
    const auto is_reported = [&](const auto& entry) { return reported_seeds_.contains(entry.first); };
    std::erase_if(before_a, is_reported);
    std::erase_if(before_b, is_reported);
    const size_t count = result_.notes.size();
    compare_facts("seeds", before_a, before_b);
    for (size_t i = count; i < result_.notes.size(); ++i) reported_seeds_.insert(result_.notes[i].name);
  }

  void compare_invocations(int64_t id_a, int64_t id_b) {
    ++result_.invocations;
    invocations_ = {id_a, id_b};
    const capture::Invocation a = a_.reader.invocation(id_a), b = b_.reader.invocation(id_b);
    kernel_ = a.facts.kernel;
    label_ = a.facts.label;
    source_line_ = source_line_of(a);
    compare_seeds(id_a, id_b);
    compare_facts("code", {{"kernel", a.facts.kernel}, {"kernel_digest", a.facts.kernel_digest}},
                  {{"kernel", b.facts.kernel}, {"kernel_digest", b.facts.kernel_digest}});
    compare_facts("conventions", compared_conventions(a.facts), compared_conventions(b.facts));
    compare_facts("launch", launch_of(a.facts), launch_of(b.facts));
    const auto compare = [&](const std::string& section, const auto& of_a, const auto& of_b) {
      compare_tensors(section, held_tensors(a, section, of_a), held_tensors(b, section, of_b));
    };
    compare("inputs", a.inputs, b.inputs);
    compare("outputs_before", a.outputs_before, b.outputs_before);
    compare("outputs", a.outputs, b.outputs);
    compare_distinct_outputs(a.facts, b.facts);
    compare_results(a, b);
  }

  // Calls with the same inputs, which are recorded once, gave this many results.
  void compare_distinct_outputs(const capture::CallFacts& a, const capture::CallFacts& b) {
    const int64_t of_a = a.distinct_outputs.value_or(1), of_b = b.distinct_outputs.value_or(1);
    if (of_a != of_b) {
      add("outputs", {{}, "", "distinct_outputs", fmt::format("{}", of_a), fmt::format("{}", of_b)});
    }
  }

  void compare_results(const capture::Invocation& a, const capture::Invocation& b) {
    const auto named = [](const capture::Invocation& invocation, const std::string& name) {
      const auto found =
          std::ranges::find(invocation.results, name, [](const auto& entry) { return entry.facts.name; });
      return found == invocation.results.end() ? std::vector<HeldTensor>{}
                                               : held_tensors(invocation, "results/" + name, found->tensors);
    };
    std::set<std::string> names;
    for (const auto* entry : {&a, &b}) {
      for (const auto& result : entry->results) names.insert(result.facts.name);
    }
    for (const std::string& name : names) compare_tensors("results/" + name, named(a, name), named(b, name));
  }

  const Operand &a_, &b_;
  Differences result_;
  std::optional<std::pair<int64_t, int64_t>> invocations_;
  std::string kernel_, label_, source_line_;  // of the invocation of A
  std::vector<capture::Seed> seeds_a_, seeds_b_;
  std::set<std::string> reported_seeds_;
};

}  // namespace

bool Differences::are_none() const { return found.empty() && only_a.empty() && only_b.empty(); }

Differences find_differences(const Operand& a, const Operand& b) { return Comparer(a, b).run(); }

}  // namespace msda::replay
