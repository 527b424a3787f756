// What a capture says of the run as a whole: where it ran, its seeds, its kernels' code.
#include <fmt/format.h>

#include <cstring>

#include "recorder/capture/reader_impl.h"

namespace msda::capture {

using hdf5::Dataset;
using hdf5::Object;
using hdf5::Space;
using hdf5::Type;

Run Reader::run() const {
  Run run;
  if (!impl_->exists("/run")) return run;
  run.facts = impl_->texts("/run");
  run.environment = impl_->texts("/run/environment");
  run.libraries = impl_->texts("/run/libraries");
  const auto argv = impl_->attribute(impl_->open("/run"), "argv");
  if (!argv) return run;
  const Type type(H5Aget_type(argv->get()));
  const Space space(H5Aget_space(argv->get()));
  const hssize_t count = H5Sget_simple_extent_npoints(space.get());
  if (H5Tis_variable_str(type.get()) <= 0 || count < 0 || count > 65536)
    impl_->fail("/run: argv is not a list of texts");
  std::vector<char*> texts(static_cast<size_t>(count), nullptr);
  Type memory(H5Tcopy(H5T_C_S1));
  H5Tset_size(memory.get(), H5T_VARIABLE);
  H5Tset_cset(memory.get(), H5Tget_cset(type.get()));
  if (count > 0 && H5Aread(argv->get(), memory.get(), texts.data()) < 0) impl_->fail("/run: cannot read argv");
  for (char* text : texts) {
    run.argv.emplace_back(text != nullptr ? text : "");
    H5free_memory(text);
  }
  run.facts.erase("argv");
  return run;
}

std::vector<Seed> Reader::seeds() const {
  std::vector<Seed> seeds;
  if (!impl_->exists("/run/seeds")) return seeds;
  struct Record {
    char time[64];
    char source[64];
    uint64_t value;
    int64_t invocation;
  };
  Type type(H5Tcreate(H5T_COMPOUND, sizeof(Record)));
  Type text(H5Tcopy(H5T_C_S1));
  H5Tset_size(text.get(), sizeof Record::time);
  H5Tinsert(type.get(), "time", offsetof(Record, time), text.get());
  H5Tinsert(type.get(), "source", offsetof(Record, source), text.get());
  H5Tinsert(type.get(), "value", offsetof(Record, value), H5T_NATIVE_UINT64);
  std::vector<int64_t> shape;
  // The stored records are narrower than these, which the check of their size must know.
  const Dataset dataset = impl_->open_dataset("/run/seeds");
  const Type stored(H5Dget_type(dataset.get()));
  if (H5Tget_class(stored.get()) != H5T_COMPOUND) impl_->fail("/run/seeds is not a table");
  if (!hdf5::is_sound(stored.get())) impl_->fail("/run/seeds has no type that makes sense; the file is damaged");
  const bool has_invocation = H5Tget_member_index(stored.get(), "invocation") >= 0;  // not in older files
  if (has_invocation) H5Tinsert(type.get(), "invocation", offsetof(Record, invocation), H5T_NATIVE_INT64);
  impl_->checked_bytes("/run/seeds", dataset, static_cast<int64_t>(H5Tget_size(stored.get())), shape);
  if (shape.size() != 1) impl_->fail("/run/seeds is not a list");
  std::vector<Record> records(static_cast<size_t>(shape[0]));
  if (!records.empty() && H5Dread(dataset.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, records.data()) < 0) {
    impl_->fail(fmt::format("cannot read /run/seeds: {}", hdf5::last_error()));
  }
  const auto cut = [](const char* at, size_t size) { return std::string(at, strnlen(at, size)); };
  for (const Record& r : records) {
    seeds.push_back({cut(r.time, sizeof r.time), cut(r.source, sizeof r.source), r.value, std::nullopt});
    if (has_invocation && r.invocation >= 0) seeds.back().invocation = r.invocation;
  }
  return seeds;
}

std::vector<KernelImage> Reader::kernels() const {
  std::vector<KernelImage> kernels;
  for (const std::string& name : impl_->children("/kernels")) {
    const std::string path = "/kernels/" + name;
    const Object group = impl_->open(path);
    KernelImage& kernel = kernels.emplace_back();
    kernel.digest = name;
    for (const std::string& key : impl_->attribute_names(group)) {
      const Type type(H5Aget_type(impl_->attribute(group, key)->get()));
      if (H5Tget_class(type.get()) != H5T_STRING) {
        if (const auto value = impl_->integer(group, key)) kernel.facts[key] = *value;
      }
    }
    kernel.name = impl_->text(group, "name");
    kernel.architecture = impl_->text(group, "architecture");
    if (!impl_->exists(path + "/image")) continue;
    const TensorInfo info = impl_->tensor_info("image", path, nullptr);
    const Tensor image = read(info);
    kernel.image.assign(image.bytes().begin(), image.bytes().end());
  }
  return kernels;
}

}  // namespace msda::capture
