#include "recorder/capture/writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <ctime>

#include "recorder/capture/call_attributes.h"
#include "recorder/capture/writer_impl.h"

namespace msda::capture {

using hdf5::Dataset;
using hdf5::File;
using hdf5::Properties;
using hdf5::Space;
using hdf5::Type;

namespace {

// Datasets of at least this size begin at a page boundary of the file.
constexpr hsize_t kAlignedFrom = 1 << 16, kPage = 4096;

std::string now() {
  const std::time_t seconds = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

struct SeedRecord {
  char time[32];
  char source[24];
  uint64_t value;
  int64_t invocation;
};

void copy_text(std::string_view from, std::span<char> to) {
  std::memset(to.data(), 0, to.size());
  std::memcpy(to.data(), from.data(), std::min(from.size(), to.size() - 1));
}

// Seeds as one table: packed, so that its bytes in memory are its bytes in the file.
Type seed_type() {
  Type type(H5Tcreate(H5T_COMPOUND, sizeof(SeedRecord)));
  const auto text = [](size_t size) {
    Type fixed(H5Tcopy(H5T_C_S1));
    H5Tset_size(fixed.get(), size);
    H5Tset_strpad(fixed.get(), H5T_STR_NULLPAD);
    return fixed;
  };
  H5Tinsert(type.get(), "time", offsetof(SeedRecord, time), text(sizeof SeedRecord::time).get());
  H5Tinsert(type.get(), "source", offsetof(SeedRecord, source), text(sizeof SeedRecord::source).get());
  H5Tinsert(type.get(), "value", offsetof(SeedRecord, value), H5T_STD_U64LE);
  H5Tinsert(type.get(), "invocation", offsetof(SeedRecord, invocation), H5T_STD_I64LE);
  return type;
}

}  // namespace

Writer::Writer(const std::string& path, IfExists if_exists, const std::string& tool_version)
    : impl_(std::make_unique<Impl>(path, if_exists == IfExists::kReplace)) {
  hdf5::silence();
  const Properties access(H5Pcreate(H5P_FILE_ACCESS));
  H5Pset_fapl_sec2(access.get());  // its handle is a descriptor; the environment may set another default driver
  // Tensors that begin at a page boundary are written by copying whole pages.
  H5Pset_alignment(access.get(), kAlignedFrom, kPage);
  const std::string name = impl_->output.by_descriptor();
  impl_->file = impl_->checked(File(H5Fcreate(name.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access.get())), "create it");
  const hid_t root = impl_->file.get();
  impl_->attribute(root, "format", std::string(kFormat));
  impl_->attribute(root, "format_version", kFormatVersion);
  impl_->attribute(root, "about", std::string(kAbout));
  impl_->attribute(root, "format_page", std::string(kFormatPage));
  impl_->attribute(root, "tool_version", tool_version);
  impl_->attribute(root, "created", now());
  impl_->group("/invocations");
  flush();
  // Done now, not before: HDF5 has truncated the file, and ext4 writes all of such a file to the disk when it is next
  // closed, as its first opening is here.
  void* descriptor = nullptr;
  impl_->check(H5Fget_vfd_handle(root, H5P_DEFAULT, &descriptor), "look at it");
  impl_->output.become(*static_cast<const int*>(descriptor));
}

Writer::Writer(Writer&&) noexcept = default;
Writer::~Writer() = default;

void Writer::write_verdict(const std::string& verdict) { impl_->attribute(impl_->file.get(), "verdict", verdict); }

void Writer::write_run(const Run& run, const std::vector<Seed>& seeds) {
  const hdf5::Group group = impl_->group("/run");
  impl_->attribute(group.get(), "argv", run.argv);
  impl_->attributes(group.get(), run.facts);
  impl_->attributes(impl_->group("/run/environment").get(), run.environment);
  impl_->attributes(impl_->group("/run/libraries").get(), run.libraries);
  std::vector<SeedRecord> records(seeds.size());
  for (size_t i = 0; i < seeds.size(); ++i) {
    copy_text(seeds[i].time, records[i].time);
    copy_text(seeds[i].source, records[i].source);
    records[i].value = seeds[i].value;
    records[i].invocation = seeds[i].invocation.value_or(-1);
  }
  static constexpr std::string_view kSeedDimension[] = {"seed"};
  impl_->dataset("/run/seeds", seed_type().get(), {static_cast<int64_t>(records.size())},
                 std::as_bytes(std::span(records)), kSeedDimension);
}

void Writer::write_survey(const std::vector<SurveyedKernel>& kernels) {
  for (size_t i = 0; i < kernels.size(); ++i) {
    const hdf5::Group group = impl_->group(fmt::format("/survey/{:06}", i));
    impl_->attributes(group.get(), kernels[i].texts);
    for (const auto& [name, value] : kernels[i].integers) impl_->attribute(group.get(), name, value);
    for (const auto& [name, value] : kernels[i].numbers) impl_->attribute(group.get(), name, value);
  }
}

std::string Writer::Impl::path_of_kernel(const std::string& digest, const std::string& name) const {
  const auto with_image = functions_with_image.find(digest);
  const bool has_image = with_image != functions_with_image.end() && with_image->second == name;
  return "/kernels/" + digest + (has_image ? "" : kFunctionSeparator + name);
}

void Writer::add_kernel(const KernelImage& kernel) {
  const bool brings_image =
      !kernel.image.empty() && impl_->functions_with_image.try_emplace(kernel.digest, kernel.name).second;
  if (!brings_image && kernel.name.find('/') != kernel.name.npos) return;  // no name of a group
  const std::string name = impl_->path_of_kernel(kernel.digest, kernel.name);
  const hdf5::Group group = impl_->group(name);
  impl_->attribute(group.get(), "name", kernel.name);
  impl_->attribute(group.get(), "architecture", kernel.architecture);
  for (const auto& [key, value] : kernel.facts) impl_->attribute(group.get(), key, value);
  if (!brings_image) return;
  static constexpr std::string_view kByte[] = {"byte"};
  impl_->dataset(name + "/image", H5T_STD_U8LE, {static_cast<int64_t>(kernel.image.size())}, kernel.image, kByte);
}

int64_t Writer::begin_invocation(const CallFacts& facts, const Parameters& parameters) {
  const int64_t id = impl_->invocations++;
  continue_invocation(id);
  write_facts(facts, parameters);
  for (const char* name : {"/inputs", "/outputs"}) impl_->group(impl_->current + name);
  return id;
}

void Writer::continue_invocation(int64_t invocation) {
  impl_->open_stages.clear();
  impl_->current = fmt::format("/invocations/{:06}", invocation);
}

void Writer::reopen_invocation(int64_t invocation, const CallFacts& facts, const Parameters& parameters) {
  continue_invocation(invocation);
  write_facts(facts, parameters);
}

void Writer::share(int64_t invocation, const std::string& section) {
  const std::string from = fmt::format("/invocations/{:06}/{}", invocation, section);
  if (H5Lexists(impl_->file.get(), from.c_str(), H5P_DEFAULT) <= 0) return;
  const hdf5::Group source = impl_->group(from), target = impl_->group(impl_->current + "/" + section);
  H5G_info_t info{};
  impl_->check(H5Gget_info(source.get(), &info), "read " + from);
  for (hsize_t i = 0; i < info.nlinks; ++i) {
    char name[256] = {};
    if (H5Lget_name_by_idx(source.get(), ".", H5_INDEX_NAME, H5_ITER_INC, i, name, sizeof name, H5P_DEFAULT) < 0 ||
        H5Lcreate_hard(source.get(), name, target.get(), name, H5P_DEFAULT, H5P_DEFAULT) < 0) {
      impl_->fail("link what " + from + " holds");
    }
  }
}

void Writer::write_facts(const CallFacts& facts, const Parameters& parameters) {
  const hdf5::Group group = impl_->group(impl_->current);
  const hid_t at = group.get();
  impl_->has_dialect = !facts.dialect.empty();
  const auto write = [&](const char* name, const auto& fact) { impl_->fact(at, name, fact); };
  for_each_call_attribute(facts, write);
  if (impl_->has_dialect) for_each_convention(facts, write);
  const auto is_free = [&](const std::string& name) {
    return !is_call_attribute(name, impl_->has_dialect) && H5Aexists(at, name.c_str()) == 0;
  };
  for_each_type(facts, [&](const auto& values) {
    for (const auto& [name, value] : values) {
      if (is_free(name)) impl_->attribute(at, name, value);
    }
  });
  if (!parameters.bytes.empty()) {
    static constexpr std::string_view kByte[] = {"byte"};
    const Dataset data = impl_->dataset(impl_->current + "/parameters", H5T_STD_U8LE,
                                        {static_cast<int64_t>(parameters.bytes.size())}, parameters.bytes, kByte);
    impl_->attribute(data.get(), "offsets", parameters.offsets);
    impl_->attribute(data.get(), "sizes", parameters.sizes);
  }
}

void Writer::add_input(const TensorView& tensor) { impl_->tensor(impl_->current + "/inputs", tensor); }

void Writer::add_output_before(const TensorView& tensor) {
  impl_->group(impl_->current + "/outputs_before");
  impl_->tensor(impl_->current + "/outputs_before", tensor);
}

void Writer::add_output(const TensorView& tensor) { impl_->tensor(impl_->current + "/outputs", tensor); }

void Writer::add_digests(const std::map<std::string, std::string>& digests) {
  if (digests.empty()) return;
  impl_->attributes(impl_->group(impl_->current + "/digests").get(), digests);
}

void Writer::add_result(const ResultFacts& facts, const std::vector<TensorView>& tensors) {
  const std::string name = impl_->current + "/results/" + facts.name;
  const hdf5::Group group = impl_->group(name);
  impl_->attribute(group.get(), "role", facts.role);
  impl_->text_if_any(group.get(), "dialect", facts.dialect);
  for (const TensorView& tensor : tensors) impl_->tensor(name, tensor);
}

std::vector<std::byte> Writer::read_input(int64_t invocation, const std::string& name) const {
  const std::string path = fmt::format("/invocations/{:06}/inputs/{}", invocation, name);
  const auto data = impl_->checked(Dataset(H5Dopen2(impl_->file.get(), path.c_str(), H5P_DEFAULT)), "open " + path);
  const Type type(H5Dget_type(data.get()));
  const Space space(H5Dget_space(data.get()));
  std::vector<std::byte> bytes(static_cast<size_t>(H5Sget_simple_extent_npoints(space.get())) *
                               H5Tget_size(type.get()));
  impl_->check(H5Dread(data.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes.data()), "read " + path);
  return bytes;
}

void Writer::set_conventions(int64_t invocation, const std::string& padding_mode, bool align_corners) {
  const hdf5::Group group = impl_->group(fmt::format("/invocations/{:06}", invocation));
  impl_->attribute(group.get(), "padding_mode", padding_mode);
  impl_->attribute(group.get(), "align_corners", align_corners);
  if (H5Aexists(group.get(), kFittingConventions) > 0) {
    impl_->check(H5Adelete(group.get(), kFittingConventions), fmt::format("delete {}", kFittingConventions));
  }
}

void Writer::set_duplicates(int64_t invocation, int64_t duplicates, int64_t distinct_outputs) {
  const hdf5::Group group = impl_->group(fmt::format("/invocations/{:06}", invocation));
  impl_->attribute(group.get(), "duplicates", duplicates);
  impl_->attribute(group.get(), "distinct_outputs", distinct_outputs);
}

void Writer::flush() {
  impl_->check(H5Fflush(impl_->file.get(), H5F_SCOPE_GLOBAL), "flush");
  if (impl_->invocations > 0) impl_->output.publish();
}

bool Writer::reserve(int64_t bytes, int64_t spared) {
  flush();
  haddr_t end = 0;
  impl_->check(H5Fget_eoa(impl_->file.get(), &end), "look at its size");
  const bool room = impl_->output.reserve(end, bytes, spared);
  impl_->reserved = impl_->reserved || room;
  return room;
}

void Writer::close() {
  impl_->open_stages.clear();
  flush();
  write_contents();
  haddr_t end = 0;
  const bool cut = impl_->reserved && H5Fget_eoa(impl_->file.get(), &end) >= 0;
  impl_->file = File();
  if (cut) impl_->output.cut(end);
  impl_->output.unlock();
  impl_->output.publish();
  const std::string& path = impl_->output.path();
  if (impl_->output.is_in_place() || impl_->output.put_back_at(path)) return;
  const std::string kept = path + ".kept";
  if (impl_->output.put_back_at(kept)) {
    throw Displaced(fmt::format("{}: is another file now; what was recorded is in {}", path, kept));
  }
  throw Error(path + ": is not the file any more that was written there; what was written is lost");
}

bool Writer::was_disturbed() const { return impl_->output.was_disturbed(); }

void Writer::discard() { impl_->output.withdraw(); }

}  // namespace msda::capture
