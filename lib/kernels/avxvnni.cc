#include "kernels/vec_avx2.h"
// The order matters: the kernels are written against the lanes above.
#include "kernels/generic.h"

namespace rbln {

extern const KernelTable kKernels_avxvnni;
const KernelTable kKernels_avxvnni = MakeTable("avxvnni");

}  // namespace rbln
