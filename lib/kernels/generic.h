// The kernels, written once against sixteen float lanes. Each ISA file includes
// its vec_*.h and then this; everything here has internal linkage, so that no
// copy compiled for one instruction set can be called in place of another's.
#pragma once

#include "kernels/generic_math.h"
// Needs what is above.
#include "kernels/generic_attention.h"
#include "kernels/generic_matmul.h"
#include "kernels/generic_probes.h"
#include "kernels/generic_quantize.h"
#include "kernels/generic_rows.h"

namespace rbln {
namespace {

constexpr KernelTable MakeTable(const char* isa) {
  return {.isa = isa,
          .matmul = {Matmul<F32Panels>, Matmul<Bf16Panels>, Matmul<Int8Panels>,
                     Matmul<Int4Panels>},
          .rms_norm = RmsNormRow,
          .embed = {EmbedF32, EmbedBf16, EmbedInt8, EmbedInt4},
          .quantize = Quantize,
          .pack_int8 = PackInt8,
          .pack_int4 = PackInt4,
          .rope_kv = RopeKv,
          .attention = Attention,
          .attend_part = AttendPart,
          .combine_parts = CombineParts,
          .read_probe = ReadProbe,
          .peak_probe = PeakProbe};
}

}  // namespace
}  // namespace rbln
