// What the project's words mean, as its pages say: causes, verdicts of a survey, kinds and causes of `diff`, operators,
// terms. The pages are built into the program, so that nothing has to be looked up elsewhere.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace msda::replay {

struct ExplainedWord {
  std::string name;         // "cell_boundary"
  std::string meant_as;     // "cause of a finding": where the programs say it
  std::string address;      // "docs/causes.md#cell_boundary"
  std::string type;         // a line to type: what says it
  std::string explanation;  // Markdown: paragraphs, blocks of code, lists, rows of tables as lists; links as their text
};

// Returns all of them, in the order of the pages. A name may occur more than once, meant as different things.
const std::vector<ExplainedWord>& explained_words();

}  // namespace msda::replay
