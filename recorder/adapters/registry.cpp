#include <algorithm>

#include "kernels/operator_rows.h"
#include "recorder/adapters/adapter_files.h"
#include "recorder/adapters/decode.h"
#include "recorder/adapters/made_once.h"
#include "recorder/adapters/user_spec.h"

namespace msda::adapters {

#define MSDA_DECLARE(file) void add_##file(Adapters& all);
MSDA_ADAPTER_FILES(MSDA_DECLARE)
#undef MSDA_DECLARE

const Adapters& built_in() {
  static constinit MadeOnce<const Adapters> all;
  return all.get([] {
    auto adapters = std::make_unique<Adapters>();
#define MSDA_ADD(file) add_##file(*adapters);
    MSDA_ADAPTER_FILES(MSDA_ADD)
#undef MSDA_ADD
    const auto add = [&](std::string_view definition) {
      for (UserSpec& spec : built_in_specs(definition, /*with_operators=*/false))
        adapters->push_back(user_adapter(std::move(spec)));
    };
    std::ranges::for_each(kernels::kOperatorDefinitions, add);
    std::ranges::for_each(kernels::kAdapterFiles, add);
    return adapters;
  });
}

}  // namespace msda::adapters
