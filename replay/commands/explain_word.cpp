// msda-replay explain: what a word that the commands print means.
#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <memory>
#include <set>
#include <string>

#include "recorder/text/closest.h"
#include "recorder/text/wrap.h"
#include "replay/base/errors.h"
#include "replay/base/options.h"
#include "replay/base/output.h"
#include "replay/commands/commands.h"
#include "replay/commands/flags.h"
#include "replay/report/explained_words.h"
#include "replay/report/page.h"
#include "replay/report/terminal.h"

namespace msda::replay {
namespace {

struct ExplainOptions : Options {
  std::string word;
};

// "Order-only" becomes "orderonly", and "aten::avg_pool3d" and "torch.nn.AvgPool3d" become "avgpool3d".
std::string as_named(std::string word) {
  word.erase(0, word.find_last_of(".:") + 1);
  std::erase_if(word, [](char c) { return c == '-' || c == '_'; });
  for (char& c : word) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  return word;
}

std::vector<ExplainedWord> meanings_of(const std::string& word) {
  std::vector<ExplainedWord> meanings;
  std::vector<std::string> known, causes;
  for (const ExplainedWord& explained : explained_words()) {
    known.push_back(explained.name);
    if (explained.meant_as == explained_words().front().meant_as) causes.push_back(explained.name);
    if (as_named(explained.name) == as_named(word)) meanings.push_back(explained);
  }
  if (!meanings.empty()) return meanings;
  const std::string meant = text::closest(word, known);
  throw BadInput(
      fmt::format("explain: no page explains \"{}\"{}; the causes of findings are {}; msda-replay explain "
                  "lists all words",
                  word, meant.empty() ? "" : fmt::format("; did you mean {}?", meant), fmt::join(causes, ", ")));
}

// Paragraphs are wrapped, and lines of transcripts with those that continue them, which are indented further.
void print_markdown(const std::string& markdown, Page& page) {
  std::string paragraph;
  size_t indent = 0, hang = 0;
  const auto end_paragraph = [&] {
    if (!paragraph.empty()) page.paragraph({Span(paragraph)}, indent, hang);
    paragraph.clear();
    indent = hang = 0;
  };
  for (size_t at = 0; at < markdown.size();) {
    const size_t end = std::min(markdown.find('\n', at), markdown.size());
    const std::string line = markdown.substr(at, end - at);
    at = end + 1;
    if (line.empty()) {
      end_paragraph();
      page.blank();
      continue;
    }
    const size_t spaces = std::min(line.find_first_not_of(' '), line.size());
    const bool is_item = line.starts_with("- "), is_transcript = spaces >= 4;
    const bool continues = is_transcript && indent >= 4 && spaces > indent + 2;
    if (is_item || (is_transcript && !continues)) end_paragraph();
    if (paragraph.empty()) {
      indent = is_item ? 2 : is_transcript ? spaces : 0;
      hang = is_item ? 4 : is_transcript ? spaces + 6 : 0;  // behind "what: "
    }
    paragraph += (paragraph.empty() ? "" : " ") + line.substr(spaces);
  }
  end_paragraph();
}

void print_meanings(const std::vector<ExplainedWord>& meanings) {
  Page page(terminal_of_stdout("auto"));
  for (const ExplainedWord& word : meanings) {
    if (&word != &meanings.front()) page.blank();
    page.paragraph({Span(Style::kBold, word.name), Span(fmt::format(": {} ({})", word.meant_as, word.address))});
    page.blank();
    const size_t begin = word.explanation.find_first_not_of('\n'), last = word.explanation.find_last_not_of('\n');
    if (begin != word.explanation.npos) print_markdown(word.explanation.substr(begin, last + 1 - begin), page);
    page.blank();
    page.line("next: " + word.type);
  }
  print_raw(page.text());
}

void print_all() {
  Page page(terminal_of_stdout("auto"));
  std::string meant_as, names;
  const auto end_kind = [&] {
    if (names.empty()) return;
    page.line(meant_as + ":");
    page.paragraph({Span(names)}, 2, 2);
    names.clear();
  };
  std::set<std::string> named;  // of this kind: a word may have two explanations
  for (const ExplainedWord& word : explained_words()) {
    if (word.meant_as != meant_as) {
      end_kind();
      named.clear();
    }
    meant_as = word.meant_as;
    if (!named.insert(word.name).second) continue;
    names += (names.empty() ? "" : ", ") + text::unbroken(word.name);
  }
  end_kind();
  page.line("next: msda-replay explain " + explained_words().front().name);
  print_raw(page.text());
}

int run_explain(const ExplainOptions& options) {
  const std::vector<ExplainedWord> meanings = options.word.empty() ? explained_words() : meanings_of(options.word);
  if (!options.json.empty()) {
    nlohmann::ordered_json json = {{"words", nlohmann::ordered_json::array()}};
    for (const ExplainedWord& word : meanings) {
      json["words"].push_back({{"name", word.name},
                               {"meant_as", word.meant_as},
                               {"address", word.address},
                               {"type", word.type},
                               {"explanation", word.explanation}});
    }
    write_json(options.json, "explain", json);
  }
  if (options.json == "-") return kWithinTolerance;
  if (options.word.empty()) {
    print_all();
  } else {
    print_meanings(meanings);
  }
  return kWithinTolerance;
}

}  // namespace

void add_explain_command(CLI::App& app, int& status) {
  auto options = std::make_shared<ExplainOptions>();
  CLI::App* command = app.add_subcommand("explain", "Say what a cause, a verdict or a term means");
  command->add_option("WORD", options->word, "As the commands print it, such as cell_boundary; none: lists all words");
  add_json(*command, *options);
  command->footer("Exit status: 0 explained, 2 bad usage, or no such word.");
  command->callback([options, &status] { status = run_explain(*options); });
}

}  // namespace msda::replay
