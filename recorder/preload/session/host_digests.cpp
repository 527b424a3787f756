#include "recorder/preload/session/host_digests.h"

#include "recorder/device/digest.h"
#include "recorder/spool/checksum.h"

namespace msda::record {

void add_digests(const char* section, const std::vector<HostTensor>& tensors,
                 std::map<std::string, std::string>& digests) {
  for (const HostTensor& tensor : tensors) {
    digests[std::string(section) + "/" + tensor.name] = describe_digest(
        kernels::name_of(tensor.type), tensor.shape, digest_on_host(tensor.bytes.data(), tensor.bytes.size()));
  }
}

std::string digest_of_all(std::string text, const std::vector<HostTensor>& tensors) {
  for (const HostTensor& tensor : tensors) {
    text += tensor.name + " " + kernels::name_of(tensor.type) + " " + spool::digest_of(tensor.bytes);
    for (const int64_t side : tensor.shape) text += " " + std::to_string(side);
    text += "\n";
  }
  return spool::digest_of(std::as_bytes(std::span(text.data(), text.size())));
}

}  // namespace msda::record
