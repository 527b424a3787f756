// The list of contents: what a whole capture holds, object by object, so that whatever is later changed, lost or added
// is noticed. The writer puts it into the file when it closes it; verify makes it anew and compares.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace msda::capture {

// Where the list lies, and the root's attribute with its digest: neither is in the list, and with one of them the other
// must be there.
inline constexpr std::string_view kContents = "contents";

// What is known of an object without reading a dataset's data.
struct ContentEntry {
  std::string kind;                               // group, dataset, link (one that is not hard), other
  std::string type;                               // of a dataset; "-" for the others, as the next two
  std::string shape;                              // 4x3, scalar, null
  std::string digest;                             // of its data, as the attribute `digest` has it
  std::map<std::string, std::string> attributes;  // name to digest of type, shape and value
  std::string unreadable = {};                    // why it cannot be read; not in the list
};
using Contents = std::map<std::string, ContentEntry>;  // by path

// One line for each object, in the order of their paths' bytes (docs/capture-format.md).
std::string to_text(const Contents& contents);
// Nothing but what to_text() makes; otherwise throws std::invalid_argument.
Contents contents_from(std::string_view text);

// What is not as it was written.
struct Difference {
  std::string object;  // its path
  std::string why;     // "is missing", "has another shape: ..."
};
std::vector<Difference> compare(const Contents& listed, const Contents& found);

// What verify found.
struct Verification {
  bool has_list = false;  // else there were only the datasets' digests to compare with
  int64_t objects = 0, datasets = 0;
  std::vector<Difference> differences;
};

}  // namespace msda::capture
