#include "kernels/vec_avx512.h"
// The order matters: the kernels are written against the lanes above.
#include "kernels/generic.h"

namespace rbln {

extern const KernelTable kKernels_avx512;
const KernelTable kKernels_avx512 = MakeTable("avx512");

}  // namespace rbln
