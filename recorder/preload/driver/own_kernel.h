// A kernel of the recorder's own, given as PTX; it is loaded when it is first needed, for every context.
#pragma once

#include <cstddef>
#include <span>

#include "recorder/preload/driver/driver_api.h"

namespace msda::record {

// Not thread-safe.
class OwnKernel {
 public:
  constexpr OwnKernel(const char* ptx, const char* name) : ptx_(ptx), name_(name) {}

  // What the driver says of it; needs a current context.
  cuda::Result load();
  // Loads it, if it is not loaded. False if the driver refuses.
  bool is_loaded() { return kernel_ != nullptr || load() == cuda::kSuccess; }
  cuda::Function function() const { return kernel_; }
  // Once it is loaded.
  cuda::Result launch(unsigned blocks, unsigned rows, unsigned threads, cuda::Stream stream,
                      std::span<void*> parameters, unsigned shared_bytes = 0) const;
  // Launches it for all of the pieces, as many at a time as a PieceTable takes; `make_table` gives one, and is told how
  // many pieces came before. False if the driver refuses.
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
  // Gives the code back. None of its launches may be running.
  void unload();
  // A context ends, and with it the code that was loaded (cudaDeviceReset).
  void context_ends() { *this = OwnKernel(ptx_, name_); }

 private:
  const char *ptx_, *name_;
  cuda::Library library_ = nullptr;
  cuda::Function kernel_ = nullptr;
};

// Gives back code of the recorder's own; null is none. No function of it may be running.
void unload_own(cuda::Library library);

}  // namespace msda::record
