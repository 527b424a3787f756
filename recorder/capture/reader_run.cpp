// Reads what a capture says of the run as a whole: machine, seeds, the kernels' code.
#include <fmt/format.h>

#include <cstring>

#include "recorder/capture/reader_impl.h"

namespace msda::capture {

using hdf5::Space;
using hdf5::Type;

Run Reader::run() const {
  Run run;
  const auto group = impl_->open_subgroup(impl_->open_group("/"), "run");
  if (!group) return run;
  run.facts = impl_->texts(*group);
  run.environment = impl_->texts(*group, "environment");
  run.libraries = impl_->texts(*group, "libraries");
  const auto argv = impl_->attribute(*group, "argv");
  if (!argv) return run;
  const Type type(H5Aget_type(argv->get()));
  const Space space(H5Aget_space(argv->get()));
  const hssize_t count = H5Sget_simple_extent_npoints(space.get());
  if (H5Tis_variable_str(type.get()) <= 0 || count < 0 || count > 65536)
    impl_->fail_attribute(*group, "argv", "is not a list of texts");
  std::vector<char*> texts(static_cast<size_t>(count), nullptr);
  Type memory(H5Tcopy(H5T_C_S1));
  H5Tset_size(memory.get(), H5T_VARIABLE);
  H5Tset_cset(memory.get(), H5Tget_cset(type.get()));
  if (count > 0 && H5Aread(argv->get(), memory.get(), texts.data()) < 0) {
    impl_->fail_attribute(*group, "argv", "cannot be read: " + hdf5::last_error());
  }
  for (char* text : texts) {
    run.argv.emplace_back(text != nullptr ? text : "");
    H5free_memory(text);
  }
  run.facts.erase("argv");
  return run;
}

std::vector<Seed> Reader::seeds() const {
  std::vector<Seed> seeds;
  const auto run = impl_->open_subgroup(impl_->open_group("/"), "run");
  if (!run || !run->has("seeds")) return seeds;
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
  // The stored records are narrower than the ones in memory; the check of their size needs the stored width.
  const Node dataset = impl_->open_dataset("/run/seeds");
  const Type stored(H5Dget_type(dataset.get()));
  if (H5Tget_class(stored.get()) != H5T_COMPOUND) impl_->fail("/run/seeds is not a table");
  if (!hdf5::is_sound(stored.get())) impl_->fail_damaged("/run/seeds has no type that makes sense");
  const bool has_invocation = H5Tget_member_index(stored.get(), "invocation") >= 0;  // not in older files
  if (has_invocation) H5Tinsert(type.get(), "invocation", offsetof(Record, invocation), H5T_NATIVE_INT64);
  impl_->checked_bytes("/run/seeds", dataset.get(), static_cast<int64_t>(H5Tget_size(stored.get())), shape);
  if (shape.size() != 1) impl_->fail("/run/seeds is not a list");
  std::vector<Record> records(static_cast<size_t>(shape[0]));
  if (!records.empty() && H5Dread(dataset.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, records.data()) < 0) {
    impl_->fail_damaged(fmt::format("cannot read /run/seeds: {}", hdf5::last_error()));
  }
  const auto cut = [](const char* at, size_t size) { return std::string(at, strnlen(at, size)); };
  for (const Record& r : records) {
    seeds.push_back({cut(r.time, sizeof r.time), cut(r.source, sizeof r.source), r.value, std::nullopt});
    if (has_invocation && r.invocation >= 0) seeds.back().invocation = r.invocation;
  }
  return seeds;
}

std::vector<SurveyedKernel> Reader::survey() const {
  std::vector<SurveyedKernel> kernels;
  const auto all = impl_->open_subgroup(impl_->open_group("/"), "survey");
  for (const std::string& name : all ? all->members() : std::vector<std::string>()) {
    const Group group = *impl_->open_subgroup(*all, name);
    kernels.push_back({impl_->texts(group), impl_->integers(group), impl_->reals(group)});
  }
  return kernels;
}

std::vector<KernelImage> Reader::kernels() const {
  std::vector<KernelImage> kernels;
  const auto all = impl_->open_subgroup(impl_->open_group("/"), "kernels");
  for (const std::string& name : all ? all->members() : std::vector<std::string>()) {
    const Group group = *impl_->open_subgroup(*all, name);
    KernelImage& kernel = kernels.emplace_back();
    kernel.digest = name.substr(0, name.find(kFunctionSeparator));
    kernel.facts = impl_->integers(group);
    kernel.name = impl_->text(group, "name");
    kernel.architecture = impl_->text(group, "architecture");
    if (!group.has("image")) continue;
    const Node dataset = impl_->open_member(group, "image");
    const Tensor image = impl_->read(dataset, impl_->tensor_info(dataset, nullptr));
    kernel.image = std::vector<std::byte>(image.bytes().begin(), image.bytes().end());
  }
  return kernels;
}

}  // namespace msda::capture
