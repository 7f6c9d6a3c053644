// Sizes of packed matrices and rows: declared in artifact/program.h, which
// checks files by them; the layouts themselves are described in kernels.h.
#include "artifact/program.h"

namespace rbln {

uint64_t PanelBytes(Format format, int inputs, int group_size) {
  const uint64_t k = inputs;
  switch (format) {
    case Format::Float32:
      return k * kPanel * 4;
    case Format::BFloat16:
      return (k + 1) / 2 * kPanel * 4;
    case Format::Int8:
    case Format::Int4:
      break;
  }
  return 0;
}

uint64_t RowBytes(Format format, int columns) {
  const uint64_t element = format == Format::Float32 ? 4 : 2;
  return AlignUp(AlignUp(columns, kPanel) * element, kAlignment);
}

}  // namespace rbln
