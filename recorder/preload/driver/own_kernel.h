// A kernel of the recorder's own, given as PTX. It is loaded for every context when it is first needed.
#pragma once

#include <cstddef>
#include <span>

#include "recorder/preload/driver/driver_api.h"

namespace msda::record {

// Not thread-safe.
class OwnKernel {
 public:
  constexpr OwnKernel(const char* ptx, const char* name) : ptx_(ptx), name_(name) {}

  // Loads it, and returns the driver's result; needs a current context.
  cuda::Result load();
  // Loads it, if it is not loaded. Returns false if the driver refuses.
  bool is_loaded() { return kernel_ != nullptr || load() == cuda::kSuccess; }
  cuda::Function function() const { return kernel_; }
  // Needs the kernel to be loaded.
  cuda::Result launch(unsigned blocks, unsigned rows, unsigned threads, cuda::Stream stream,
                      std::span<void*> parameters, unsigned shared_bytes = 0) const;
  // Launches it for all pieces, as many at a time as a PieceTable takes. `make_table` returns a table, given how many
  // pieces came before. Returns false if the driver refuses.
  template <class Piece, class MakeTable>
  bool launch_for(std::span<const Piece> pieces, unsigned threads, cuda::Stream stream, MakeTable&& make_table) {
    if (!is_loaded()) return false;
    for (size_t done = 0; done < pieces.size();) {
      auto table = make_table(done);
      while (done < pieces.size() && table.add(pieces[done])) ++done;
      auto parameters = table.parameters();
      if (launch(table.blocks(), table.rows(), threads, stream, parameters) != cuda::kSuccess) return false;
    }
    return true;
  }
  // Unloads the code. None of its launches may be running.
  void unload();
  // Called when a context ends, and with it the code that was loaded (cudaDeviceReset).
  void context_ends() { *this = OwnKernel(ptx_, name_); }

 private:
  const char *ptx_, *name_;
  cuda::Library library_ = nullptr;
  cuda::Function kernel_ = nullptr;
};

// Unloads code of the recorder's own; does nothing for null. No function of it may be running.
void unload_own(cuda::Library library);

}  // namespace msda::record
