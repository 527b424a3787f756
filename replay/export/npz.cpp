#include "replay/export/npz.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstring>

#include "analysis/model/dialects.h"
#include "kernels/names.h"
#include "replay/calls/conventions.h"
#include "replay/calls/load_operator.h"
#include "replay/export/zip_archive.h"

namespace msda::replay {
namespace {

// NumPy has no bfloat16: like ml_dtypes, which adds it, its bytes are written as void of two bytes.
const char* descriptor_of(msda_dtype dtype) {
  constexpr const char* kDescriptors[] = {"<f2", "|V2", "<f4", "<f8", "<i4", "<i8"};
  return kernels::look_up(kDescriptors, dtype, "<f4");
}

// Returns the head of an .npy file, format 1.0.
std::string head_of(const std::string& descriptor, const analysis::Index& shape) {
  std::string sides;
  for (const int64_t side : shape) sides += fmt::format("{}, ", side);
  std::string text = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", descriptor, sides);
  constexpr size_t kBefore = 10, kAligned = 64;
  text.resize((kBefore + text.size() + kAligned) / kAligned * kAligned - kBefore, ' ');
  text.back() = '\n';
  std::string head("\x93NUMPY\x01\x00", 8);
  head += static_cast<char>(text.size() & 0xff);
  head += static_cast<char>(text.size() >> 8);
  return head + text;
}

template <class T>
std::string scalar(const char* descriptor, T value) {
  std::string bytes(sizeof value, 0);
  std::memcpy(bytes.data(), &value, sizeof value);
  return head_of(descriptor, {}) + bytes;
}

// Returns valid UTF-8 as code points of 32 bits; what is not valid becomes U+FFFD.
std::string text_scalar(std::string_view utf8) {
  std::string points;
  const auto put = [&](uint32_t point) {
    for (int i = 0; i < 4; ++i) points += static_cast<char>(point >> 8 * i & 0xff);
  };
  for (size_t at = 0; at < utf8.size();) {
    const auto lead = static_cast<unsigned char>(utf8[at]);
    const int length = lead < 0x80                   ? 1
                       : lead >= 0xc2 && lead < 0xe0 ? 2
                       : lead >= 0xe0 && lead < 0xf0 ? 3
                       : lead >= 0xf0 && lead < 0xf5 ? 4
                                                     : 0;
    uint32_t point = length == 1 ? lead : length == 0 ? 0 : lead & (0xffu >> (length + 1));
    bool valid = length > 0 && at + static_cast<size_t>(length) <= utf8.size();
    for (int i = 1; valid && i < length; ++i) {
      const auto next = static_cast<unsigned char>(utf8[at + static_cast<size_t>(i)]);
      valid = (next & 0xc0) == 0x80;
      point = point << 6 | (next & 0x3f);
    }
    constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
    valid = valid && point >= kLeast[length] && point < 0x110000 && (point < 0xd800 || point > 0xdfff);
    put(valid ? point : 0xfffd);
    at += valid ? static_cast<size_t>(length) : 1;
  }
  return head_of(fmt::format("<U{}", points.size() / 4), {}) + points;
}

// Returns a convention as the importer takes it.
std::string scalar_of(const nlohmann::ordered_json& value) {
  if (value.is_boolean()) return scalar("|b1", value.get<bool>());
  if (value.is_number_integer()) return scalar("<i8", value.get<int64_t>());
  return value.is_number() ? scalar("<f8", value.get<double>()) : text_scalar(value.get<std::string>());
}

void add_scalars(ZipArchive& archive, const ExportedCall& call) {
  const capture::CallFacts& facts = call.invocation().facts;
  const auto add = [&](const char* name, std::string member) {
    archive.add(fmt::format("{}.npy", name), std::move(member));
  };
  const auto add_text = [&](const char* name, const std::string& text) {
    if (!text.empty()) add(name, text_scalar(text));
  };
  if (call.call().dialects() != nullptr) {
    add_text("dialect", facts.dialect);
    add_text("padding_mode", facts.padding_mode);
    add("align_corners", scalar("|b1", facts.align_corners));
    if (call.loaded->reference() != nullptr) {
      add_text("reference_dialect", dialect_of(call.loaded->reference()->version_of(call.call())));
    }
  } else {
    add_text("operator", operator_of(call.invocation()));
    const nlohmann::ordered_json conventions = conventions_of(call.invocation());
    for (const auto& [name, value] : conventions.items()) add(name.c_str(), scalar_of(value));
  }
  if (const auto& tolerance = call.result().tolerance) {
    add("atol", scalar("<f8", tolerance->atol));
    add("rtol", scalar("<f8", tolerance->rtol));
  }
  add_text("kernel", facts.kernel);
  add_text("label", facts.label);
}

}  // namespace

void write_npz(const std::string& path, const std::string& shown, const ExportedCall& call) {
  ZipArchive archive(path, shown);
  for (const KeyedTensor& keyed : call.tensors(false)) {
    archive.add(keyed.key + ".npy", head_of(descriptor_of(keyed.tensor.dtype), keyed.tensor.shape), keyed.bytes());
  }
  add_scalars(archive, call);
  archive.close();
}

}  // namespace msda::replay
