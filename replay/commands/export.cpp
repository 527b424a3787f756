// msda-replay export: a recorded call as a reproducer that stands alone, or in a format of another tool.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <map>

#include "recorder/text/shell.h"
#include "recorder/text/words.h"
#include "replay/base/errors.h"
#include "replay/base/json.h"
#include "replay/base/new_files.h"
#include "replay/base/output.h"
#include "replay/base/same_file.h"
#include "replay/calls/damage.h"
#include "replay/calls/element_argument.h"
#include "replay/calls/load_operator.h"
#include "replay/commands/commands.h"
#include "replay/commands/explain.h"
#include "replay/commands/explain_all.h"
#include "replay/commands/flags.h"
#include "replay/commands/new_command.h"
#include "replay/export/cpp_source.h"
#include "replay/export/issue_archive.h"
#include "replay/export/npz.h"
#include "replay/export/operator_source.h"
#include "replay/export/python_source.h"
#include "replay/export/source_text.h"
#include "replay/export/tensorboard.h"
#include "replay/report/words.h"
#include "replay/stages/stage_table.h"

namespace msda::replay {
namespace {

struct ExportOptions : Options {
  std::string format, output, element;
  bool force = false;
  bool anonymous = false;
};

// What the command works on.
struct Source {
  const ExportOptions& options;
  const capture::IsolatedReader& reader;
  const Pairing& pairing;
  Original& original;
  Devices& devices;
  const Progress& progress;

  // Throws BadInput for damaged data.
  InvocationResult explain(int64_t id) const {
    refuse_altered(options, pairing.altered_beside(id));
    return explain_invocation(options, reader, pairing, original, devices, id, "", progress);
  }
};

// What was written.
struct Written {
  std::vector<std::string> files;      // the output first
  std::vector<std::string> members;    // of an archive
  std::vector<std::string> disclosed;  // of the recorded program's surroundings
  std::string next;                    // a command
};

// Endings of files beside a reproducer.
constexpr char kArchive[] = ".npz", kTensorFile[] = ".bin";

// Returns the path with another ending: "test_a.npz" for "test_a.py".
std::string beside(const std::string& path, const char* ending) {
  return std::filesystem::path(path).replace_extension(ending).string();
}

std::string name_of_file(const std::string& path) { return std::filesystem::path(path).filename().string(); }

Written write_pytest(NewFiles& files, const Source& source, ExportedCall& call) {
  const std::string& path = source.options.output;
  Written written{{path}, {}, {}, fmt::format("python3 -m pytest {}", text::shell_word(path))};
  std::string archive;
  if (!fits_inline(call)) {
    archive = beside(path, kArchive);
    write_npz(files.create(archive, FileKind::kArchive), archive, call);
    written.files.push_back(archive);
  }
  files.write(path, FileKind::kSource, python_source(call, archive.empty() ? "" : name_of_file(archive)));
  return written;
}

Written write_cpp(NewFiles& files, const Source& source, ExportedCall& call) {
  const std::string& path = source.options.output;
  Written written{{path}, {}, {}, fmt::format("c++ -std=c++20 {} && ./a.out", text::shell_word(path))};
  std::string tensors;
  if (!fits_inline(call)) {
    tensors = beside(path, kTensorFile);
    files.write(tensors, FileKind::kTensors, tensor_bytes(call));
    written.files.push_back(tensors);
    written.next += " " + text::shell_word(tensors);
  }
  files.write(path, FileKind::kSource, cpp_source(call, tensors.empty() ? "" : name_of_file(tensors)));
  return written;
}

Written write_npz_archive(NewFiles& files, const Source& source, ExportedCall& call) {
  const std::string& path = source.options.output;
  write_npz(files.create(path, FileKind::kArchive), path, call);
  return {{path}, {}, {}, fmt::format("python3 -m msda_replay import {} -o CASE.h5", text::shell_word(path))};
}

Written write_zip(NewFiles& files, const Source& source, ExportedCall& call) {
  const std::string& path = source.options.output;
  const auto surroundings = source.options.anonymous ? Surroundings::kAnonymous : Surroundings::kAll;
  IssueArchive archive = write_issue_archive(files, path, source.reader, call, surroundings);
  return {{path}, std::move(archive.members), std::move(archive.disclosed), ""};
}

// Which operators: all, all but those of the user's own that Python does not compute alone, the built-in ones.
enum class Takes { kAll, kInPython, kBuiltIn };

struct Format {
  const char* name;
  const char* ending;  // that the output's name must have, or ""
  FileKind kind;
  const char* beside;  // the ending of a file with large tensors, or ""
  bool of_finding;     // there must be an element out of tolerance
  Takes takes;
  Written (*write)(NewFiles& files, const Source& source, ExportedCall& call);
};
constexpr Format kFormats[] = {{"pytest", ".py", FileKind::kSource, kArchive, true, Takes::kInPython, write_pytest},
                               {"cpp", ".cpp", FileKind::kSource, kTensorFile, true, Takes::kBuiltIn, write_cpp},
                               {"npz", "", FileKind::kArchive, "", false, Takes::kBuiltIn, write_npz_archive},
                               {"zip", "", FileKind::kArchive, "", false, Takes::kAll, write_zip}};
constexpr char kTensorBoard[] = "tensorboard";

// Throws BadInput for --element where no finding is of it.
[[noreturn]] void refuse_element(const Source& source, const InvocationResult& result) {
  const LoadedCall loaded(source.options, source.reader, result.invocation);
  const analysis::ElementId id = parse_element(source.options.element, loaded.call());
  for (const analysis::Group& group : result.report.groups) {
    if (group.gradient != id.gradient || !group.contains(id.flat)) continue;
    throw BadInput(fmt::format(
        "--element {}: it is out of tolerance for the same cause as {}, which stands for it; name that one, "
        "or another of the findings of run --json",
        source.options.element, element_name(result.report.findings[group.farthest])));
  }
  throw BadInput(
      fmt::format("--element {}: it is within tolerance in {}; the findings of run --json are those that a "
                  "reproducer shows",
                  source.options.element, source.options.capture));
}

// Returns what is to be exported of the chosen invocations: the first with the element, or with any out of tolerance,
// else the first with advice, else the first that can be replayed.
InvocationResult find_call(const Source& source) {
  std::optional<InvocationResult> first, advice;
  std::string not_replayed;
  for (const int64_t id : source.pairing.chosen()) {
    const capture::Invocation invocation = source.pairing.invocation(id);
    if (const std::string why = why_not_replayed(source.reader, invocation); !why.empty()) {
      if (not_replayed.empty()) not_replayed = fmt::format("invocation {} is not replayed: {}", id, why);
      continue;
    }
    InvocationResult result = source.explain(id);
    const auto shown = shown_of(result.report, source.options.element);
    if (shown && !shown->group->advisory) return result;
    if (shown && !advice)
      advice = std::move(result);
    else if (!first)
      first = std::move(result);
  }
  if (advice) return *std::move(advice);
  if (first && !source.options.element.empty()) refuse_element(source, *first);
  if (first) return *std::move(first);
  throw Unavailable(fmt::format("{}: {}", source.options.capture, not_replayed));
}

Json finding_json(const ExportedCall& call) {
  if (!call.shown) return nullptr;
  const analysis::Finding& finding = call.finding();
  const analysis::Tolerance tolerance = call.tolerance();
  return {{"tensor", finding.gradient.name()},
          {"index", finding.index},
          {"observed", analysis::number(finding.observed)},
          {"observed_bits", bits_text(call.recorded(), finding.flat)},
          {"expected", analysis::number(finding.expected)},
          {"expected_bits", bits_text(finding.expected, call.type_of_expected())},
          {"against", finding.against},
          {"tolerance",
           {{"atol", tolerance.atol}, {"rtol", tolerance.rtol}, {"recorded", call.result().tolerance.has_value()}}},
          {"cause", name_of(finding.cause)},
          {"at_fault", name_of(finding.at_fault)},
          {"advisory", finding.advisory}};
}

// Returns what a NumPy archive has no keys for.
std::vector<std::string> left_out_of_npz(const capture::Invocation& invocation) {
  std::vector<std::string> left_out;
  for (const auto& result : invocation.results) {
    if (&result != invocation.reference()) left_out.push_back("results/" + result.facts.name);
  }
  if (!invocation.stages.empty()) left_out.emplace_back("stages");
  if (!invocation.facts.kernel_digest.empty()) left_out.emplace_back("launch and machine code");
  return left_out;
}

Lines export_text(const ExportOptions& options, const Json& json, const Written& written) {
  Lines lines;
  const Json& finding = json["finding"];
  const std::string invocations = fmt::format("{} {}", text::plural(std::ssize(json["invocations"]), "invocation"),
                                              fmt::join(json["invocations"].get<std::vector<int64_t>>(), ", "));
  if (finding.is_null()) {
    lines.add("{}: {}", options.output, invocations);
  } else {
    lines.add("{}: {} in {}[{}] of {}, at fault: {}", options.output, finding["cause"], finding["tensor"],
              fmt::join(finding["index"].get<std::vector<int64_t>>(), ","), invocations, finding["at_fault"]);
  }
  if (options.quiet) return lines;
  if (!finding.is_null()) {
    lines.add("  recorded {} ({}), {} {} ({})", finding["observed"].dump(), finding["observed_bits"],
              finding["against"], finding["expected"].dump(), finding["expected_bits"]);
  }
  if (written.files.size() > 1) {
    lines.add(
        "  the tensors are in {}, which belongs to it; msda-replay minimize makes a call small enough for one file",
        written.files.back());
  }
  if (!written.members.empty()) lines.add("  holds: {}", fmt::join(written.members, ", "));
  if (options.format == "zip") {
    lines.add("  says of the recorded program: {}{}",
              written.disclosed.empty() ? "nothing" : fmt::format("{}", fmt::join(written.disclosed, ", ")),
              options.anonymous ? "" : " (--anonymous leaves out what may name a person)");
  }
  if (!json["left_out"].empty()) {
    lines.add("  left out: {}", fmt::join(json["left_out"].get<std::vector<std::string>>(), ", "));
  }
  if (!written.next.empty()) lines.add_whole("  " + written.next);
  return lines;
}

int report_export(const ExportOptions& options, const Json& json, const Written& written) {
  print_result(export_text(options, json, written), options.json, "export", json);
  return kWithinTolerance;
}

Json json_head(const ExportOptions& options, const std::vector<int64_t>& invocations, const Written& written) {
  return {{"capture", options.capture}, {"to", options.format},       {"output", options.output},
          {"files", written.files},     {"members", written.members}, {"invocations", invocations},
          {"tells", written.disclosed}};
}

int export_call(const Format& format, const Source& source, NewFiles& files) {
  const ExportOptions& options = source.options;
  ExportedCall call;
  call.capture = name_of_file(options.capture);
  call.results.push_back(find_call(source));
  Options named = options;
  named.capture = call.capture;
  if (source.pairing.chosen().size() > 1) named.invocation = std::to_string(call.invocation().id);
  call.flags = flags_of(named);
  const capture::Invocation invocation = call.invocation();
  source.progress.show(fmt::format("export: invocation {}", invocation.id));
  const LoadedCall loaded(options, source.reader, invocation);
  call.loaded = &loaded;
  call.shown = shown_of(call.result().report, options.element);
  const capture::TensorInfo* starts = find(invocation.inputs, "level_start_index");
  if (starts != nullptr) call.level_start_index = source.reader.read(*starts);
  if (format.of_finding && !call.result().compared) refuse_nothing_to_compare(options, call.results);
  if (format.of_finding && !call.shown) {
    throw BadInput(
        fmt::format("{}: nothing is out of tolerance: there is nothing to reproduce; --atol and --rtol set a "
                    "tolerance, --to npz and zip take any call",
                    options.capture));
  }
  const auto formulas = operator_source(call);
  const bool is_built_in = formulas && !formulas->cpp.empty();
  if ((format.takes == Takes::kInPython && !formulas) || (format.takes == Takes::kBuiltIn && !is_built_in)) {
    throw BadInput(
        fmt::format("{}: {} is an operator of your own, for which there is no --to {}; --to zip and tensorboard take "
                    "it",
                    options.capture, operator_of(invocation), format.name));
  }
  const Json finding = finding_json(call), altered = call.result().altered;
  const Written written = format.write(files, source, call);
  files.publish();
  source.progress.show("");
  Json json = json_head(options, {invocation.id}, written);
  json["finding"] = finding;
  json["left_out"] = std::string_view(format.name) == "npz" ? left_out_of_npz(invocation) : std::vector<std::string>{};
  json["altered"] = altered;
  return report_export(options, json, written);
}

// Returns the curve of each invocation. The calls of one label (a module, a test), or else of one kernel, and of one
// operator are the steps of one curve; without others tags need not say which.
std::map<int64_t, Curve> curves_in(const capture::IsolatedReader& reader) {
  std::map<int64_t, Curve> curves;
  std::map<std::string, int64_t> steps;
  for (const capture::Invocation& outline : reader.outlines(reader.invocation_ids())) {
    const std::string& who = outline.facts.label.empty() ? outline.facts.kernel : outline.facts.label;
    const std::string prefix = fmt::format("{} {}/", operator_of(outline), who);
    curves[outline.id] = {steps[prefix]++, prefix};
  }
  if (steps.size() > 1) return curves;
  for (auto& [id, curve] : curves) curve.prefix.clear();
  return curves;
}

// Writes a file with a name of its own into TensorBoard's folder.
int export_events(const Source& source, NewFiles& files, const std::string& path) {
  using Seconds = std::chrono::duration<double>;
  EventFile events(std::chrono::duration_cast<Seconds>(std::chrono::system_clock::now().time_since_epoch()).count());
  std::vector<int64_t> ids;
  std::vector<std::string> altered;
  std::string not_replayed;
  const std::map<int64_t, Curve> curves = curves_in(source.reader);
  for (const int64_t id : source.pairing.chosen()) {
    if (const std::string why = why_not_replayed(source.reader, source.pairing.invocation(id)); !why.empty()) {
      if (not_replayed.empty()) not_replayed = fmt::format("invocation {} is not replayed: {}", id, why);
      continue;
    }
    const InvocationResult result = source.explain(id);
    const LoadedCall loaded(source.options, source.reader, result.invocation);
    const Replays float64(loaded, {}, source.devices, [](const std::string&) {});
    const StageTensors recorded(source.options, source.reader, result.invocation, loaded.call(), loaded.recorded());
    const int threads = static_cast<int>(source.options.threads);
    const Json stages = stage_summary(loaded, recorded, threads, source.devices, source.progress);
    add_to_events(events, curves.at(id), result, loaded, float64, stages);
    add_altered(altered, result.altered);
    ids.push_back(id);
  }
  if (ids.empty()) throw Unavailable(fmt::format("{}: {}", source.options.capture, not_replayed));
  std::error_code error;
  std::filesystem::create_directories(source.options.output, error);
  if (error) throw BadInput(fmt::format("{}: cannot create the folder: {}", source.options.output, error.message()));
  files.write(path, FileKind::kEvents, events.bytes());
  files.publish();
  source.progress.show("");
  const Written written{
      {path}, {}, {}, fmt::format("tensorboard --logdir {}", text::shell_word(source.options.output))};
  Json json = json_head(source.options, ids, written);
  json["finding"] = nullptr;
  json["left_out"] = Json::array();
  json["altered"] = altered;
  return report_export(source.options, json, written);
}

int run_export(ExportOptions& options) {
  check_numbers(options);
  if (options.anonymous && options.format != "zip") throw BadInput("--anonymous is for --to zip");
  const bool takes_element = options.format != "npz" && options.format != kTensorBoard;
  if (!options.element.empty() && !takes_element) throw BadInput("--element is for --to pytest, cpp and zip");
  const Format* format =
      std::ranges::find(kFormats, options.format, [](const Format& known) { return std::string_view(known.name); });
  const bool is_call = format != std::end(kFormats);
  if (is_call && !options.output.ends_with(format->ending)) {
    throw BadInput(
        fmt::format("-o {}: give --to {} a name that ends in {}", options.output, options.format, format->ending));
  }
  NewFiles files(options.capture, options.force);
  // The time in such names is when TensorBoard's writers began; this one is always the same, to be found again.
  const std::string target = is_call ? options.output : options.output + "/events.out.tfevents.0.msda-replay";
  files.check(target, is_call ? format->kind : FileKind::kEvents);
  refuse_same_outputs(target, options.json);
  if (is_call && *format->beside != '\0') refuse_same_outputs(beside(target, format->beside), options.json);
  const capture::IsolatedReader reader(options.capture);
  options.device = "cpu";  // the first to be explained is the same on every machine
  const Pairing pairing(options, reader);
  Original original(options, reader);
  Devices devices(options);
  const Progress progress(!options.quiet);
  const Source source{options, reader, pairing, original, devices, progress};
  return is_call ? export_call(*format, source, files) : export_events(source, files, target);
}

}  // namespace

void add_export_command(CLI::App& app, int& status) {
  const auto [command, options] = new_command<ExportOptions>(
      app, status, "export", "Write a reproducer that needs no msda-replay, or another tool's format", run_export);
  add_capture(command, options);
  command.add_option("--to", options.format, "What to write")
      ->option_text("pytest|cpp|npz|zip|tensorboard")
      ->check(CLI::IsMember({"pytest", "cpp", "npz", "zip", kTensorBoard}))
      ->required();
  command.add_option("-o,--output", options.output, "File to write; for tensorboard, a folder")
      ->type_name("PATH")
      ->required();
  command.add_flag("--force", options.force, "Replace files that exist");
  command.add_flag("--anonymous", options.anonymous,
                   "With --to zip: leave out arguments, environment, host, labels and machine code");
  command
      .add_option("--element", options.element,
                  "Finding to reproduce, as grad_value[0,17,3,5]; default: the one that run reports first")
      ->type_name("ELEMENT");
  add_comparison(command, options);
  add_operator(command);
  command.footer(
      "Exit status: 0 written, 2 bad usage or bad input, 3 the call is not replayed, or not available in this format.");
}

}  // namespace msda::replay
