#include "recorder/capture/hdf5.h"

namespace msda::capture::hdf5 {

void silence() { H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr); }

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

}  // namespace msda::capture::hdf5
