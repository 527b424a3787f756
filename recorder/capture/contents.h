// The list of contents names every object of a complete capture, so that later changes, losses and additions are found.
// The writer stores it when it closes the file; `verify` computes it anew and compares.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace msda::capture {

// The names of the list's dataset and of the root's attribute with its digest. Neither is in the list, and neither may
// exist without the other.
inline constexpr std::string_view kContents = "contents";

// An object's description, without a dataset's data.
struct ContentEntry {
  std::string kind;                               // group, dataset, link (one that is not hard), other
  std::string type;                               // of a dataset; "-" for the others, as the next two
  std::string shape;                              // 4x3, scalar, null
  std::string digest;                             // of its data, as the attribute `digest` has it
  std::map<std::string, std::string> attributes;  // name to digest of type, shape and value
  std::string unreadable = {};                    // why it cannot be read; not in the list
};
using Contents = std::map<std::string, ContentEntry>;  // by path

// Returns one line for each object, in the order of their paths' bytes (docs/capture-format.md).
std::string to_text(const Contents& contents);

// A difference from what was written.
struct Difference {
  std::string object;  // its path
  std::string why;     // "is missing", "has another shape: ..."
};

// Compares a list as it was written with one object after another: a capture may hold millions, and their descriptions
// are many times as large as their lines.
class ListedContents {
 public:
  // Throws std::invalid_argument for any text that to_text() does not produce. Lines are read as they are compared.
  explicit ListedContents(std::string text);
  ListedContents(const ListedContents&) = delete;
  ListedContents& operator=(const ListedContents&) = delete;
  // Compares an object; call it at most once for each.
  void compare(const std::string& path, const ContentEntry& found, std::vector<Difference>& differences);
  // Adds the objects that `concerns` and that were not compared.
  void add_missing(const std::function<bool(std::string_view path)>& concerns, std::vector<Difference>& differences);

 private:
  struct Line {
    std::string_view path, rest;
    bool found = false;
  };
  std::string text_;
  std::vector<Line> lines_;  // sorted by the encoded paths
};

// What verify found.
struct Verification {
  bool has_list = false;  // else there were only the datasets' digests to compare with
  int64_t objects = 0, datasets = 0;
  std::vector<Difference> differences;
};

}  // namespace msda::capture
