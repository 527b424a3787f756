#include "replay/diff/differences.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <span>
#include <string_view>

#include "analysis/compare.h"
#include "recorder/capture/digest.h"
#include "replay/calls/loaded_call.h"

namespace msda::replay {
namespace {

using Facts = std::map<std::string, std::string>;

template <class T>
std::string difference_text(const std::optional<T>& value) {
  return value ? fmt::format("{}", *value) : "";
}

std::string difference_text(const std::optional<std::array<int64_t, 3>>& value) {
  return value ? fmt::format("{}", fmt::join(*value, ",")) : "";
}

// A stream that a program creates has another handle in every run; those that CUDA names are 0, 1 and 2.
std::string stream_text(const std::optional<int64_t>& stream) {
  constexpr int64_t kLastNamed = 2;
  return stream > kLastNamed ? "one that was created" : difference_text(stream);
}

// Facts that say where and when, and decide no number.
bool is_note(const std::string& name) {
  constexpr std::string_view kNotes[] = {"host", "PYTEST_CURRENT_TEST", "PYTEST_XDIST_WORKER"};
  return std::ranges::find(kNotes, name) != std::end(kNotes);
}

// Lists of bytes may be long.
std::string brief(const std::string& text) {
  constexpr size_t kMost = 240, kShown = 60;
  if (text.size() <= kMost) return text;
  return fmt::format("{}... ({} characters, {})", text.substr(0, kShown), text.size(),
                     capture::digest(std::as_bytes(std::span(text))));
}

// What the launch of a call was.
Facts launch_of(const capture::CallFacts& facts) {
  Facts launch{{"grid", difference_text(facts.grid)},
               {"block", difference_text(facts.block)},
               {"shared_bytes", difference_text(facts.shared_bytes)},
               {"stream", stream_text(facts.stream)},
               {"device", difference_text(facts.device)}};
  for (const auto& [name, text] : facts.texts) launch[name] = brief(text);
  for (const auto& [name, number] : facts.integers) launch[name] = fmt::format("{}", number);
  std::erase_if(launch, [](const auto& one) { return one.second.empty(); });
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

// The seed of each source that was the last one before the invocation.
Facts last_seeds(const std::vector<capture::Seed>& seeds, int64_t id) {
  Facts last;
  for (const auto& seed : seeds) {
    if (!seed.invocation || *seed.invocation <= id) last[seed.source] = fmt::format("{}", seed.value);
  }
  return last;
}

std::string difference_text(const capture::TensorInfo& info) {
  return fmt::format("{} {}{}{}", name_of(info.type), fmt::join(info.shape, "x"), info.digest.empty() ? "" : " ",
                     info.digest);
}

Facts without_process(Facts facts) {
  facts.erase("process");
  return facts;
}

Difference::Elements compare_elements(const capture::Tensor& a, const capture::Tensor& b) {
  Difference::Elements elements;
  elements.total = a.info.elements();
  const auto size = static_cast<size_t>(size_of(a.info.type));
  for (int64_t at = 0; at < elements.total; ++at) {
    const size_t offset = static_cast<size_t>(at) * size;
    if (std::memcmp(a.data.get() + offset, b.data.get() + offset, size) == 0) continue;
    if (elements.different++ == 0) {
      elements.first = analysis::Tensor{nullptr, MSDA_FLOAT32, a.info.shape}.index_of(at);
    }
  }
  if (!is_float(a.info.type)) return elements;
  const auto view = [](const capture::Tensor& tensor) {
    return analysis::Tensor{tensor.data.get(), dtype_of(tensor.info.type), tensor.info.shape};
  };
  const auto compared = analysis::compare(view(a), view(b), {}, analysis::NonFinite::kAsTorch, 0, 0);
  elements.max_abs = compared.max_abs;
  elements.max_ulp = compared.max_ulp;
  return elements;
}

class Comparer {
 public:
  Comparer(const Operand& a, const Operand& b) : a_(a), b_(b) {}

  Differences run() {
    const capture::Run run_a = a_.reader.run(), run_b = b_.reader.run();
    compare_facts("arguments", {{"argv", fmt::format("{}", fmt::join(run_a.argv, " "))}},
                  {{"argv", fmt::format("{}", fmt::join(run_b.argv, " "))}});
    compare_facts("machine", without_process(run_a.facts), without_process(run_b.facts));
    compare_facts("libraries", run_a.libraries, run_b.libraries);
    compare_facts("environment", run_a.environment, run_b.environment);
    seeds_a_ = a_.reader.seeds();
    seeds_b_ = b_.reader.seeds();
    const size_t pairs = std::min(a_.ids.size(), b_.ids.size());
    for (size_t i = 0; i < pairs; ++i) compare_invocations(a_.ids[i], b_.ids[i]);
    result_.only_a.assign(a_.ids.begin() + static_cast<std::ptrdiff_t>(pairs), a_.ids.end());
    result_.only_b.assign(b_.ids.begin() + static_cast<std::ptrdiff_t>(pairs), b_.ids.end());
    return std::move(result_);
  }

 private:
  void add(const std::string& section, const std::string& name, const std::string& a, const std::string& b,
           std::optional<Difference::Elements> elements = std::nullopt) {
    result_.found.push_back({invocations_, section, name, a, b, std::move(elements)});
  }

  void compare_facts(const std::string& section, const Facts& a, const Facts& b) {
    std::set<std::string> names;
    for (const auto* facts : {&a, &b}) {
      for (const auto& [name, text] : *facts) names.insert(name);
    }
    const auto text = [](const Facts& facts, const std::string& name) {
      const auto found = facts.find(name);
      return found == facts.end() ? std::string() : found->second;
    };
    for (const std::string& name : names) {
      ++result_.facts;
      if (text(a, name) == text(b, name)) continue;
      if (!invocations_ && is_note(name)) {
        result_.notes.push_back({{}, section, name, text(a, name), text(b, name), {}});
      } else {
        add(section, name, text(a, name), text(b, name));
      }
    }
  }

  void compare_tensors(const std::string& section, const std::vector<capture::TensorInfo>& a,
                       const std::vector<capture::TensorInfo>& b) {
    for (const auto& info : a) {
      const capture::TensorInfo* other = find(b, info.name);
      if (other == nullptr) {
        add(section, info.name, difference_text(info), "");
      } else {
        compare_tensor(section, info, *other);
      }
    }
    for (const auto& info : b) {
      if (find(a, info.name) == nullptr) add(section, info.name, "", difference_text(info));
    }
  }

  void compare_tensor(const std::string& section, const capture::TensorInfo& a, const capture::TensorInfo& b) {
    ++result_.tensors;
    const bool alike = a.type == b.type && a.shape == b.shape;
    if (alike && !a.digest.empty() && a.digest == b.digest) return;
    if (!alike) return add(section, a.name, difference_text(a), difference_text(b));
    const auto elements = compare_elements(a_.reader.read(a), b_.reader.read(b));
    if (elements.different > 0) add(section, a.name, difference_text(a), difference_text(b), elements);
  }

  // A seed that differs is told before the first invocation that it may have changed.
  void compare_seeds(int64_t a, int64_t b) {
    Facts before_a = last_seeds(seeds_a_, a), before_b = last_seeds(seeds_b_, b);
    const auto is_told = [&](const auto& one) { return told_seeds_.contains(one.first); };
    std::erase_if(before_a, is_told);
    std::erase_if(before_b, is_told);
    const size_t count = result_.found.size();
    compare_facts("seeds", before_a, before_b);
    for (size_t i = count; i < result_.found.size(); ++i) told_seeds_.insert(result_.found[i].name);
  }

  void compare_invocations(int64_t id_a, int64_t id_b) {
    ++result_.invocations;
    invocations_ = {id_a, id_b};
    const capture::Invocation a = a_.reader.invocation(id_a), b = b_.reader.invocation(id_b);
    compare_seeds(id_a, id_b);
    compare_facts("code", {{"kernel", a.facts.kernel}, {"kernel_digest", a.facts.kernel_digest}},
                  {{"kernel", b.facts.kernel}, {"kernel_digest", b.facts.kernel_digest}});
    compare_facts("conventions", compared_conventions(a.facts), compared_conventions(b.facts));
    compare_facts("launch", launch_of(a.facts), launch_of(b.facts));
    compare_tensors("inputs", a.inputs, b.inputs);
    compare_tensors("outputs_before", a.outputs_before, b.outputs_before);
    // Of tensors that only digests were recorded of.
    compare_facts("digests", a.digests, b.digests);
    compare_tensors("outputs", a.outputs, b.outputs);
    compare_results(a, b);
  }

  void compare_results(const capture::Invocation& a, const capture::Invocation& b) {
    const auto named = [](const capture::Invocation& invocation, const std::string& name) {
      const auto found = std::ranges::find(invocation.results, name, [](const auto& one) { return one.facts.name; });
      return found == invocation.results.end() ? std::vector<capture::TensorInfo>{} : found->tensors;
    };
    std::set<std::string> names;
    for (const auto* one : {&a, &b}) {
      for (const auto& result : one->results) names.insert(result.facts.name);
    }
    for (const std::string& name : names) compare_tensors("results/" + name, named(a, name), named(b, name));
  }

  const Operand &a_, &b_;
  Differences result_;
  std::optional<std::pair<int64_t, int64_t>> invocations_;
  std::vector<capture::Seed> seeds_a_, seeds_b_;
  std::set<std::string> told_seeds_;
};

}  // namespace

bool Differences::same_numbers() const {
  const auto is_of_numbers = [](const Difference& one) {
    constexpr std::string_view kSections[] = {"inputs", "outputs_before", "digests", "outputs"};
    return one.section.starts_with("results/") || std::ranges::find(kSections, one.section) != std::end(kSections);
  };
  return only_a.empty() && only_b.empty() && std::ranges::none_of(found, is_of_numbers);
}

bool Differences::are_none() const { return found.empty() && only_a.empty() && only_b.empty(); }

Differences find_differences(const Operand& a, const Operand& b) { return Comparer(a, b).run(); }

}  // namespace msda::replay
