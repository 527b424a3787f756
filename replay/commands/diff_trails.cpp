#include "replay/commands/diff_trails.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>

#include "recorder/capture/isolated_reader.h"
#include "recorder/writer/version.h"
#include "replay/base/captures.h"
#include "replay/base/errors.h"
#include "replay/base/output.h"
#include "replay/base/progress.h"
#include "replay/diff/trail_outcome.h"
#include "replay/report/html/frame.h"

namespace msda::replay {

bool are_trails(const std::vector<std::string>& operands) {
  return std::ranges::any_of(operands, [](const std::string& operand) {
    if (is_folder(operand)) return true;
    // FILE:INVOCATION is no file; what else is none, the comparison says.
    std::error_code ignored;
    return std::filesystem::exists(operand, ignored) && capture::IsolatedReader(operand).trail_launches().has_value();
  });
}

int diff_trails(const TrailsToCompare& trails) {
  const OutputFile page{"--page", trails.page, FileKind::kPage};
  if (!trails.page.empty()) page.check();
  const Progress progress(!trails.quiet);
  progress.show("diff: reading");
  const TrailOutcome outcome = compare_trails(trails.operands);
  progress.show("");
  Lines lines;
  lines.add("{}", outcome.headline);
  if (!trails.quiet) lines.append(outcome.text);
  print_result(lines, trails.json, "diff", outcome.json);
  if (!trails.page.empty()) {
    page.write(page_of_html(outcome.headline, lines.text(),
                            {{"kind", "trails"},
                             {"comparison", outcome.json},
                             {"headline", outcome.headline},
                             {"version", record::version()}}));
  }
  return outcome.is_equal() ? kWithinTolerance : kDrift;
}

}  // namespace msda::replay
