#include "recorder/capture/hdf5.h"

#include <algorithm>

#include "recorder/capture/digest.h"

namespace msda::capture::hdf5 {

void silence() {
  H5dont_atexit();
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
}

std::string last_error() {
  std::string message;
  H5Ewalk2(
      H5E_DEFAULT, H5E_WALK_UPWARD,
      [](unsigned, const H5E_error2_t* error, void* out) -> herr_t {
        *static_cast<std::string*>(out) = error->desc != nullptr ? error->desc : "";
        return 1;  // the first is the innermost
      },
      &message);
  return message;
}

Type file_type(ElementType type) {
  switch (type) {
    case ElementType::kFloat32:
      return Type(H5Tcopy(H5T_IEEE_F32LE));
    case ElementType::kFloat64:
      return Type(H5Tcopy(H5T_IEEE_F64LE));
    case ElementType::kInt32:
      return Type(H5Tcopy(H5T_STD_I32LE));
    case ElementType::kInt64:
      return Type(H5Tcopy(H5T_STD_I64LE));
    case ElementType::kUInt8:
      return Type(H5Tcopy(H5T_STD_U8LE));
    case ElementType::kFloat16:
    case ElementType::kBFloat16:
      break;
  }
  const bool brain = type == ElementType::kBFloat16;
  const size_t exponent = brain ? 8 : 5, mantissa = brain ? 7 : 10;
  Type half(H5Tcopy(H5T_IEEE_F32LE));
  // Fields first: a type can shrink only to what its fields fit in.
  H5Tset_fields(half.get(), 15, mantissa, exponent, 0, mantissa);
  H5Tset_size(half.get(), 2);
  H5Tset_ebias(half.get(), brain ? 127 : 15);
  return half;
}

std::optional<std::string> digest_of(hid_t dataset, hid_t type, const std::vector<int64_t>& shape) {
  constexpr int64_t kPieceBytes = int64_t{16} << 20;
  Digester digester;
  if (std::ranges::count(shape, 0) > 0) return digester.digest();
  // A piece is a box: one index of each dimension before `split`, some of that one, all of those after it.
  const auto size = static_cast<int64_t>(H5Tget_size(type));
  int64_t row = size;
  size_t split = shape.size();
  while (split > 0 && row <= kPieceBytes / shape[split - 1]) row *= shape[--split];
  std::vector<std::byte> piece;
  if (split == 0) {
    piece.resize(static_cast<size_t>(row));
    if (H5Dread(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, piece.data()) < 0) return std::nullopt;
    digester.add(piece);
    return digester.digest();
  }
  --split;
  const int64_t rows = std::clamp<int64_t>(kPieceBytes / row, 1, shape[split]);
  piece.resize(static_cast<size_t>(rows * row));
  const Space in_file(H5Dget_space(dataset));
  std::vector<hsize_t> start(shape.size(), 0), count(shape.begin(), shape.end());
  std::fill_n(count.begin(), split, 1);
  for (;;) {
    const int64_t now = std::min(rows, shape[split] - static_cast<int64_t>(start[split]));
    count[split] = static_cast<hsize_t>(now);
    const auto elements = static_cast<hsize_t>(now * (row / size));
    const Space in_memory(H5Screate_simple(1, &elements, nullptr));
    if (H5Sselect_hyperslab(in_file.get(), H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr) < 0 ||
        H5Dread(dataset, type, in_memory.get(), in_file.get(), H5P_DEFAULT, piece.data()) < 0) {
      return std::nullopt;
    }
    digester.add(std::span(piece).first(static_cast<size_t>(now * row)));
    start[split] += count[split];
    for (size_t d = split; start[d] == static_cast<hsize_t>(shape[d]); ++start[--d]) {
      if (d == 0) return digester.digest();
      start[d] = 0;
    }
  }
}

}  // namespace msda::capture::hdf5
