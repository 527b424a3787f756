#include "replay/doctor/recording.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "kernels/msda.h"
#include "recorder/capture/isolated_reader.h"
#include "recorder/text/shell.h"
#include "recorder/writer/installation.h"
#include "recorder/writer/program_file.h"
#include "replay/base/errors.h"
#include "replay/base/json.h"
#include "replay/base/temporary_folder.h"
#include "replay/doctor/diagnosis.h"
#include "replay/doctor/observations.h"
#include "replay/doctor/spawn.h"

namespace msda::replay {
namespace {

namespace fs = std::filesystem;

constexpr const char* kObservations = "MSDA_RECORD_OBSERVATIONS";

std::string recorder_program() { return (record::this_program().parent_path() / "msda-record").string(); }

// Makes a folder in TMPDIR for what a run of the recorder leaves. Throws BadInput.
TemporaryFolder temporary_folder() {
  constexpr const char* kRemedy = "set TMPDIR to a folder that you can write to";
  std::error_code error;
  const fs::path temporary = fs::temp_directory_path(error);
  if (error) throw BadInput(fmt::format("no folder for temporary files: TMPDIR: {}; {}", error.message(), kRemedy));
  try {
    return TemporaryFolder((fs::absolute(temporary) / "msda-doctor-").string());
  } catch (const std::system_error& failed) {
    throw BadInput(fmt::format("{}; {}", failed.what(), kRemedy));
  }
}

// Makes the file to which the recorder appends; it never makes it itself.
std::string make_observations_file(const TemporaryFolder& folder) {
  const std::string path = folder.file("observations");
  std::ofstream file(path);
  if (!file) throw BadInput(path + ": cannot write it; set TMPDIR to a folder with room");
  return path;
}

// Returns the program that the system starts for this one: of a script the interpreter.
ProgramRun started_for(const std::string& name) {
  constexpr int kMostScripts = 4;  // an interpreter may be a script
  ProgramRun run{name, record::find_program(name).string(), {}, 0};
  for (int i = 0; i < kMostScripts; ++i) {
    run.file = record::read_program(run.path);
    if (run.file.kind != record::ProgramFile::Kind::kScript) break;
    run.path = run.file.interpreter.substr(0, run.file.interpreter.find_first_of(" \t"));
  }
  return run;
}

// Returns the first line of what the recorder said that is not said in every run, or what stands for it.
std::string first_line(const std::string& path, const std::string& otherwise) {
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    const bool is_of_every_run = line.starts_with("msda-record: records at most ");
    if (!line.empty() && !is_of_every_run) return line;
  }
  return otherwise;
}

std::string reinstall() {
  return "install msda-replay again, whole: the commands look for the libraries in ../lib beside them";
}

CaptureRead read_capture(const std::string& path) {
  CaptureRead read{path, 0, ""};
  try {
    read.invocations = static_cast<int64_t>(capture::IsolatedReader(path).invocation_ids().size());
  } catch (const std::exception& e) {
    read.error = e.what();
  }
  return read;
}

Json recording_json(const Observations& seen, const std::vector<CaptureRead>& captures, int status,
                    const std::vector<std::string>& command) {
  Json json = {{"command", command},        {"exit_status", status},     {"processes", Json::array()},
               {"kernels", Json::array()},  {"refused", Json::array()},  {"warnings", seen.warnings},
               {"captures", Json::array()}, {"cupti", seen.why_no_cupti}};
  for (const auto& [id, process] : seen.processes) {
    json["processes"].push_back({{"id", id}, {"program", process.program}, {"uses_cuda", process.has_driver}});
  }
  for (const auto& [name, kernel] : seen.kernels) {
    json["kernels"].push_back({{"name", name}, {"fate", name_of(kernel.fate)}, {"adapter", kernel.adapter}});
  }
  for (const auto& [kernel, reasons] : seen.refused) {
    json["refused"].push_back({{"kernel", kernel}, {"reasons", reasons}});
  }
  for (const CaptureRead& read : captures) {
    json["captures"].push_back({{"invocations", read.invocations}, {"error", read.error}});
  }
  return json;
}

std::vector<std::string> command_line(const std::vector<std::string>& command, const std::vector<std::string>& adapters,
                                      const TemporaryFolder& folder) {
  if (fs::path(command[0]).filename() == "msda-record") return command;
  // The last call shows as much as all of them, and needs no room.
  std::vector<std::string> all{recorder_program(), "--output", folder.file("capture.%p.h5"), "--keep", "last:1"};
  for (const std::string& path : adapters) all.insert(all.end(), {"--adapter", path});
  all.emplace_back("--");
  all.insert(all.end(), command.begin(), command.end());
  return all;
}

}  // namespace

Check check_installation() {
  const fs::path library = record::installed_library("libmsda_record.so");
  const std::string recorder = recorder_program();
  Check check{.name = "installation"};
  if (library.empty() || !fs::exists(recorder)) {
    check.health = Health::kError;
    check.summary = fmt::format("{} is missing", library.empty() ? "libmsda_record.so" : recorder);
    check.remedy = reinstall();
    return check;
  }
  check.summary = "msda-replay, msda-record and libmsda_record.so are in place";
  check.details = {recorder, library.string()};
  return check;
}

void make_test_call() {
  float value[4] = {1, 2, 3, 4}, location[2] = {0.4F, 0.6F}, weight[1] = {1}, grad_output[1] = {1}, grad_value[4] = {};
  int64_t sizes[2] = {2, 2};
  const int64_t of_value[] = {1, 4, 1, 1}, of_sizes[] = {1, 2}, of_location[] = {1, 1, 1, 1, 1, 2},
                of_weight[] = {1, 1, 1, 1, 1}, of_output[] = {1, 1, 1, 1};
  msda_call call{};
  call.value = msda_contiguous(value, MSDA_FLOAT32, 4, of_value);
  call.spatial_shapes = msda_contiguous(sizes, MSDA_INT64, 2, of_sizes);
  call.sampling_locations = msda_contiguous(location, MSDA_FLOAT32, 6, of_location);
  call.attention_weights = msda_contiguous(weight, MSDA_FLOAT32, 5, of_weight);
  const msda_tensor output = msda_contiguous(grad_output, MSDA_FLOAT32, 4, of_output);
  const msda_tensor gradient = msda_contiguous(grad_value, MSDA_FLOAT32, 4, of_value);
  if (msda_backward(&call, &output, nullptr, &gradient, nullptr, nullptr) != MSDA_OK) throw BadInput(msda_last_error());
}

// Returns whether a small capture fits into the folder's disk.
bool has_room(const TemporaryFolder& folder) {
  constexpr uint64_t kEnough = uint64_t{1} << 20;
  std::error_code unknown;
  const fs::space_info space = fs::space(fs::path(folder.file("test.h5")).parent_path(), unknown);
  return unknown || space.available >= kEnough;
}

Check check_test_recording() {
  using Clock = std::chrono::steady_clock;
  Check check{.name = "recording", .health = Health::kError, .remedy = reinstall()};
  try {
    const TemporaryFolder folder = temporary_folder();
    const std::string capture = folder.file("test.h5"), output = folder.file("output");
    // Each of these two would be taken for another trouble.
    if (!fs::exists("/proc/self")) {
      check.summary = "/proc is not mounted, and the recorder's processes need it";
      check.remedy = "mount it: mount -t proc proc /proc";
      return check;
    }
    if (!has_room(folder)) {
      check.summary = "no room for temporary files in " + fs::path(capture).parent_path().parent_path().string();
      check.remedy = "make room there, or set TMPDIR to a folder on another disk";
      return check;
    }
    const auto begin = Clock::now();
    const int status = spawn_and_wait({.command = {recorder_program(), "--output", capture, "--",
                                                   record::this_program().string(), "doctor", "--test-call"},
                                       .variables = {{kObservations, make_observations_file(folder)}},
                                       .without = "MSDA_RECORD_",  // the user's settings: the test is of the machine
                                       .output = output,
                                       .limit = std::chrono::minutes(2)});
    const Observations seen = read_observations(folder.file("observations"));
    const CaptureRead read = read_capture(capture);
    const auto reason = [&](const std::string& otherwise) {
      return seen.warnings.empty() ? first_line(output, otherwise) : seen.warnings.front();
    };
    if (seen.processes.empty()) {
      check.summary =
          "the recorder is not loaded into programs: " + first_line(output, fmt::format("exit status {}", status));
      check.remedy = "LD_PRELOAD must be allowed, and the library's folder not be mounted with noexec; " + reinstall();
    } else if (seen.outputs.empty()) {
      check.summary = "the recorder is loaded, and begins no capture: " + reason("it does not say why");
    } else if (!read.error.empty() || read.invocations != 1) {
      check.summary = "a test call leaves no capture: " + reason(read.error);
      check.remedy =
          "msda-record must run as a process of its own (limits of processes or memory?), and write into TMPDIR";
    } else {
      check.health = Health::kOk;
      check.summary = fmt::format("a test call was recorded and read back in {:.2f} s",
                                  std::chrono::duration<double>(Clock::now() - begin).count());
      check.remedy.clear();
    }
  } catch (const BadInput& e) {
    check.summary = e.what();
    check.remedy = "set TMPDIR to a folder that you can write to";
  }
  return check;
}

ProgramCheck check_program(const std::vector<std::string>& command, const std::vector<std::string>& adapters) {
  const TemporaryFolder folder = temporary_folder();
  ProgramRun run = started_for(command[0]);
  run.status = spawn_and_wait({.command = command_line(command, adapters, folder),
                               .variables = {{kObservations, make_observations_file(folder)}}});
  const Observations seen = read_observations(folder.file("observations"));
  std::vector<CaptureRead> captures;
  for (const std::string& path : seen.outputs) captures.push_back(read_capture(path));
  return {diagnose(run, seen, captures), recording_json(seen, captures, run.status, command)};
}

}  // namespace msda::replay
