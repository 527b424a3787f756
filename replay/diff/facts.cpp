#include "replay/diff/facts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <set>
#include <string_view>
#include <utility>

namespace msda::replay {
namespace {

// Returns whether a fact of the section says only where, when or for whom, and decides no number.
bool decides_nothing(std::string_view section, std::string_view name) {
  constexpr std::pair<std::string_view, std::string_view> kNotes[] = {
      {"machine", "host"},
      {"machine", "process"},
      {"environment", "PYTEST_CURRENT_TEST"},
      {"environment", "PYTEST_XDIST_WORKER"},
      {"environment", "TRITON_CACHE_DIR"},
      {"environment", "TRITON_PRINT_AUTOTUNING"},
      {"conventions", "tolerance"},       // the test's
      {"launch", "fitting_conventions"},  // what msda-replay may take the call for
      {"launch", "pointers"},             // where parameters point to, in the file's own names
      {"launch", "unknown_extents"},      // how far allocations go on
      {"launch", "unwritten"},            // a survey's finding
      {"launch", "unwritten_left_out"},
      {"launch", "minimized_from"},
      {"launch", "roles"},
      {"launch", "source_line"},
  };
  return std::ranges::find(kNotes, std::pair(section, name)) != std::end(kNotes);
}

bool ends_a_path(char c) { return c == ' ' || c == ':' || c == '=' || c == ',' || c == '"' || c == '\''; }

// Returns "/tmp/pytest-3/run.json" as "run.json", "/tmp/tmp4x1z_q" as "": such folders and names differ in each run.
std::string without_temporary_folders(std::string_view text) {
  constexpr std::string_view kFolders[] = {"/tmp/", "/var/tmp/", "/dev/shm/"};
  std::string result;
  for (size_t at = 0; at < text.size();) {
    const std::string_view rest = text.substr(at);
    const bool begins = at == 0 || ends_a_path(text[at - 1]);
    if (!begins || std::ranges::none_of(kFolders, [&](auto folder) { return rest.starts_with(folder); })) {
      result += text[at++];
      continue;
    }
    const size_t length = std::ranges::find_if(rest, ends_a_path) - rest.begin();
    std::string_view name = rest.substr(0, length);
    name.remove_prefix(name.rfind('/') + 1);
    if (!name.starts_with("tmp")) result += name;
    at += length;
  }
  return result;
}

// Returns the file's name if it has the library's version, such as libcudart.so.12.4.127; else the path.
std::string_view versioned_name(std::string_view path) {
  const std::string_view name = path.substr(path.rfind('/') + 1);
  const size_t version = name.find(".so.");
  const bool has_version = version != name.npos && name.find('.', version + 4) != name.npos;
  return has_version ? name : path;
}

bool numbers_may_depend_on(const std::string& section, const std::string& name, const std::string& a,
                           const std::string& b) {
  if (decides_nothing(section, name)) return false;
  if (section == "libraries" && versioned_name(a) == versioned_name(b)) return false;
  return without_temporary_folders(a) != without_temporary_folders(b);
}

std::set<std::string> names_of(const Facts& a, const Facts& b) {
  std::set<std::string> names;
  for (const Facts* facts : {&a, &b}) {
    for (const auto& [name, text] : *facts) names.insert(name);
  }
  return names;
}

Facts without_process(Facts facts) {
  facts.erase("process");
  return facts;
}

// Says "CAPTURE" for an argument that names the capture itself: each run has its own.
Facts arguments_of(const capture::Run& run, const std::filesystem::path& capture) {
  std::vector<std::string> arguments = run.argv;
  for (std::string& argument : arguments) {
    const std::filesystem::path name = std::filesystem::path(argument).filename();
    if (!name.empty() && name == capture.filename()) argument = "CAPTURE";
  }
  return {{"argv", fmt::format("{}", fmt::join(arguments, " "))}};
}

}  // namespace

int64_t count_names(const Facts& a, const Facts& b) { return static_cast<int64_t>(names_of(a, b).size()); }

std::vector<Difference> differing_facts(const std::string& section, const Facts& a, const Facts& b) {
  const auto text = [](const Facts& facts, const std::string& name) {
    const auto found = facts.find(name);
    return found == facts.end() ? std::string() : found->second;
  };
  std::vector<Difference> all;
  for (const std::string& name : names_of(a, b)) {
    const std::string of_a = text(a, name), of_b = text(b, name);
    if (of_a == of_b) continue;
    Difference& difference = all.emplace_back(Difference{{}, section, name, of_a, of_b});
    difference.may_decide = numbers_may_depend_on(section, name, of_a, of_b);
  }
  return all;
}

std::vector<Difference> differing_runs(const capture::IsolatedReader& reader_a, const capture::IsolatedReader& reader_b,
                                       int64_t& compared) {
  const capture::Run a = reader_a.run(), b = reader_b.run();
  std::vector<Difference> all;
  const auto compare = [&](const std::string& section, const Facts& of_a, const Facts& of_b) {
    compared += count_names(of_a, of_b);
    std::ranges::move(differing_facts(section, of_a, of_b), std::back_inserter(all));
  };
  compare("arguments", arguments_of(a, reader_a.path()), arguments_of(b, reader_b.path()));
  compare("machine", without_process(a.facts), without_process(b.facts));
  compare("libraries", a.libraries, b.libraries);
  compare("environment", a.environment, b.environment);
  return all;
}

}  // namespace msda::replay
