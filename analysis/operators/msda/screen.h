// Finds the elements of a head on which two arithmetics of deformable attention may differ by more than a tolerance.
//
// A sample whose coordinates have the same bits on both sides gives the same bits. Other samples are suspects if they
// land in different cells. For the rest the difference is bounded, ever more tightly: by the largest rows of channels,
// by the sample's own, and by the sums over its channels.
#pragma once

#include <vector>

#include "analysis/operators/msda/call.h"

namespace msda::analysis {

class MsdaScreen final : public Screen {
 public:
  struct Arithmetic {
    Conventions conventions;
    msda_mode mode;
    bool contracted;
  };
  MsdaScreen(const Arithmetic& observed, const Arithmetic& expected) : observed_(observed), expected_(expected) {}

  // Finds the suspects of a call with float32 tensors, one batch and one head.
  void find(const Call& slice, const Tolerance& tolerance, Suspects& suspects) override;

 private:
  struct Level;
  void measure(const MsdaCall& call);
  bool find_in_level(const MsdaCall& call, int64_t l, const Tolerance& tolerance, Suspects& suspects);
  bool examine(const MsdaCall& call, Level& level, int64_t i, const Tolerance& tolerance, Suspects& suspects);
  bool scatter_holds(const MsdaCall& call, const Level& level, const Tolerance& tolerance);

  Arithmetic observed_, expected_;
  std::vector<float> x_, y_, attention_;  // of a level's samples
  struct Along {                          // an axis: stress::Landed
    std::vector<float> distances, lows, fractions;
  };
  Along along_x_, along_y_;
  std::vector<float> pixel_norms_, query_norms_;
  std::vector<int32_t> cell_counts_;
  std::vector<float> cell_masses_;
  double largest_grad_output_ = 0;
  bool nothing_negative_ = false;  // neither grad_output nor attention weights
};

}  // namespace msda::analysis
