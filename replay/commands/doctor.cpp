// msda-replay doctor: what this machine can do, and why nothing was recorded.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "recorder/writer/version.h"
#include "replay/base/errors.h"
#include "replay/base/json.h"
#include "replay/base/options.h"
#include "replay/base/output.h"
#include "replay/commands/commands.h"
#include "replay/commands/flags.h"
#include "replay/commands/new_command.h"
#include "replay/doctor/machine.h"
#include "replay/doctor/recording.h"

namespace msda::replay {
namespace {

struct DoctorOptions : Options {
  std::vector<std::string> adapters, command;
  bool test_call = false;
};

const char* name_of(Health health) {
  return health == Health::kOk ? "ok" : health == Health::kWarning ? "warning" : "error";
}

std::vector<std::string> all_adapters(const DoctorOptions& options) {
  std::vector<std::string> all = options.adapters;
  const char* listed = std::getenv("MSDA_RECORD_ADAPTERS");
  std::istringstream stream(listed != nullptr ? listed : "");
  for (std::string path; std::getline(stream, path, ':');) {
    if (!path.empty()) all.push_back(path);
  }
  return all;
}

Json check_json(const Check& check) {
  return {{"name", check.name},
          {"status", name_of(check.health)},
          {"summary", check.summary},
          {"details", check.details},
          {"remedy", check.remedy}};
}

void add_check(Lines& lines, const Check& check) {
  lines.add_hanging(10, "{:<9} {}: {}", fmt::format("[{}]", name_of(check.health)), check.name, check.summary);
  for (const std::string& detail : check.details) lines.add("            {}", detail);
  if (!check.remedy.empty()) lines.add("          > {}", check.remedy);
}

int run_doctor(const DoctorOptions& options) {
  if (options.test_call) {
    make_test_call();
    return 0;
  }
  const std::vector<std::string> adapters = all_adapters(options);
  std::vector<Check> checks{check_installation(),
                            {.name = "hdf5", .summary = "HDF5 " + record::hdf5_version()},
                            check_test_recording(),
                            check_disk(),
                            check_limits()};
  for (Check& check : check_adapters(adapters)) checks.push_back(std::move(check));
  Json program;
  const bool adapters_are_bad = std::ranges::count(checks, Health::kError, [](const Check& check) {
                                  return check.name == "adapter" ? check.health : Health::kOk;
                                }) > 0;
  if (!options.command.empty() && adapters_are_bad) {
    checks.push_back(
        {.name = "program",
         .health = Health::kError,
         .summary = options.command[0] + " was not run: msda-record starts no program with such an adapter",
         .remedy = "correct the adapter first"});
  } else if (!options.command.empty()) {
    ProgramCheck found = check_program(options.command, options.adapters);
    checks.push_back(std::move(found.check));
    program = std::move(found.json);
  }
  // Last, because a process that has started the driver may not fork to read captures.
  int driver_version = 0;
  const Check driver = check_driver(driver_version);
  checks.insert(checks.begin() + 2, {driver, check_cupti(driver_version), check_kernels(driver_version)});

  const auto errors = std::ranges::count(checks, Health::kError, &Check::health);
  Lines lines;
  lines.add("msda-replay {}", record::version());
  for (const Check& check : checks) add_check(lines, check);
  lines.add("{}", errors > 0 ? options.command.empty() ? "Recording does not work here: see the errors above."
                                                       : "Nothing useful was recorded: see the errors above."
                  : driver.health == Health::kOk
                      ? "Nothing keeps msda-record from recording here."
                      : "Nothing else keeps msda-record from recording here. Without a GPU it records only "
                        "calls of libmsda; msda_replay.record() and pytest --msda record PyTorch's operators.");
  if (options.json != "-") print(lines);
  if (!options.json.empty()) {
    Json json = {{"ready", errors == 0}, {"checks", Json::array()}};
    for (const Check& check : checks) json["checks"].push_back(check_json(check));
    if (!program.is_null()) json["program"] = program;
    write_json(options.json, "doctor", json);
  }
  return errors == 0 ? 0 : 1;
}

}  // namespace

void add_doctor_command(CLI::App& app, int& status) {
  const auto [command, options] = new_command<DoctorOptions>(
      app, status, "doctor", "Say what this machine can do, and why nothing of a program was recorded", run_doctor);
  command.add_option("COMMAND", options.command, "After --: a program to record and watch, with its arguments")
      ->type_name("");
  command.add_option("--adapter", options.adapters, "JSON file with adapters for kernels of your own; repeatable")
      ->type_name("FILE")
      ->expected(1)
      ->allow_extra_args(false)  // which would take the -- before COMMAND
      ->take_all();
  add_json(command, options);
  command.add_flag("--test-call", options.test_call)->group("");
  command.footer("Exit status: 0 nothing keeps msda-record from recording, 1 something does, 2 bad usage.");
}

}  // namespace msda::replay
