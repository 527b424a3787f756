// Writes stages: tensors that arrive in parts, and their summaries.
#include <fmt/format.h>

#include "recorder/capture/writer_impl.h"

namespace msda::capture {

using hdf5::Space;

void Writer::begin_stage(const std::string& stage, msda_dtype type, const std::vector<int64_t>& shape) {
  const std::string name = impl_->stage_path(stage);
  impl_->group(name);
  auto data = impl_->empty_dataset(name + "/full", hdf5::file_type(type).get(), shape,
                                   Impl::dimensions_of(find_stage(stage), shape));
  impl_->open_stages[stage] = {std::move(data), type, shape};
}

void Writer::add_stage_part(const std::string& stage, const std::vector<int64_t>& offset, const TensorView& part) {
  const Impl::OpenStage& open = impl_->open_stage(stage);
  const std::string name = impl_->stage_path(stage) + "/full";
  impl_->check_size(name, part);
  bool inside = part.type == open.type && offset.size() == open.shape.size() && part.shape.size() == open.shape.size();
  for (size_t i = 0; inside && i < offset.size(); ++i) {
    inside = offset[i] >= 0 && offset[i] <= open.shape[i] && part.shape[i] <= open.shape[i] - offset[i];
  }
  if (!inside) throw Error(fmt::format("{}: a part of {} is no part of it", impl_->path, name));
  if (part.bytes.empty()) return;
  const std::vector<hsize_t> start(offset.begin(), offset.end()), count(part.shape.begin(), part.shape.end());
  const Space in_file(H5Dget_space(open.dataset.get()));
  const Space in_memory(H5Screate_simple(static_cast<int>(count.size()), count.data(), nullptr));
  impl_->check(H5Sselect_hyperslab(in_file.get(), H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr),
               "select a part of " + name);
  impl_->check(H5Dwrite(open.dataset.get(), hdf5::file_type(open.type).get(), in_memory.get(), in_file.get(),
                        H5P_DEFAULT, part.bytes.data()),
               "write " + name);
}

void Writer::end_stage(const std::string& stage) {
  const Impl::OpenStage& open = impl_->open_stage(stage);
  const std::string name = impl_->stage_path(stage) + "/full";
  const auto found = hdf5::digest_of(open.dataset.get(), hdf5::file_type(open.type).get(), open.shape);
  if (!found) impl_->fail("read back " + name);
  impl_->attribute(open.dataset.get(), "digest", *found);
  impl_->open_stages.erase(stage);
}

void Writer::add_stage_facts(const std::string& stage, const StageFacts& facts) {
  const std::string name = impl_->stage_path(stage);
  const hdf5::Group group = impl_->group(name);
  const auto write_fields_to = [this](const hdf5::Group& to) {
    return [&](const char* field_name, const auto& field) { impl_->field(to.get(), field_name, field); };
  };
  impl_->attribute(group.get(), "arithmetic", facts.arithmetic);
  for_each_summary_attribute(facts.summary, write_fields_to(group));
  if (!facts.float64) return;
  const hdf5::Group beside = impl_->group(name + "/float64");
  for_each_summary_attribute(facts.float64->summary, write_fields_to(beside));
  for_each_difference_attribute(*facts.float64, write_fields_to(beside));
}

void Writer::drop_stages() {
  impl_->open_stages.clear();
  const std::string name = impl_->current + "/stages";
  if (impl_->current.empty() || H5Lexists(impl_->file.get(), name.c_str(), H5P_DEFAULT) <= 0) return;
  impl_->check(H5Ldelete(impl_->file.get(), name.c_str(), H5P_DEFAULT), "delete " + name);
}

}  // namespace msda::capture
