#include "replay/report/explained_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <regex>

#include "replay/base/pages.h"

namespace msda::replay {
namespace {

std::vector<std::string> split_lines(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

// "[the glossary](glossary.md)" becomes "the glossary". Page by page this takes a millisecond.
std::string without_links(const std::string& text) {
  static const std::regex link(R"(\[((?:[^\[\]]|\[[^\]]*\])*)\]\([^()]*\))");
  return std::regex_replace(text, link, "$1");
}

bool is_name(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return (c >= 'a' && c <= 'z') || c == '_'; });
}

// Returns the cells of a table's row, without the spaces around them. A "|" in code belongs to its cell.
std::vector<std::string> cells_of(const std::string& row) {
  std::vector<std::string> cells;
  std::string cell;
  bool is_code = false;
  for (const char c : row.substr(1)) {
    is_code ^= c == '`';
    if (c != '|' || is_code) {
      cell += c;
      continue;
    }
    const size_t begin = cell.find_first_not_of(' '), end = cell.find_last_not_of(' ');
    cells.push_back(begin == cell.npos ? "" : cell.substr(begin, end - begin + 1));
    cell.clear();
  }
  return cells;
}

// Returns the rows of cells of a text's table, the header first.
std::vector<std::vector<std::string>> table_in(std::string_view text) {
  std::vector<std::vector<std::string>> table;
  for (const std::string& line : split_lines(text)) {
    if (line.starts_with("| ")) table.push_back(cells_of(line));
  }
  return table;
}

struct Section {
  std::string title, text;
};

// Returns the sections below headings of two signs.
std::vector<Section> sections_of(std::string_view page) {
  std::vector<Section> sections;
  for (const std::string& line : split_lines(page)) {
    if (line.starts_with("## ")) {
      sections.push_back({line.substr(3), ""});
    } else if (!sections.empty()) {
      sections.back().text += line + "\n";
    }
  }
  return sections;
}

// "- order_only; may vary: no" says what a row says, where a terminal is too narrow for the table.
std::string as_list(const std::string& text) {
  std::string list;
  std::vector<std::string> header;
  for (const std::string& line : split_lines(text)) {
    if (!line.starts_with("| ") && !line.starts_with("|-")) {  // "|x|" may begin a line of text
      header.clear();
      list += line + "\n";
    } else if (header.empty()) {
      header = cells_of(line);
    } else if (!line.starts_with("|-")) {
      const auto cells = cells_of(line);
      std::string item = cells.empty() ? "" : "- " + cells[0];
      for (size_t i = 1; i < cells.size() && i < header.size(); ++i) {
        if (!cells[i].empty()) item += (header[i].empty() ? "; " : "; " + header[i] + ": ") + cells[i];
      }
      list += item + "\n";
    }
  }
  return list;
}

// What the words of a page or of a table are, and a line to type.
struct Kind {
  const char *file, *meant_as, *type;
};

void add_sections(std::string_view page, const Kind& kind, std::vector<ExplainedWord>& words) {
  for (const Section& section : sections_of(page)) {
    if (!is_name(section.title)) continue;
    words.push_back({section.title, kind.meant_as, fmt::format("{}#{}", kind.file, section.title), kind.type,
                     without_links(as_list(section.text))});
  }
}

std::string anchor_of(std::string title) {
  std::erase(title, '`');
  for (char& c : title) c = c == ' ' ? '-' : static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  return title;
}

// Adds the rows of the table in a section: of code words, "`a`, `b`, for the kind `c`" names the first two.
void add_rows(const Section& section, const Kind& kind, std::vector<ExplainedWord>& words) {
  const auto table = table_in(section.text);
  for (size_t row = 1; row < table.size(); ++row) {
    const auto& cells = table[row];
    std::string text;
    for (size_t i = 1; i < cells.size() && i < table[0].size(); ++i) {
      if (cells[i].empty()) continue;
      const std::string label = table[0][i] + (table[0][i].ends_with("?") ? "" : ":");
      text += table[0].size() > 2 ? fmt::format("{} {}\n\n", label, cells[i]) : cells[i] + "\n";
    }
    const std::string names = cells[0].substr(0, cells[0].find(", for "));
    for (size_t at = 0; at < names.size();) {
      const size_t end = std::min(names.find(", ", at), names.size());
      std::string name = names.substr(at, end - at);
      std::erase(name, '`');
      words.push_back({name, kind.meant_as, fmt::format("{}#{}", kind.file, anchor_of(section.title)), kind.type,
                       without_links(text)});
      at = end + 2;
    }
  }
}

// Adds the rows of the page's only table: "`torch.nn.AvgPool3d` when ..." names AvgPool3d.
void add_refused(std::string_view page, std::vector<ExplainedWord>& words) {
  const auto table = table_in(page);
  for (size_t row = 1; row < table.size(); ++row) {
    const std::string& refused = table[row][0];
    const size_t last = refused.find('`', 1);
    const std::string name = refused.substr(1, last - 1);
    words.push_back({name.substr(name.rfind('.') + 1), "operator that PyTorch refuses",
                     "docs/refused-by-pytorch.md#what-pytorch-refuses-and-what-becomes-of-it",
                     "msda-replay survey -- COMMAND",
                     without_links(fmt::format("Under torch.use_deterministic_algorithms(True) PyTorch refuses {}.\n\n"
                                               "With msda_replay.torch.deterministic(): {}.\n",
                                               refused, table[row][1]))});
  }
}

std::vector<ExplainedWord> read_pages() {
  std::vector<ExplainedWord> words;
  add_sections(kCausesPage, {"docs/causes.md", "cause of a finding", "msda-replay run CAPTURE"}, words);
  const auto add = [&](std::string_view page, std::string_view title, const Kind& kind) {
    for (const Section& section : sections_of(page)) {
      if (section.title == title) add_rows(section, kind, words);
    }
  };
  constexpr const char *kSurvey = "docs/survey.md", *kTrail = "docs/trail.md", *kGlossary = "docs/glossary.md",
                       *kDiff = "msda-replay diff A.h5 B.h5";
  add(kSurveyPage, "Verdicts", {kSurvey, "verdict of a survey", "msda-replay survey -- COMMAND"});
  add(kTrailPage, "Kinds", {kTrail, "kind of a divergence of trails", kDiff});
  add(kTrailPage, "Causes", {kTrail, "cause of a divergence of trails", kDiff});
  add(kGlossaryPage, "Names of operators", {kGlossary, "operator", "msda-replay run CAPTURE"});
  add(kGlossaryPage, "What `diff` names", {kGlossary, "what diff names", kDiff});
  for (const char* title : {"Recording", "Operators", "Explaining"}) {
    add(kGlossaryPage, title, {kGlossary, "term", "msda-replay explain"});
  }
  add_refused(kRefusedPage, words);
  return words;
}

}  // namespace

const std::vector<ExplainedWord>& explained_words() {
  static const std::vector<ExplainedWord> words = read_pages();
  return words;
}

}  // namespace msda::replay
