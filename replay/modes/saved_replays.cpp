#include "replay/modes/saved_replays.h"

#include <sys/stat.h>

#include "analysis/model/dialects.h"
#include "kernels/names.h"
#include "recorder/writer/version.h"
#include "replay/base/errors.h"
#include "replay/calls/load_operator.h"
#include "replay/calls/tensor_views.h"

namespace msda::replay {

SavedReplays::SavedReplays(const std::string& path, const capture::Run& run) : files_("", false), path_(path) {
  struct stat there {};
  if (lstat(path.c_str(), &there) == 0) {
    throw BadInput("--save-replays " + path + ": exists; give another name, or remove it");
  }
  temporary_ = files_.create(path, FileKind::kCapture);
  with_shown_name(temporary_, path_, [&] {
    writer_.emplace(temporary_, capture::Writer::IfExists::kRefuse, record::version());
    writer_->write_run(run, {});
  });
}

void SavedReplays::add(const capture::Invocation& invocation, const analysis::Call& call,
                       const std::vector<analysis::Side>& sides) {
  capture::CallFacts facts = invocation.facts;
  facts.texts["replayed"] = "invocation " + std::to_string(invocation.id);
  with_shown_name(temporary_, path_, [&] {
    writer_->begin_invocation(facts);
    for (const analysis::Side& side : sides) {
      writer_->add_result({side.name, "", dialect_of(side.version_of(call))}, gradients_of(call, side.tensors));
    }
    writer_->flush();
  });
}

void SavedReplays::publish() {
  with_shown_name(temporary_, path_, [&] { writer_->close(); });
  files_.publish();
}

}  // namespace msda::replay
