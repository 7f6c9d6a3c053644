#include "kernels/vec_scalar.h"
// The order matters: the kernels are written against the lanes above.
#include "kernels/generic.h"

namespace rbln {

extern const KernelTable kKernels_scalar;
const KernelTable kKernels_scalar = MakeTable("scalar");

}  // namespace rbln
