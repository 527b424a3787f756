// Internal to the writer: objects, attributes and datasets of one file. Every function throws capture::Error.
#pragma once

#include <fmt/format.h>

#include <cstring>
#include <future>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "recorder/capture/digest.h"
#include "recorder/capture/hdf5.h"
#include "recorder/capture/output_file.h"
#include "recorder/capture/writer.h"

namespace msda::capture {

inline hdf5::Type string_type() {
  hdf5::Type type(H5Tcopy(H5T_C_S1));
  H5Tset_size(type.get(), H5T_VARIABLE);
  H5Tset_cset(type.get(), H5T_CSET_UTF8);
  return type;
}

// Returns the type as which h5py writes a bool.
inline hdf5::Type bool_type() {
  hdf5::Type type(H5Tenum_create(H5T_STD_I8LE));
  int8_t value = 0;
  H5Tenum_insert(type.get(), "FALSE", &value);
  value = 1;
  H5Tenum_insert(type.get(), "TRUE", &value);
  return type;
}

// How a dataset's bytes are stored, if libhdf5 can do that here. Shuffled: all first bytes of its elements, all second
// ones, ..., which makes lists of small numbers shorter.
enum class Packing { kNone, kDeflated, kShuffled };

struct Writer::Impl {
  OutputFile output;
  const std::string& path;
  hdf5::File file;
  int64_t invocations = 0;
  std::string current;       // path of the open invocation
  bool has_dialect = false;  // of that: its tensors are the operator's
  struct OpenStage {
    hdf5::Dataset dataset;
    msda_dtype type;
    std::vector<int64_t> shape;
  };
  std::map<std::string, OpenStage> open_stages;
  std::map<std::string, std::string> functions_with_image;  // by its digest
  bool reserved = false;                                    // the file may be longer than HDF5 needs it
  mutable bool broken = false;

  Impl(const std::string& to, bool replace) : output(to, replace), path(output.path()) {}
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  // After an error the file is left as by a crash: correct up to the last flush. libhdf5 would try to write the rest,
  // and on a full disk leave an unreadable file, or crash.
  ~Impl() {
    if (!broken) return;
    for (auto& [stage, open] : open_stages) open.dataset.forget();
    file.forget();
  }

  [[noreturn]] void fail(const std::string& doing) const {
    broken = true;
    const std::string why = hdf5::last_error();
    throw Error(fmt::format("{}: cannot {}{}{}; is the disk full?", path, doing, why.empty() ? "" : ": ", why));
  }

  template <class H>
  H checked(H handle, const std::string& doing) const {
    if (!handle.valid()) fail(doing);
    return handle;
  }
  void check(herr_t status, const std::string& doing) const {
    if (status < 0) fail(doing);
  }

  // Returns where a function's facts are: those of the function that brought the image are beside it.
  std::string path_of_kernel(const std::string& digest, const std::string& name) const;

  hdf5::Group group(const std::string& name) const {
    hdf5::Properties parents(H5Pcreate(H5P_LINK_CREATE));
    H5Pset_create_intermediate_group(parents.get(), 1);
    if (H5Lexists(file.get(), name.c_str(), H5P_DEFAULT) > 0) {
      return checked(hdf5::Group(H5Gopen2(file.get(), name.c_str(), H5P_DEFAULT)), "open group " + name);
    }
    return checked(hdf5::Group(H5Gcreate2(file.get(), name.c_str(), parents.get(), H5P_DEFAULT, H5P_DEFAULT)),
                   "create group " + name);
  }

  void write_attribute(hid_t object, const std::string& name, hid_t type, const std::vector<hsize_t>& shape,
                       const void* value) const {
    const hdf5::Space space(shape.empty() ? H5Screate(H5S_SCALAR)
                                          : H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr));
    if (H5Aexists(object, name.c_str()) > 0) check(H5Adelete(object, name.c_str()), "replace attribute " + name);
    const auto attribute =
        checked(hdf5::Attribute(H5Acreate2(object, name.c_str(), type, space.get(), H5P_DEFAULT, H5P_DEFAULT)),
                "create attribute " + name);
    static constexpr char kNothing = 0;  // HDF5 requires a pointer even for no values
    check(H5Awrite(attribute.get(), type, value != nullptr ? value : &kNothing), "write attribute " + name);
  }
  void attribute(hid_t object, const std::string& name, const std::string& value) const {
    const char* text = value.c_str();
    write_attribute(object, name, string_type().get(), {}, &text);
  }
  void attribute(hid_t object, const std::string& name, int64_t value) const {
    write_attribute(object, name, H5T_STD_I64LE, {}, &value);
  }
  void attribute(hid_t object, const std::string& name, double value) const {
    write_attribute(object, name, H5T_IEEE_F64LE, {}, &value);
  }
  void attribute(hid_t object, const std::string& name, bool value) const {
    const int8_t byte = value;
    write_attribute(object, name, bool_type().get(), {}, &byte);
  }
  void attribute(hid_t object, const std::string& name, const std::vector<std::string>& values) const {
    std::vector<const char*> texts;
    for (const std::string& value : values) texts.push_back(value.c_str());
    write_attribute(object, name, string_type().get(), {texts.size()}, texts.data());
  }
  void attribute(hid_t object, const std::string& name, std::span<const int64_t> values) const {
    write_attribute(object, name, H5T_STD_I64LE, {values.size()}, values.data());
  }
  template <class T>
  void attribute(hid_t object, const std::string& name, const std::optional<T>& value) const {
    if (value) attribute(object, name, *value);
  }
  void attributes(hid_t object, const std::map<std::string, std::string>& values) const {
    for (const auto& [name, value] : values) attribute(object, name, value);
  }
  void text_if_any(hid_t object, const std::string& name, const std::string& value) const {
    if (!value.empty()) attribute(object, name, value);
  }

  // Writes one of the attributes of call_attributes.h; `kernel` is written even if the name is unknown.
  void fact(hid_t object, const std::string& name, const std::string& value) const {
    if (!value.empty() || name == "kernel") attribute(object, name, value);
  }
  void fact(hid_t object, const std::string&, const std::optional<RecordedTolerance>& tolerance) const {
    if (!tolerance) return;
    attribute(object, "atol", tolerance->atol);
    attribute(object, "rtol", tolerance->rtol);
  }
  template <class T>
  void fact(hid_t object, const std::string& name, const T& value) const {
    attribute(object, name, value);
  }

  // Chooses chunks of 1 MiB, along the first dimension that has so much.
  hdf5::Properties layout_of(const std::vector<hsize_t>& sizes, hid_t type, Packing packing) const {
    constexpr hsize_t kChunk = 1 << 20;
    const hsize_t worth_it = packing == Packing::kShuffled ? 1 << 10 : 1 << 14;
    hdf5::Properties layout(H5Pcreate(H5P_DATASET_CREATE));
    hsize_t bytes = H5Tget_size(type);
    for (const hsize_t size : sizes) bytes *= size;
    if (packing == Packing::kNone || bytes < worth_it || H5Zfilter_avail(H5Z_FILTER_DEFLATE) <= 0) return layout;
    std::vector<hsize_t> chunk = sizes;
    for (hsize_t& side : chunk) {
      if (bytes <= kChunk) break;
      const hsize_t row = bytes / side;
      side = std::clamp<hsize_t>(kChunk / row, 1, side);
      bytes = side * row;
    }
    check(H5Pset_chunk(layout.get(), static_cast<int>(chunk.size()), chunk.data()), "set chunks");
    if (packing == Packing::kShuffled) check(H5Pset_shuffle(layout.get()), "shuffle");
    check(H5Pset_deflate(layout.get(), 6), "compress");
    return layout;
  }

  // Creates a dataset without data and digest.
  hdf5::Dataset empty_dataset(const std::string& name, hid_t type, const std::vector<int64_t>& shape,
                              std::span<const std::string_view> dimensions, Packing packing = Packing::kNone) const {
    const std::vector<hsize_t> sizes(shape.begin(), shape.end());
    const hdf5::Properties layout = layout_of(sizes, type, packing);
    const hdf5::Space space(sizes.empty() ? H5Screate(H5S_SCALAR)
                                          : H5Screate_simple(static_cast<int>(sizes.size()), sizes.data(), nullptr));
    if (H5Lexists(file.get(), name.c_str(), H5P_DEFAULT) > 0) {  // HDF5 reuses the old one's place
      check(H5Ldelete(file.get(), name.c_str(), H5P_DEFAULT), "replace " + name);
    }
    auto data = checked(
        hdf5::Dataset(H5Dcreate2(file.get(), name.c_str(), type, space.get(), H5P_DEFAULT, layout.get(), H5P_DEFAULT)),
        "create " + name);
    for (size_t i = 0; i < dimensions.size(); ++i) {
      check(H5DSset_label(data.get(), static_cast<unsigned>(i), std::string(dimensions[i]).c_str()), "label " + name);
    }
    return data;
  }

  hdf5::Dataset dataset(const std::string& name, hid_t type, const std::vector<int64_t>& shape,
                        std::span<const std::byte> bytes, std::span<const std::string_view> dimensions,
                        Packing packing = Packing::kNone) const {
    auto data = empty_dataset(name, type, shape, dimensions, packing);
    // Computed in parallel with the writing, which takes longer; after it, if no thread can be started.
    constexpr size_t kWorthAThread = 1 << 20;
    const auto policy = std::launch::deferred | (bytes.size() < kWorthAThread ? std::launch{} : std::launch::async);
    std::future<std::string> digest_of_bytes = std::async(policy, [bytes] { return digest(bytes); });
    if (!bytes.empty()) check(H5Dwrite(data.get(), type, H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes.data()), "write " + name);
    attribute(data.get(), "digest", digest_of_bytes.get());
    return data;
  }

  void check_size(const std::string& name, const TensorView& tensor) const {
    int64_t bytes = kernels::bytes_of(tensor.type);
    for (const int64_t size : tensor.shape) {
      if (size < 0 || __builtin_mul_overflow(bytes, size, &bytes)) throw Error(path + ": " + name + ": absurd shape");
    }
    if (bytes != static_cast<int64_t>(tensor.bytes.size())) {
      throw Error(fmt::format("{}: {} has {} bytes, its shape wants {}", path, name, tensor.bytes.size(), bytes));
    }
  }

  static std::span<const std::string_view> dimensions_of(const TensorSchema* schema,
                                                         const std::vector<int64_t>& shape) {
    if (schema == nullptr || schema->dimensions.size() != shape.size()) return {};
    return schema->dimensions;
  }

  void tensor(const std::string& where, const TensorView& tensor) const {
    if (current.empty()) throw Error(path + ": a tensor was added before the first invocation began");
    const std::string name = where + "/" + tensor.name;
    check_size(name, tensor);
    const auto data = dataset(name, hdf5::file_type(tensor.type).get(), tensor.shape, tensor.bytes,
                              dimensions_of(has_dialect ? find_tensor(tensor.name) : nullptr, tensor.shape),
                              tensor.packed ? Packing::kDeflated : Packing::kNone);
    if (!tensor.strides.empty()) attribute(data.get(), "strides", std::span<const int64_t>(tensor.strides));
  }

  std::string stage_path(const std::string& stage) const {
    if (current.empty()) throw Error(path + ": a stage was added before the first invocation began");
    return current + "/stages/" + stage;
  }
  OpenStage& open_stage(const std::string& stage) {
    const auto found = open_stages.find(stage);
    if (found == open_stages.end()) throw Error(path + ": " + stage_path(stage) + " was not begun");
    return found->second;
  }

  // Writes a field of a stage's summary.
  void field(hid_t object, const std::string& name, const std::optional<Extreme>& extreme) const {
    if (!extreme) return;
    attribute(object, name, extreme->value);
    attribute(object, name + "_index", std::span<const int64_t>(extreme->index));
  }
  template <class T>
  void field(hid_t object, const std::string& name, const T& value) const {
    attribute(object, name, value);
  }
};

}  // namespace msda::capture
