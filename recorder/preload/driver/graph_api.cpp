#include "recorder/preload/driver/graph_api.h"

#include <dlfcn.h>

#include "recorder/adapters/made_once.h"
#include "recorder/preload/driver/symbols.h"

namespace msda::record::cuda {
namespace {

GraphDriver find_graph_functions() {
  GraphDriver found;
  void* library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) return found;
  const auto get = [&]<class F>(F*& function, const char* name) {
    if (function == nullptr) function = reinterpret_cast<F*>(real_dlsym(library, name));
  };
  get(found.nodes, "cuGraphGetNodes");
  get(found.edges, "cuGraphGetEdges_v2");
  get(found.plain_edges, "cuGraphGetEdges");
  get(found.node_type, "cuGraphNodeGetType");
  get(found.kernel, "cuGraphKernelNodeGetParams_v2");
  get(found.kernel, "cuGraphKernelNodeGetParams");
  get(found.kernel_attribute, "cuGraphKernelNodeGetAttribute");
  get(found.copy, "cuGraphMemcpyNodeGetParams");
  get(found.set, "cuGraphMemsetNodeGetParams");
  get(found.child, "cuGraphChildGraphNodeGetGraph");
  get(found.copy_3d, "cuMemcpy3DAsync_v2");
  get(found.set_words, "cuMemsetD32Async");
  get(found.set_halves, "cuMemsetD16Async");
  get(found.set_rows, "cuMemsetD2D8Async");
  get(found.set_rows_of_halves, "cuMemsetD2D16Async");
  get(found.set_rows_of_words, "cuMemsetD2D32Async");
  return found;
}

}  // namespace

const GraphDriver& graph_driver() {
  static constinit MadeOnce<const GraphDriver> found;
  return found.get([] { return std::make_unique<const GraphDriver>(find_graph_functions()); });
}

}  // namespace msda::record::cuda
