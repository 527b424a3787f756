#include "recorder/capture/hdf5.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string_view>

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
  // "file write failed: time = ..., errno = 28, error message = '...', buf = ...": the system's reason says all of it.
  constexpr std::string_view kReason = ", errno = ";
  const size_t at = message.find(kReason);
  const int error = at == message.npos ? 0 : std::atoi(message.c_str() + at + kReason.size());
  const size_t facts = std::min(message.find(": time = "), message.find(" (unable to open file: "));
  return error == 0 || facts > at ? message : message.substr(0, facts) + ": " + std::strerror(error);
}

namespace {

herr_t collect_link(hid_t, const char* name, const H5L_info_t* link, void* out) noexcept {
  static_cast<std::vector<Link>*>(out)->push_back({name, link->type == H5L_TYPE_HARD});
  return 0;
}

herr_t collect_attribute(hid_t, const char* name, const H5A_info_t*, void* out) noexcept {
  static_cast<std::vector<std::string>*>(out)->emplace_back(name);
  return 0;
}

}  // namespace

bool list_links(hid_t group, std::vector<Link>& links) {
  return H5Literate(group, H5_INDEX_NAME, H5_ITER_INC, nullptr, collect_link, &links) >= 0;
}

bool list_attributes(hid_t object, std::vector<std::string>& names) {
  hsize_t at = 0;
  return H5Aiterate2(object, H5_INDEX_NAME, H5_ITER_INC, &at, collect_attribute, &names) >= 0;
}

Type file_type(msda_dtype type) {
  if (type != MSDA_FLOAT16 && type != MSDA_BFLOAT16) {
    return Type(H5Tcopy(type == MSDA_FLOAT32   ? H5T_IEEE_F32LE
                        : type == MSDA_FLOAT64 ? H5T_IEEE_F64LE
                        : type == MSDA_INT32   ? H5T_STD_I32LE
                        : type == MSDA_INT64   ? H5T_STD_I64LE
                                               : H5T_STD_U8LE));
  }
  const bool brain = type == MSDA_BFLOAT16;
  const size_t exponent = brain ? 8 : 5, mantissa = brain ? 7 : 10;
  Type half(H5Tcopy(H5T_IEEE_F32LE));
  // Fields first: a type cannot become smaller than its fields.
  H5Tset_fields(half.get(), 15, mantissa, exponent, 0, mantissa);
  H5Tset_size(half.get(), 2);
  H5Tset_ebias(half.get(), brain ? 127 : 15);
  return half;
}

hid_t unsigned_type(size_t bytes) {
  return bytes == 1 ? H5T_STD_U8LE : bytes == 2 ? H5T_STD_U16LE : bytes == 4 ? H5T_STD_U32LE : H5T_STD_U64LE;
}

bool is_sound(hid_t type) {
  const H5T_class_t kind = H5Tget_class(type);
  const size_t size = H5Tget_size(type), bits = 8 * size;
  const auto within = [](size_t all, size_t at, size_t length) { return at <= all && length <= all - at; };
  if (kind == H5T_INTEGER || kind == H5T_FLOAT) {
    const int offset = H5Tget_offset(type);
    const size_t precision = H5Tget_precision(type);
    if (offset < 0 || precision == 0 || !within(bits, static_cast<size_t>(offset), precision)) return false;
  }
  if (kind == H5T_FLOAT) {
    size_t sign = 0, exponent_at = 0, exponent = 0, mantissa_at = 0, mantissa = 0;
    return H5Tget_fields(type, &sign, &exponent_at, &exponent, &mantissa_at, &mantissa) >= 0 && within(bits, sign, 1) &&
           within(bits, exponent_at, exponent) && within(bits, mantissa_at, mantissa);
  }
  if (kind == H5T_ENUM || kind == H5T_ARRAY) {
    const Type base(H5Tget_super(type));
    return base.valid() && is_sound(base.get());
  }
  if (kind != H5T_COMPOUND) return kind != H5T_NO_CLASS;
  const int count = H5Tget_nmembers(type);
  for (unsigned i = 0; static_cast<int>(i) < count; ++i) {
    const Type member(H5Tget_member_type(type, i));
    const bool inside = member.valid() && within(size, H5Tget_member_offset(type, i), H5Tget_size(member.get()));
    if (!inside || !is_sound(member.get())) return false;
  }
  return true;
}

namespace {

// A dataset is read in boxes: one index of each dimension before `split`, `rows` of that one, and all of those after
// it.
struct Boxes {
  size_t split = 0;
  int64_t rows = 1, row = 0;  // of so many bytes
  int64_t unpacked = 0;       // bytes that unpacking a chunk takes: zlib's buffer doubles
};

// No chunk lies in two boxes: it would be unpacked for each.
Boxes boxes_of(hid_t dataset, hid_t type, const std::vector<int64_t>& shape) {
  constexpr int64_t kPieceBytes = int64_t{4} << 20;
  const size_t rank = shape.size();
  const auto size = static_cast<int64_t>(H5Tget_size(type));
  if (rank == 0) return {0, 1, size, 0};
  std::vector<hsize_t> chunk(rank, 1);
  bool is_chunked = H5Dget_offset(dataset) == HADDR_UNDEF;  // otherwise contiguous; asking for properties takes longer
  if (is_chunked) {
    const Properties properties(H5Dget_create_plist(dataset));
    is_chunked = H5Pget_layout(properties.get()) == H5D_CHUNKED &&
                 H5Pget_chunk(properties.get(), static_cast<int>(rank), chunk.data()) >= 0;
  }
  size_t first = 0;  // dimension that a chunk has more than one index of
  while (first + 1 < rank && chunk[first] == 1) ++first;
  Boxes boxes{rank, 1, size, 0};
  while (boxes.split > 1 && (boxes.row <= kPieceBytes / shape[boxes.split - 1] || boxes.split - 1 > first)) {
    boxes.row *= shape[--boxes.split];
  }
  const int64_t most = shape[--boxes.split], step = static_cast<int64_t>(std::min<hsize_t>(chunk[boxes.split], most));
  boxes.rows = std::clamp<int64_t>(kPieceBytes / boxes.row / step * step, step, most);
  if (!is_chunked) return boxes;
  boxes.unpacked = 2 * size;
  for (const hsize_t length : chunk) {  // libhdf5 refuses chunks of 4 GiB
    if (__builtin_mul_overflow(boxes.unpacked, length, &boxes.unpacked)) boxes.unpacked = int64_t{8} << 30;
  }
  return boxes;
}

// Reads it in one piece.
bool read_whole(hid_t dataset, hid_t type, int64_t bytes, const Visit& visit) {
  std::vector<std::byte> whole(static_cast<size_t>(bytes));
  if (H5Dread(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, whole.data()) < 0) return false;
  visit(whole);
  return true;
}

}  // namespace

bool read_pieces(hid_t dataset, hid_t type, const std::vector<int64_t>& shape, const Visit& visit) {
  if (std::ranges::count(shape, 0) > 0) return true;
  const Boxes boxes = boxes_of(dataset, type, shape);
  const auto [split, rows, row, unpacked] = boxes;
  if (split == 0 && (shape.empty() || rows == shape[0])) return read_whole(dataset, type, rows * row, visit);
  std::vector<std::byte> piece(static_cast<size_t>(rows * row));
  const Space in_file(H5Dget_space(dataset));
  std::vector<hsize_t> start(shape.size(), 0), count(shape.begin(), shape.end());
  std::fill_n(count.begin(), split, 1);
  for (;;) {
    const int64_t now = std::min(rows, shape[split] - static_cast<int64_t>(start[split]));
    count[split] = static_cast<hsize_t>(now);
    // The space has the same rank, or libhdf5 would go through a chunk's elements one by one.
    const Space in_memory(H5Screate_simple(static_cast<int>(shape.size()), count.data(), nullptr));
    if (H5Sselect_hyperslab(in_file.get(), H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr) < 0 ||
        H5Dread(dataset, type, in_memory.get(), in_file.get(), H5P_DEFAULT, piece.data()) < 0) {
      return false;
    }
    visit(std::span(piece).first(static_cast<size_t>(now * row)));
    start[split] += count[split];
    for (size_t d = split; start[d] == static_cast<hsize_t>(shape[d]); ++start[--d]) {
      if (d == 0) return true;
      start[d] = 0;
    }
  }
}

int64_t memory_to_read(hid_t dataset, hid_t type, const std::vector<int64_t>& shape) {
  if (std::ranges::count(shape, 0) > 0) return 0;
  const Boxes boxes = boxes_of(dataset, type, shape);
  return boxes.rows * boxes.row + boxes.unpacked;
}

std::optional<std::string> digest_of(hid_t dataset, hid_t type, const std::vector<int64_t>& shape) {
  Digester digester;
  const bool read = read_pieces(dataset, type, shape, [&](std::span<const std::byte> piece) { digester.add(piece); });
  return read ? std::optional(digester.digest()) : std::nullopt;
}

}  // namespace msda::capture::hdf5
