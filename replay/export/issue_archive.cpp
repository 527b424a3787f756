#include "replay/export/issue_archive.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "recorder/text/shell.h"
#include "recorder/writer/version.h"
#include "replay/base/output.h"
#include "replay/calls/conventions.h"
#include "replay/calls/shown_name.h"
#include "replay/export/npz.h"
#include "replay/export/operator_source.h"
#include "replay/export/python_source.h"
#include "replay/export/source_text.h"
#include "replay/export/zip_archive.h"
#include "replay/report/result_text.h"

namespace msda::replay {
namespace {

constexpr char kCapture[] = "capture.h5", kReproducer[] = "test_reproducer.py", kTensors[] = "test_reproducer.npz";

// Makes it the call of the capture in the archive.
void rename(ExportedCall& call) {
  InvocationResult& result = call.results.front();
  call.capture = call.flags = kCapture;
  result.invocation.id = 0;
  result.notes.clear();  // on calls that it was paired with; the reference is now in results/
}

// Without names that a person gave; comparisons have those of results.
void remove_names(InvocationResult& result) {
  const auto before = result.invocation.results;
  make_anonymous(result.invocation);
  for (analysis::NamedComparison& comparison : result.report.comparisons) {
    for (std::string* side : {&comparison.observed, &comparison.expected}) {
      for (size_t i = 0; i < before.size(); ++i) {
        if (*side != shown_name(before[i].facts.name)) continue;
        *side = result.invocation.results[i].facts.name;
        break;
      }
    }
  }
}

Conclusion conclude(const InvocationResult& result) {
  Conclusion conclusion = conclusion_of(result);
  conclusion.verdict = analysis::combine({conclusion.verdict});
  return conclusion;
}

std::string lines_of(const char* title, const std::map<std::string, std::string>& values) {
  Lines lines;
  if (!values.empty()) lines.add("{}", title);
  for (const auto& [name, value] : values) lines.add("  {} = {}", name, value);
  return lines.text();
}

std::string environment_text(const capture::IsolatedReader& reader, const capture::Run& run) {
  Lines lines;
  lines.add("This archive was made by:");
  std::string build = record::describe_build("msda-replay");
  for (size_t end; (end = build.find('\n')) != std::string::npos; build.erase(0, end + 1))
    lines.add("  {}", build.substr(0, end));
  lines.add("  {}", build);
  lines.add("The capture was written by version {}, {}", reader.tool_version(), reader.created());
  if (!run.argv.empty()) {
    std::string command;
    for (const std::string& word : run.argv) command += (command.empty() ? "" : " ") + text::shell_word(word);
    lines.add("Recorded program: {}", command);
  }
  return lines.text() + lines_of("Machine", run.facts) + lines_of("Libraries", run.libraries) +
         lines_of("Environment variables", run.environment);
}

std::vector<std::string> disclosed_by(const capture::Run& run, const capture::Invocation& invocation, bool has_seeds,
                                      Surroundings surroundings) {
  std::vector<std::string> disclosed;
  if (!run.argv.empty()) disclosed.emplace_back("arguments");
  for (const auto& [name, value] : run.environment) disclosed.push_back("environment variable " + name);
  for (const auto& [name, value] : run.facts) disclosed.push_back(name);
  if (!run.libraries.empty()) disclosed.emplace_back("libraries");
  disclosed.emplace_back("time of recording");
  if (!invocation.facts.kernel.empty()) disclosed.emplace_back("kernel's name");
  if (invocation.facts.grid) disclosed.emplace_back("launch");
  if (has_seeds) disclosed.emplace_back("seeds");
  if (surroundings == Surroundings::kAnonymous) return disclosed;
  if (!invocation.facts.label.empty()) disclosed.emplace_back("label");
  if (!source_line_of(invocation).empty()) disclosed.emplace_back("line of source");
  if (!invocation.facts.kernel_digest.empty()) disclosed.emplace_back("machine code");
  return disclosed;
}

bool has_reproducer(const ExportedCall& call) { return call.shown && operator_source(call); }

std::string readme(const ExportedCall& call, const IssueArchive& archive) {
  std::string text = fmt::format("# A call recorded by msda-replay\n\n{}\n\n", call.result().report.verdict.summary);
  text += fmt::format(
      "- `{}`: the recorded call, invocation {} of its capture. `msda-replay run {}` explains it.\n"
      "- `run.txt`, `run.json`: what `msda-replay run --device cpu` says of it.\n",
      kCapture, call.invocation().id, kCapture);
  if (has_reproducer(call)) {
    text += fmt::format(
        "- `{}`: fails while the recorded gradient is out of tolerance; needs only pytest and NumPy:\n"
        "  `python3 -m pytest {}`\n",
        kReproducer, kReproducer);
  }
  text += "- `environment.txt`: versions and settings.\n\n";
  text += fmt::format("Besides tensors it says of the recorded program: {}.\n", fmt::join(archive.disclosed, ", "));
  return text;
}

}  // namespace

IssueArchive write_issue_archive(NewFiles& files, const std::string& path, const capture::IsolatedReader& reader,
                                 ExportedCall& call, Surroundings surroundings) {
  const std::string target = files.create(path, FileKind::kArchive), capture_file = files.scratch(path),
                    tensors_file = files.scratch(path);
  const capture::Run run = run_of(reader, surroundings);
  InvocationResult& result = call.results.front();
  if (surroundings == Surroundings::kAnonymous) remove_names(result);
  if (const auto& tolerance = result.tolerance) result.invocation.facts.tolerance = {tolerance->atol, tolerance->rtol};
  IssueArchive archive;
  archive.disclosed = disclosed_by(run, call.invocation(), !reader.seeds().empty(), surroundings);
  // Before environment_text() asks HDF5 for its version, which would have it clean up at exit, also what it could not
  // write on a full disk.
  write_one_invocation(capture_file, path, reader, call.invocation(), surroundings);
  ZipArchive zip(target, path);
  const auto add = [&](const char* name, std::string bytes) {
    zip.add(name, std::move(bytes));
    archive.members.emplace_back(name);
  };
  const auto add_file = [&](const char* name, const std::string& file) {
    zip.add_file(name, file);
    archive.members.emplace_back(name);
  };
  add("README.md", readme(call, archive));
  add("environment.txt", environment_text(reader, run));
  add_file(kCapture, capture_file);
  rename(call);
  const Conclusion conclusion = conclude(call.result());
  add("run.txt", to_text(kCapture, call.results, {}, {}, conclusion, {false, false, {}, kCapture}).text());
  add("run.json", text_of(with_schema("run", to_json(kCapture, call.results, {}, {}, conclusion))));
  if (has_reproducer(call)) {
    const bool is_inline = fits_inline(call);
    add(kReproducer, python_source(call, is_inline ? "" : kTensors));
    if (!is_inline) {
      write_npz(tensors_file, path, call);
      add_file(kTensors, tensors_file);
    }
  }
  zip.close();
  return archive;
}

}  // namespace msda::replay
