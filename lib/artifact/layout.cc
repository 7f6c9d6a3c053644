// Sizes of packed matrices and rows: declared in artifact/program.h, which
// checks files by them; the layouts themselves are described in kernels.h.
#include "artifact/program.h"

namespace rbln {

namespace {

// Inputs of a quantized matrix, and of its input rows, come in pairs of groups.
constexpr uint64_t kPair = 64;
constexpr uint64_t kPairScales = 2 * kPanel * 2;  // float16

uint64_t Pairs(uint64_t inputs) { return (inputs + kPair - 1) / kPair; }

}  // namespace

uint64_t PanelBytes(Format format, int inputs) {
  const uint64_t k = inputs;
  switch (format) {
    case Format::Float32:
      return k * kPanel * 4;
    case Format::BFloat16:
      return (k + 1) / 2 * kPanel * 4;
    case Format::Int8:
      return Pairs(k) * (kPairScales + kPair * kPanel);
    case Format::Int4:
      return Pairs(k) * (kPairScales + kPair * kPanel / 2);
  }
  return 0;
}

uint64_t RowBytes(Format format, int columns) {
  if (format == Format::Int8) {
    constexpr uint64_t kScales = 2 * (sizeof(float) + sizeof(int32_t));
    return AlignUp(Pairs(columns) * (kScales + kPair), kAlignment);
  }
  const uint64_t element = format == Format::Float32 ? 4 : 2;
  return AlignUp(AlignUp(columns, kPanel) * element, kAlignment);
}

}  // namespace rbln
