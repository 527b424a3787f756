// What the report draws, taken from the tensors while they are in memory: histograms of errors, maps of where they lie,
// and the places of the samples behind findings.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analysis/judge/analyze.h"
#include "replay/report/result.h"

namespace msda::replay {

// A gradient of the recorded side beside that of another one.
struct ComparedGradient {
  analysis::Gradient gradient;
  std::string against;
};

// How far the recorded numbers are from the expected ones, in representable numbers of the recorded type.
struct UlpHistogram {
  ComparedGradient compared;
  struct Bin {
    int64_t within = 0, outside = 0;  // of the tolerance
  };
  std::vector<Bin> bins;  // of the distances 0, 1, 2 to 3, 4 to 7, 8 to 15, ...
  Bin not_finite;
  std::optional<uint64_t> tightest;  // what the tolerance allows where it allows least
};

// The largest |difference| of all elements in a bin, by row and column.
struct ErrorMap {
  std::string title;                      // "level 0 (64 x 64)"
  std::string row_name, column_name;      // what is counted down and across: "row", "head"
  int64_t all_rows = 0, all_columns = 0;  // before they share bins
  int64_t of_rows = 1, of_columns = 1;    // in a bin
  int64_t rows = 0, columns = 0;          // bins
  std::vector<double> largest;            // infinite: a number that is not finite
  std::vector<bool> outside;              // some element of the bin is out of tolerance

  ErrorMap(std::string a_title, std::string rows_of, std::string columns_of, int64_t row_count, int64_t column_count,
           int64_t most_rows, int64_t most_columns);
  void add(int64_t row, int64_t column, double difference, bool is_outside);
};

struct ErrorMaps {
  ComparedGradient compared;
  std::vector<ErrorMap> images;     // where the pixels lie, or where the samples landed
  std::optional<ErrorMap> indices;  // by two dimensions of the tensor, heads and queries if it has them
  bool any = false;                 // some element differs
};

// Where the sample of a finding lies: its pixel coordinates, in the arithmetic of the two sides.
struct SampleView {
  struct Axis {
    int32_t size;  // of the image, in pixels
    double observed, expected;
  };
  std::vector<Axis> axes;  // x, y, z; empty: there is nothing to draw
};

// The samples that add to the pixel of a finding.
struct PixelView {
  int64_t row = 0, column = 0, rows = 0, columns = 0;
  struct Addend {
    double x, y, value;
  };
  std::vector<Addend> addends;
  int64_t left_out = 0;  // addends beyond those
};

// A finding that the report lists.
struct ListedFinding {
  size_t finding;  // among the report's
  size_t group;    // that it belongs to
  SampleView sample;
  std::optional<PixelView> pixel;  // of a group's worst
};

struct Pictures {
  std::vector<UlpHistogram> histograms;
  std::vector<ErrorMaps> maps;
  std::vector<ListedFinding> listed;  // by group, the worst of each first
};

// `report` is what the analysis made of the material. At most `most_listed` findings are listed, but each group's
// worst.
Pictures take_pictures(const analysis::Material& material, const analysis::Report& report,
                       const std::optional<analysis::Tolerance>& tolerance, size_t most_listed, int threads);

}  // namespace msda::replay
