# What most files include of other projects, and takes long to read, precompiled. It is a target of its own, whose flags are those
# of msda_rarely_run().
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/precompiled.cpp CONTENT "")
add_library(msda_precompiled OBJECT ${PROJECT_BINARY_DIR}/precompiled.cpp)
msda_target(msda_precompiled)
msda_rarely_run(msda_precompiled)
target_link_libraries(msda_precompiled PRIVATE fmt::fmt nlohmann_json::nlohmann_json)
target_precompile_headers(msda_precompiled PRIVATE <fmt/format.h> <fmt/ranges.h> <nlohmann/json.hpp> <algorithm> <chrono>
  <cmath> <filesystem> <functional> <map> <memory> <optional> <set> <span> <string> <variant> <vector>)

# msda_precompile(NAME): for a target that rarely runs, and links fmt.
function(msda_precompile name)
  target_precompile_headers(${name} REUSE_FROM msda_precompiled)
endfunction()
