#include "replay/modes/saved_replays.h"

#include "kernels/names.h"
#include "recorder/writer/version.h"
#include "replay/calls/load_operator.h"
#include "replay/calls/tensor_views.h"

namespace msda::replay {

SavedReplays::SavedReplays(const std::string& path, const capture::Run& run)
    : writer_(path, capture::Writer::IfExists::kRefuse, record::version()) {
  writer_.write_run(run, {});
}

void SavedReplays::add(const capture::Invocation& invocation, const analysis::Call& call,
                       const std::vector<analysis::Side>& sides) {
  capture::CallFacts facts = invocation.facts;
  facts.texts["replayed"] = "invocation " + std::to_string(invocation.id);
  writer_.begin_invocation(facts);
  for (const analysis::Side& side : sides) {
    const std::string dialect = operator_of(invocation) == "msda" ? kernels::name_of(side.conventions.dialect) : "";
    writer_.add_result({side.name, "", dialect}, gradients_of(call, side.tensors));
  }
  writer_.flush();
}

}  // namespace msda::replay
