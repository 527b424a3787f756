#include "replay/diff/pairs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>

#include "recorder/capture/digest.h"

namespace msda::replay {
namespace {

constexpr size_t kKeys = 4;  // what has to agree, from the strictest to the loosest

struct PairedCall {
  int64_t id = 0;
  std::optional<int64_t> thread;
  std::array<std::string, kKeys> keys;
  bool has_partner = false;
};

bool has_several_threads(const Operand& operand) {
  std::set<int64_t> threads;
  for (const capture::Invocation& invocation : operand.reader.outlines(operand.ids)) {
    if (invocation.facts.thread) threads.insert(*invocation.facts.thread);
  }
  return threads.size() > 1;
}

std::string text_of(const capture::TensorInfo& info, bool with_digest) {
  return fmt::format("{} {} {}\n", info.name, kernels::name_of(info.type), fmt::join(info.shape, "x")) +
         (with_digest ? info.digest : "");
}

// Returns the section's tensors as text, or the recorder's own digests of them, which end in the digest itself.
std::string section_text(const capture::Invocation& invocation, const std::vector<capture::TensorInfo>& tensors,
                         const std::string& section, bool with_digests) {
  std::string text = section + "\n";
  for (const auto& tensor : tensors) text += text_of(tensor, with_digests);
  if (!tensors.empty()) return text;
  for (const auto& [path, digest] : invocation.digests) {
    if (path.starts_with(section + "/"))
      text += path + " " + digest.substr(0, with_digests ? digest.npos : digest.rfind(' '));
  }
  return text;
}

PairedCall paired_call(const Operand& operand, int64_t id) {
  const capture::Invocation item = operand.reader.invocation(id);
  const auto& facts = item.facts;
  const std::string call =
      fmt::format("{}\n{} {} {}\n", facts.kernel, facts.dialect, facts.padding_mode, facts.align_corners);
  const auto text = [&](bool of_inputs, bool of_outputs) {
    return call + section_text(item, item.inputs, "inputs", of_inputs) +
           section_text(item, item.outputs, "outputs", of_outputs);
  };
  PairedCall call_of_one{id, facts.thread, {text(true, true), text(true, false), text(false, false), ""}, false};
  for (std::string& key : call_of_one.keys) key = capture::digest(std::as_bytes(std::span(key)));
  return call_of_one;
}

std::vector<PairedCall> paired_calls(const Operand& operand) {
  std::vector<PairedCall> all;
  for (const int64_t id : operand.ids) all.push_back(paired_call(operand, id));
  return all;
}

using Partners = std::vector<std::pair<PairedCall*, PairedCall*>>;

Partners partners_of(std::vector<PairedCall>& a, std::vector<PairedCall>& b) {
  Partners partners;
  for (size_t key = 0; key < kKeys; ++key) {
    std::map<std::string, std::deque<PairedCall*>> free;
    for (PairedCall& call : b) {
      if (!call.has_partner) free[call.keys[key]].push_back(&call);
    }
    for (PairedCall& call : a) {
      const auto found = call.has_partner ? free.end() : free.find(call.keys[key]);
      if (found == free.end() || found->second.empty()) continue;
      partners.emplace_back(&call, found->second.front());
      call.has_partner = found->second.front()->has_partner = true;
      found->second.pop_front();
    }
  }
  std::ranges::sort(partners, {}, [](const auto& pair) { return pair.first->id; });
  return partners;
}

std::vector<int64_t> ids_without_partner(const std::vector<PairedCall>& all) {
  std::vector<int64_t> ids;
  for (const PairedCall& call : all) {
    if (!call.has_partner) ids.push_back(call.id);
  }
  return ids;
}

// Returns whether calls of one thread of A are calls of one thread of B in another order. Threads that race do not
// cause that, unless they take their work from a common queue.
bool is_other_order_in_a_thread(const Partners& partners) {
  std::map<std::pair<std::optional<int64_t>, std::optional<int64_t>>, int64_t> last;
  return std::ranges::any_of(partners, [&](const auto& pair) {
    const auto [at, is_first] = last.emplace(std::pair(pair.first->thread, pair.second->thread), pair.second->id);
    return !is_first && std::exchange(at->second, pair.second->id) > pair.second->id;
  });
}

std::string brief_list(const std::vector<int64_t>& ids) {
  constexpr size_t kMost = 16;
  const std::span shown(ids.data(), std::min(ids.size(), kMost));
  return fmt::format("{}{}", fmt::join(shown, " "), ids.size() > kMost ? " ..." : "");
}

}  // namespace

Pairs pair_invocations(const Operand& a, const Operand& b) {
  Pairs result;
  if (!has_several_threads(a) && !has_several_threads(b)) {
    const size_t count = std::min(a.ids.size(), b.ids.size());
    for (size_t i = 0; i < count; ++i) result.pairs.emplace_back(a.ids[i], b.ids[i]);
    result.only_a.assign(a.ids.begin() + static_cast<std::ptrdiff_t>(count), a.ids.end());
    result.only_b.assign(b.ids.begin() + static_cast<std::ptrdiff_t>(count), b.ids.end());
    return result;
  }
  auto of_a = paired_calls(a), of_b = paired_calls(b);
  const Partners partners = partners_of(of_a, of_b);
  std::vector<int64_t> ids_a, ids_b;
  for (const auto& [call_a, call_b] : partners) {
    result.pairs.emplace_back(call_a->id, call_b->id);
    ids_a.push_back(call_a->id);
    ids_b.push_back(call_b->id);
  }
  result.only_a = ids_without_partner(of_a);
  result.only_b = ids_without_partner(of_b);
  if (!std::ranges::is_sorted(ids_b)) {
    const bool in_a_thread = is_other_order_in_a_thread(partners);
    result.notes.push_back({{},
                            "order",
                            in_a_thread ? "calls of a thread" : "calls of other threads",
                            brief_list(ids_a),
                            brief_list(ids_b),
                            {},
                            in_a_thread});
  }
  return result;
}

}  // namespace msda::replay
