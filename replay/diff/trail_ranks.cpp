#include "replay/diff/trail_ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "recorder/capture/isolated_reader.h"
#include "recorder/text/numbers.h"
#include "replay/base/errors.h"
#include "replay/base/file_kind.h"

namespace msda::replay {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> files_of_ranks(const std::string& folder) {
  std::vector<std::string> files;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string path = entry->path().string();
    if (is_of_kind(path, FileKind::kCapture)) files.push_back(path);
  }
  if (error) throw BadInput(fmt::format("{}: {}", folder, error.message()));
  if (files.empty()) throw BadInput(folder + ": holds no captures; name a folder with a capture for each rank");
  std::ranges::sort(files);
  return files;
}

std::string recorded_rank(const std::string& file) {
  const capture::Run run = capture::IsolatedReader(file).run();
  const auto variable = run.environment.find("RANK");
  return variable != run.environment.end() ? variable->second : "";
}

// Returns the files by rank if each file names its own, else by file name.
std::map<std::string, std::string> files_by_rank(const std::vector<std::string>& files, bool by_name) {
  std::map<std::string, std::string> ranks;
  for (const std::string& file : files) {
    const std::string rank = by_name ? fs::path(file).filename().string() : recorded_rank(file);
    if (rank.empty() || !ranks.emplace(rank, file).second) return {};
  }
  return ranks;
}

void check_partners(const std::map<std::string, std::string>& ranks, const std::map<std::string, std::string>& others,
                    const std::string& folder) {
  for (const auto& [rank, file] : ranks) {
    if (!others.contains(rank)) {
      throw BadInput(fmt::format("{}: has no capture of rank {}, which {} is of; compare runs of as many ranks", folder,
                                 rank, file));
    }
  }
}

}  // namespace

std::vector<RankFiles> paired_ranks(const std::string& folder_a, const std::string& folder_b) {
  const std::vector<std::string> files_a = files_of_ranks(folder_a), files_b = files_of_ranks(folder_b);
  auto a = files_by_rank(files_a, false), b = files_by_rank(files_b, false);
  if (a.empty() || b.empty()) {
    a = files_by_rank(files_a, true);
    b = files_by_rank(files_b, true);
  }
  check_partners(a, b, folder_b);
  check_partners(b, a, folder_a);
  std::vector<RankFiles> pairs;
  for (const auto& [rank, file] : a) pairs.push_back({rank, file, b[rank]});
  std::ranges::stable_sort(pairs, {},
                           [](const RankFiles& files) { return text::parse_number<int64_t>(files.rank).value_or(0); });
  return pairs;
}

}  // namespace msda::replay
