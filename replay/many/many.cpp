#include "replay/many/many.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <set>
#include <thread>

#include "replay/base/errors.h"
#include "replay/base/output.h"
#include "replay/base/progress.h"

namespace msda::replay {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> files_of(const std::string& folder) {
  std::vector<std::string> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".h5" && entry.is_regular_file()) files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  if (files.empty()) throw BadInput(fmt::format("{}: there is no capture (*.h5) in this folder", folder));
  return files;
}

// Each file once, by the first of its names.
std::vector<std::string> captures_of(const Options& options) {
  std::vector<std::string> captures;
  std::set<fs::path> known;
  const auto add = [&](const std::string& capture) {
    std::error_code failed;
    const fs::path file = fs::weakly_canonical(capture, failed);
    if (failed || known.insert(file).second) captures.push_back(capture);
  };
  for (const std::string& named : options.captures) {
    std::error_code ignored;
    if (!fs::is_directory(named, ignored)) {
      add(named);
      continue;
    }
    for (const std::string& file : files_of(named)) add(file);
  }
  return captures;
}

// The rank of each capture: the largest first, each to the rank that has least to read so far.
std::vector<int> divide(const std::vector<std::string>& captures, int ranks) {
  std::vector<uintmax_t> bytes;
  for (const std::string& capture : captures) {
    std::error_code failed;
    const uintmax_t size = fs::file_size(capture, failed);
    bytes.push_back(failed ? 0 : size);
  }
  std::vector<size_t> order(captures.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return bytes[a] > bytes[b]; });
  constexpr uintmax_t kOfEach = 1 << 20;  // what a capture costs however small it is, in bytes
  std::vector<uintmax_t> load(static_cast<size_t>(ranks));
  std::vector<int> rank_of(captures.size());
  for (const size_t i : order) {
    const auto least = std::min_element(load.begin(), load.end());
    *least += bytes[i] + kOfEach;
    rank_of[i] = static_cast<int>(least - load.begin());
  }
  return rank_of;
}

// Bytes that are not UTF-8, of a file's name for example, are replaced.
template <class Json>
std::string text_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Outcome failed(const std::string& capture, int status, const char* message) {
  return {{"capture", capture}, {"status", status}, {"error", message}};
}

Outcome outcome_of(const Options& options, const std::function<Outcome(const Options&)>& one) {
  try {
    return one(options);
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
    return std::any_of(outcomes.begin(), outcomes.end(), [&](const Outcome& one) { return one["status"] == status; });
  };
  for (const int status : {kBadInput, kUnavailable, kDrift}) {
    if (any(status)) return status;
  }
  return kWithinTolerance;
}

// The captures, and each one's rank; decided by the first rank, in case the others see another folder. Or "error".
nlohmann::json shared_work(const Options& options, const Ranks& ranks) {
  nlohmann::json work;
  if (ranks.is_first()) {
    try {
      work["captures"] = captures_of(options);
      work["ranks"] = divide(work["captures"], ranks.count());
    } catch (const std::exception& error) {
      work = {{"error", error.what()}};
    }
  }
  return nlohmann::json::parse(ranks.share(text_of(work)));
}

// Those of all ranks, in the order of the captures, on the first rank; nothing on the others.
std::vector<Outcome> find_outcomes(const Options& options, const Ranks& ranks, const nlohmann::json& work,
                                   const std::function<Outcome(const Options&)>& one) {
  const std::vector<std::string> captures = work["captures"];
  const Progress progress(!options.quiet && ranks.is_first());
  nlohmann::ordered_json mine = nlohmann::ordered_json::array();
  const auto all = std::count(work["ranks"].begin(), work["ranks"].end(), ranks.rank());
  for (size_t i = 0; i < captures.size(); ++i) {
    if (work["ranks"][i] != ranks.rank()) continue;
    progress.show(fmt::format("capture {} of {}: {}", mine.size() + 1, all, captures[i]));
    Options of_one = options;
    of_one.capture = captures[i];
    of_one.quiet = true;  // one line of progress suffices
    if (of_one.threads == 0 && ranks.count() > 1) {
      const auto here = static_cast<unsigned>(ranks.on_this_machine());
      of_one.threads = std::max<int64_t>(std::thread::hardware_concurrency() / here, 1);
    }
    mine.push_back({{"place", i}, {"outcome", outcome_of(of_one, one)}});
  }
  progress.show("");
  std::vector<Outcome> outcomes;
  for (const std::string& of_rank : ranks.gather(text_of(mine))) {
    for (auto& found : nlohmann::ordered_json::parse(of_rank)) {
      outcomes.resize(captures.size());
      outcomes[found["place"].get<size_t>()] = std::move(found["outcome"]);
    }
  }
  return outcomes;
}

// On the first rank.
int report_status(const std::vector<Outcome>& outcomes,
                  const std::function<void(const std::vector<Outcome>&)>& report) {
  try {
    report(outcomes);
    return status_of(outcomes);
  } catch (const std::exception& error) {  // the other ranks wait for the status
    print_error(error.what());
    return kBadInput;
  }
}

}  // namespace

bool takes_many(const Options& options, const Ranks& ranks) {
  std::error_code ignored;
  return ranks.count() > 1 || options.captures.size() > 1 || fs::is_directory(options.captures.front(), ignored);
}

int over_captures(const Options& options, const Ranks& ranks, const std::function<Outcome(const Options&)>& one,
                  const std::function<void(const std::vector<Outcome>&)>& report) {
  const nlohmann::json work = shared_work(options, ranks);
  if (work.contains("error")) {
    if (ranks.is_first()) print_error(work["error"].get<std::string>());
    return kBadInput;
  }
  const std::vector<Outcome> outcomes = find_outcomes(options, ranks, work, one);
  const int status = ranks.is_first() ? report_status(outcomes, report) : kWithinTolerance;
  return std::stoi(ranks.share(std::to_string(status)));
}

}  // namespace msda::replay
