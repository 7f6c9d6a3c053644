#include "kernels/vec_avx2.h"
// The order matters: the kernels are written against the lanes above.
#include "kernels/generic.h"

namespace rbln {

extern const KernelTable kKernels_avx2;
const KernelTable kKernels_avx2 = MakeTable("avx2");

}  // namespace rbln
