// Digests of tensors in host memory.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "recorder/preload/session/call_record.h"

namespace msda::record {

// Adds each tensor's type, shape and digest, by "SECTION/NAME".
void add_digests(const char* section, const std::vector<HostTensor>& tensors,
                 std::map<std::string, std::string>& digests);

// Returns one digest of all tensors and the text.
std::string digest_of_all(std::string text, const std::vector<HostTensor>& tensors);

}  // namespace msda::record
