#include "replay/many/many.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <thread>

#include "replay/base/captures.h"
#include "replay/base/errors.h"
#include "replay/base/output.h"
#include "replay/base/progress.h"

namespace msda::replay {
namespace {

namespace fs = std::filesystem;

// Returns the rank of each piece: the dearest first, each to the rank that has least to do so far.
std::vector<int> divide(const std::vector<Work>& work, int ranks) {
  std::vector<size_t> order(work.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return work[a].cost > work[b].cost; });
  std::vector<uint64_t> load(static_cast<size_t>(ranks));
  std::vector<int> rank_of(work.size());
  for (const size_t i : order) {
    const auto least = std::min_element(load.begin(), load.end());
    *least += work[i].cost;
    rank_of[i] = static_cast<int>(least - load.begin());
  }
  return rank_of;
}

Outcome failed(const std::string& capture, int status, const char* message) {
  return {{"capture", capture}, {"status", status}, {"error", message}};
}

Outcome outcome_of(const Options& options, const std::function<Outcome(const Options&)>& task) {
  try {
    return task(options);
  } catch (const Unavailable& error) {
    return failed(options.capture, kUnavailable, error.what());
  } catch (const std::bad_alloc&) {
    return failed(options.capture, kBadInput, "out of memory: the capture is too large for this machine");
  } catch (const std::exception& error) {
    return failed(options.capture, kBadInput, error.what());
  }
}

int status_of(const std::vector<Outcome>& outcomes) {
  const auto any = [&](int status) {
    return std::any_of(outcomes.begin(), outcomes.end(),
                       [&](const Outcome& outcome) { return outcome["status"] == status; });
  };
  for (const int status : {kBadInput, kUnavailable, kDrift}) {
    if (any(status)) return status;
  }
  return kWithinTolerance;
}

// Returns the captures as the first rank sees them, in case the others see another folder. Empty on the others, and if
// there are none: then all get "error".
std::vector<Work> work_of(const Options& options, const Ranks& ranks, std::string& error) {
  std::vector<Work> work;
  try {
    if (ranks.is_first()) {
      for (const std::string& capture : named_captures(options.captures)) {
        std::error_code failed;
        const uintmax_t size = fs::file_size(capture, failed);
        constexpr uint64_t kOfEach = 1 << 20;  // what a capture costs however small it is, in bytes
        work.push_back({capture, capture, (failed ? 0 : size) + kOfEach});
      }
    }
  } catch (const std::exception& e) {
    error = e.what();
  }
  error = ranks.share(error);
  return work;
}

// On the first rank.
int report_status(std::vector<Outcome>& outcomes, const Report& report) {
  try {
    report(outcomes);
    return status_of(outcomes);
  } catch (const std::exception& error) {  // the other ranks wait for the status
    print_error(error.what());
    return kBadInput;
  }
}

}  // namespace

Json one_by_one(const Options& options, const std::function<Json(const Options&)>& task, int& status) {
  std::vector<Outcome> unread;
  Json results = Json::array();
  for (const std::string& capture : named_captures(options.captures)) {
    Options of_capture = options;
    of_capture.capture = capture;
    results.push_back(outcome_of(of_capture, task));
    if (!results.back().contains("error")) continue;
    print_error(text_at(results.back(), "error"));
    unread.push_back(results.back());
  }
  status = status_of(unread);
  return results;
}

void print_errors(const std::vector<Outcome>& outcomes) {
  for (const Outcome& outcome : outcomes) {
    if (outcome.contains("error")) print_error(text_at(outcome, "error"));
  }
}

bool takes_many(const Options& options, const Ranks& ranks) {
  return ranks.count() > 1 || names_several(options.captures);
}

std::vector<Json> over_work(const Options& options, const Ranks& ranks, const char* noun, const std::vector<Work>& work,
                            const std::function<Json(const Options&, const Json&)>& task) {
  Json shared = Json::array();
  const std::vector<int> rank_of = divide(work, ranks.count());
  for (size_t i = 0; i < work.size(); ++i) shared.push_back({rank_of[i], work[i].title, work[i].what});
  shared = json_of_bytes(ranks.share(bytes_of(shared)));
  Options of_one = options;
  of_one.quiet = true;  // one line of progress suffices
  if (of_one.threads == 0 && ranks.count() > 1) {
    const auto here = static_cast<unsigned>(ranks.on_this_machine());
    of_one.threads = std::max<int64_t>(std::thread::hardware_concurrency() / here, 1);
  }
  const Progress progress(!options.quiet && ranks.is_first());
  const auto all =
      std::count_if(shared.begin(), shared.end(), [&](const auto& piece) { return piece[0] == ranks.rank(); });
  Json mine = Json::array();
  for (size_t i = 0; i < shared.size(); ++i) {
    if (shared[i][0] != ranks.rank()) continue;
    progress.show(fmt::format("{} {} of {}: {}", noun, mine.size() + 1, all, shared[i][1]));
    mine.push_back({{"place", i}, {"result", task(of_one, shared[i][2])}});
  }
  progress.show("");
  std::vector<Json> results(work.size());
  for (const std::string& of_rank : ranks.gather(bytes_of(mine))) {
    for (auto& found : json_of_bytes(of_rank)) {
      results[found["place"].get<size_t>()] = std::move(found["result"]);
    }
  }
  return results;
}

int over_captures(const Options& options, const Ranks& ranks, const std::function<Outcome(const Options&)>& task,
                  const Report& report, const Complete& complete) {
  std::string error;
  const std::vector<Work> captures = work_of(options, ranks, error);
  if (!error.empty()) {
    if (ranks.is_first()) print_error(error);
    return kBadInput;
  }
  const auto of_capture = [&](Options of_one, const Json& capture) {
    of_one.capture = capture.get<std::string>();
    return outcome_of(of_one, task);
  };
  std::vector<Outcome> outcomes = over_work(options, ranks, "capture", captures, of_capture);
  if (complete) complete(outcomes);
  const int status = ranks.is_first() ? report_status(outcomes, report) : kWithinTolerance;
  return std::stoi(ranks.share(std::to_string(status)));
}

}  // namespace msda::replay
