// What a user's kernel computes, as the key "operator" of its adapter says: each element of an output is a sum of
// products, by expressions or by a library. docs/own-operators.md is the format. The recorder checks it, takes the
// name alone, and never looks at a library; msda-replay evaluates it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "recorder/adapters/expression.h"

namespace msda::adapters {

class Node;
struct UserSpec;

// A name to iterate by. If it has no size, it takes the size of the tensors that it is an index of.
struct IndexSpec {
  std::string name;
  std::optional<Expression> size;
};

// A coordinate of an element, at whose whole numbers the output is not smooth.
struct CoordinateSpec {
  std::string name;           // "px": expressions have its "px.cell" and "px.fraction"
  Expression location, size;  // an element of a tensor, and how many cells there are
  Expression value;           // of reals: of "location", "size", and the element's indices
};

// A factor that is no element of a floating-point tensor alone.
struct WeightSpec {
  bool divides;
  Expression factor;
  bool is_rounded;  // it is computed of floating-point tensors, and so has roundings of its own
};

// A comparison of integers, or of real numbers.
struct WhereSpec {
  Condition condition;
  bool is_real;
};

// A product.
struct AddendSpec {
  bool negative = false;
  std::vector<Expression> inputs;  // elements of floating-point tensors
  std::vector<WeightSpec> weights;
};

// A tensor each of whose elements is a sum.
struct SumSpec {
  std::vector<size_t> index;     // of its dimensions, among the operator's indices
  std::vector<size_t> over;      // what the sum goes over, the slowest first
  std::vector<WhereSpec> where;  // under which there are addends
};

// An intermediate tensor, which expressions after it read as they read a tensor of the adapter.
struct StageSpec : SumSpec {
  std::string name;
  std::optional<Expression> value;  // of reals, summed up
};

struct OutputSpec : SumSpec {
  size_t tensor = 0;                        // among those of the adapter
  std::vector<size_t> channels;             // of `index`: those along which addends arrive together
  std::vector<CoordinateSpec> coordinates;  // at most 3
  std::vector<AddendSpec> start, addends;   // once for an element; once for each point of `over`
  // What depends on the input element whose derivative the element is: `loss` for each point of `over`, or, if the
  // output is linear in its input, that element times the addends.
  std::vector<AddendSpec> loss;
  bool has_linear_loss = false;
  bool has_loss() const { return has_linear_loss || !loss.empty(); }
};

struct OperatorSpec {
  std::string name;
  bool rounds_to_tensors = false;  // each operation rounds to the tensors' type, also one of 16 bits
  std::string library;  // a path as the file has it, from the file's folder on; then there are no indices and outputs
  std::vector<IndexSpec> indices;
  std::vector<StageSpec> stages;  // expressions number their tensors after those of the adapter
  std::vector<OutputSpec> outputs;
  std::optional<OutputSpec> loss;  // a sum without index or tensor, of whose derivatives the outputs consist
};

// The numbers of names in an operator's expressions: the adapter's scalars, the launch's extents, then these.
struct OperatorNames {
  size_t first;  // of the indices

  explicit OperatorNames(const UserSpec& spec);
  size_t index(size_t i) const { return first + i; }
  // Returns a number after all indices: by coordinate of the output, and in the expression of a coordinate.
  static size_t cell(const OperatorSpec& spec, const OperatorNames& names, size_t coordinate) {
    return names.index(spec.indices.size()) + 2 * coordinate;
  }
};

inline constexpr size_t kMostOperatorOutputs = 3, kMostIndices = 8, kMostOperatorStages = 8, kMostCoordinates = 3,
                        kMostInputFactors = 4;

// Reads the operator of an adapter whose parameters and tensors have been read. Throws BadAdapterFile.
OperatorSpec read_operator(const UserSpec& spec, const Node& node);

}  // namespace msda::adapters
