#include "replay/original/original.h"

#include <fmt/format.h>
#include <unistd.h>

#include <charconv>

#include "recorder/device/ptx.h"
#include "replay/base/errors.h"
#include "replay/original/kernels_ptx.h"
#include "replay/original/poison_judge.h"
#include "replay/original/poison_orders.h"
#include "replay/original/poisoned_launch.h"
#include "replay/original/repeated_launch.h"

namespace msda::replay {

namespace {

constexpr double kGiB = 0x1p30;

// Returns room for the lowest and the highest result of each setting: in memory, or in the folder of --poison-folder.
KeptResults room_for(const Options& options, const std::vector<PoisonSetting>& settings,
                     const std::vector<PoisonedOutput>& outputs) {
  uint64_t bytes = 0;
  for (const PoisonedOutput& output : outputs) bytes += output.before.size();
  const uint64_t kept = 2 * settings.size() * bytes;
  // The outputs before the launch and after the first; those of a setting as they arrive; and what one is filled with.
  const uint64_t beside = 8 * bytes;
  const bool in_file = !options.poison_folder.empty();
  const uint64_t needed = in_file ? beside : kept + 2 * bytes;
  const auto memory = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  if (needed <= memory / 2) return in_file ? KeptResults(options.poison_folder, kept) : KeptResults();
  throw CannotRelaunch(fmt::format(
      "--poison would keep {:.1f} GiB of results in memory, more than half of this machine's; {}give it a smaller "
      "problem (msda-replay minimize)",
      static_cast<double>(needed) / kGiB,
      in_file ? ""
              : fmt::format("name a folder with {:.1f} GiB of room by --poison-folder, or ",
                            static_cast<double>(kept) / kGiB)));
}

}  // namespace

Original::Original(const Options& options, const capture::IsolatedReader& reader)
    : options_(options), reader_(reader), choice_(chosen_original(options)) {}

Original::Outcome Original::run(const capture::Invocation& invocation, std::chrono::steady_clock::time_point begun,
                                const std::function<void(const std::string&)>& report) {
  const bool asked = choice_.wanted == OriginalChoice::kAsked;
  if (choice_.wanted == OriginalChoice::kNo || (!asked && !is_launch(invocation))) return {};
  std::string why;
  try {
    report("original");
    if (asked) open();  // what the machine lacks is reported before what the capture lacks
    Outcome outcome;
    const Relaunch planned = plan(invocation);
    if (options_
            .poison) {  // first: it has time limits, and scratch memory that is not the recorded one may hang a kernel
      report("original, poisoned");
      outcome.poison = poison(invocation, planned);
    }
    outcome.result = prepare(planned).run(options_.repeat, begun, report);
    return outcome;
  } catch (const CannotRelaunch& e) {
    why = e.what();
  } catch (const gpu::Failure& e) {
    why = e.what();
    // After an invalid access of a kernel the context, and what was loaded into it, cannot be used any more.
    if (device_ && device_->driver().synchronize(device_->stream()) != 0) {
      no_device_ = fmt::format("the device failed on invocation {}: {}", invocation.id, why);
    }
  }
  if (!asked) return {std::nullopt, std::nullopt, why};
  throw Unavailable(fmt::format("{}: invocation {}: {}: {}", options_.capture, invocation.id,
                                options_.device == "auto" ? "--mode original" : "--device " + options_.device, why));
}

// Opens the driver and the device, and loads our own kernels.
void Original::open() {
  if (!no_device_.empty()) throw CannotRelaunch(no_device_);
  if (device_) return;
  try {
    device_.emplace(choice_.device);
    tools_.digest = device_->function(device_->load(record::kDigestPtx), record::kDigestKernel);
    tools_.extremes = device_->function(device_->load(kExtremesPtx), kExtremesKernel);
  } catch (const gpu::Failure& e) {
    no_device_ = fmt::format("relaunching the recorded machine code needs a CUDA device: {}", e.what());
    throw CannotRelaunch(no_device_);
  }
}

Relaunch Original::plan(const capture::Invocation& invocation) {
  if (!kernels_) kernels_ = reader_.kernels();
  Relaunch plan =
      plan_relaunch(invocation, *kernels_, options_.poison ? UnknownMemory::kScratch : UnknownMemory::kRefuse);
  if (!options_.kernel_digest.empty()) change_code(plan, invocation, reader_, *kernels_, options_.kernel_digest);
  if (choice_.block) change_block(plan, invocation, reader_, *choice_.block);
  return plan;
}

// A cubin runs on devices of its major version, from its minor version on.
void Original::check_architecture(const capture::KernelImage& code) const {
  int of_code = 0;
  const std::string& text = code.architecture;
  const bool known =
      text.starts_with("sm_") && std::from_chars(text.data() + 3, text.data() + text.size(), of_code).ec == std::errc();
  const int of_device = device_->architecture();
  if (!known || (of_code / 10 == of_device / 10 && of_code <= of_device)) return;
  throw CannotRelaunch(fmt::format("its machine code is for {}, and device {} ({}) is sm_{}: it runs on no other", text,
                                   choice_.device, device_->name(), of_device));
}

// Loads the code.
RepeatedLaunch Original::prepare(const Relaunch& plan) {
  open();
  check_architecture(plan.code);
  gpu::Module& module = modules_[plan.code.digest];
  if (module == nullptr) {
    try {
      module = device_->load(plan.code.image.data());
    } catch (const gpu::Failure& e) {
      if (e.result != gpu::kNoBinaryForGpu) throw;
      throw CannotRelaunch(fmt::format("its machine code does not run on device {} ({}, sm_{}): {}", choice_.device,
                                       device_->name(), device_->architecture(), e.what()));
    }
  }
  const RepeatedLaunch::Tools tools{tools_.digest, tools_.extremes};
  return RepeatedLaunch(*device_, tools, device_->function(module, plan.kernel.c_str()), plan, reader_);
}

PoisonResult Original::poison(const capture::Invocation& invocation, const Relaunch& plan) {
  const std::vector<PoisonSetting> settings = poison_settings(plan);
  std::vector<PoisonedOutput> outputs;
  for (size_t i = 0; i < plan.buffers.size(); ++i) {
    const Buffer& buffer = plan.buffers[i];
    if (!buffer.is_output) continue;
    const capture::Tensor before = reader_.read(*buffer.before);
    outputs.push_back(
        {*buffer.before, {before.data.get(), before.data.get() + before.info.bytes()}, i, buffer.unwritten});
  }
  KeptResults kept = room_for(options_, settings, outputs);
  PoisonJudge judge(settings, std::move(outputs), std::move(kept));
  PoisonResult result;
  result.runs = poison_runs(options_);
  result.settings = run_settings(options_, invocation, settings,
                                 [&](size_t setting, OutputRanges ranges) { judge.add(setting, std::move(ranges)); });
  result.tensors = judge.judge(atomics_of(plan.code), find_orders_of(options_, reader_, invocation));
  result.atomics = atomic_places(plan.code);
  return result;
}

void Original::run_poisoned(const capture::Invocation& invocation, size_t first, PoisonReport& report) {
  open();
  const Relaunch planned = plan(invocation);
  RepeatedLaunch repeated = prepare(planned);
  const gpu::Function fill_shared = device_->function(device_->load(kFillSharedPtx), kFillSharedKernel);
  PoisonedLaunch poisoned(*device_, fill_shared, planned, repeated);
  const std::vector<PoisonSetting> settings = poison_settings(planned);
  for (size_t i = first; i < settings.size(); ++i) {
    report.begin();
    report.end(poisoned.run(settings[i], poison_runs(options_)));
  }
}

}  // namespace msda::replay
