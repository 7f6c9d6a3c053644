// The kernel tables of this build, and which of them this machine runs.
#pragma once

#include <span>
#include <string_view>

#include "artifact/program_generated.h"
#include "kernels/table.h"

namespace rbln {

// The tables this build has, fastest first; the last one runs anywhere.
std::span<const KernelTable* const> KernelTables();
// Whether this machine can run a table.
bool Supported(const KernelTable& table);
// The table of an instruction set by name; null for a name this build lacks.
const KernelTable* FindKernels(std::string_view isa);
// The fastest table that this machine can run, or what RBLN_ISA names. Throws
// Error(kUsage) where RBLN_ISA names one that is unknown or cannot run here.
const KernelTable& NativeKernels();
// The first block of panels [begin, end) of a matrix.
WeightBlock FirstBlock(Format format, const std::byte* weights, int inputs,
                       const MatmulTile& tile, int64_t begin, int64_t end);
// The tile to take where nothing was measured.
MatmulTile DefaultTile(std::string_view isa, Format format, int rows,
                       int inputs);

}  // namespace rbln
