// .rbln files: reading, checking and writing one program.
//
// The types (ProgramT, OpT, ValueT, WeightT and their enumerations) are
// generated from program.fbs, which says what each field means.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "artifact/program_generated.h"
#include "base/error.h"

namespace rbln {

// Output columns of one panel of a packed matrix.
inline constexpr int kPanel = 16;
// Alignment of rows, values and packed tensors, in bytes.
inline constexpr int kAlignment = 64;
// Largest head, whose products in whole numbers 32 bits hold.
inline constexpr int kMaxHeadDim = 1024;

inline constexpr uint64_t AlignUp(uint64_t value, uint64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}
// Panels of a matrix with this many output columns.
inline constexpr int64_t Panels(int64_t outputs) {
  return (outputs + kPanel - 1) / kPanel;
}
// Inputs of a quantized matrix that share a scale.
inline constexpr int kGroupSize = 32;
// Bytes of one panel of a packed matrix: the layouts of kernels/table.h.
uint64_t PanelBytes(Format format, int inputs);
// The file of the program of `rows` rows (0: prefill), for one rank of `ranks`.
std::string ProgramFileName(int rows, int rank, int ranks);

// Bytes of one row of a value: `columns` numbers, with their scales for Int8,
// rounded up to kAlignment.
uint64_t RowBytes(Format format, int columns);

// What a matmul with such weights takes as input.
Format MatmulInput(Format weights);

const char* FormatName(Format format);  // "float32", "bfloat16", ...

// The bytes of a .rbln file.
std::string SerializeProgram(const ProgramT& program);

// Parses a .rbln file and checks everything that running it relies on: every
// index, every offset against the arena, every shape against its operation.
// Throws Error(kModel) naming `name` and the item.
ProgramT ParseProgram(std::span<const std::byte> bytes,
                      const std::string& name);
ProgramT ReadProgram(const std::string& path);

}  // namespace rbln
