// The rows of the operators: what analysis/operators/*/schema.json says of tensors and conventions.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "recorder/capture/capture.h"

namespace msda::replay {

// Older captures hold real numbers as texts, and flags as integers.
enum class ConventionKind { kText, kReal, kInteger, kFlag };

struct ConventionRow {
  std::string name;
  ConventionKind kind;
  bool groups;                      // findings are grouped by it: it is not a size, and does not follow from one
  std::vector<std::string> values;  // all texts, of a text
  std::string of_tests;             // the text that most tests compare with, if there is such a one
};

struct OperatorRow {
  std::string name;
  std::vector<ConventionRow> conventions;
  std::vector<std::string> mark_conventions, mark_inputs;  // all calls of the operator have them
  std::vector<std::string> only_shapes;                    // inputs of which no gradient depends on the values

  // Returns whether the invocation has what marks calls of the operator.
  bool marks(const capture::Invocation& invocation) const;
};

// Returns the rows in the order of docs/operators.md.
std::span<const OperatorRow> operator_rows();
// Returns null for an operator without a row.
const OperatorRow* row_of(const std::string& operator_name);

// Throws BadInput, whose message begins with `where`, if no operator has the dialect.
void check_dialect(const std::string& name, const std::string& where);
// Returns the dialect that most tests compare with, which is also the name of the side that is computed in it.
const std::string& dialect_of_tests();

}  // namespace msda::replay
