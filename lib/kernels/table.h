// The kernel table: what the operations of a program call, one table for each
// instruction set.
//
// Bits. Every output element is reduced in an order that depends on the shapes
// of the weights alone, never on the number of rows, a row's place among them,
// or the tiling: matmul walks the inputs of a row from first to last, one lane
// for each output column; attention walks keys in tiles that start at absolute
// positions; norms and softmax sum 16 fixed lanes and then a fixed tree. So any
// split of the work gives the same bits for one table.
//
// Packed matrices. A weight of shape (outputs, inputs) is stored in panels of
// kPanel output columns, the last one padded with zeros:
//   Float32:  float    [panel][input][16]
//   BFloat16: uint16_t [panel][input pair][16][2]; an odd last input is padded
//   Int8, Int4: [panel][64 inputs]: float16 scale [2 groups][16], then
//     Int8: uint8_t [2 groups][8 quads][16][4 inputs], the value plus 128
//     Int4: uint8_t [2 groups][4][16][4 inputs], byte j of i holding inputs
//       8i + j (low half) and 8i + 4 + j (high half) of the group, each the
//       value plus 8
//     The last inputs are padded with values of 0. A group is kGroup inputs.
// A panel is read front to back, once, by one thread.
//
// Int8 rows, the input of Int8 and Int4 matrices: groups (QuantizedGroup), a
// whole number of pairs of them.
//
// Rows. Row r of a value begins at r * row_bytes, a multiple of kAlignment.
// Columns beyond the last one are zeros up to a whole panel.
//
// KV cache. A block holds, for each layer and KV head, one slice; a slice is a
// sequence of groups of 16 positions, each K then V:
//   K: element [head_dim][16 positions]
//   V: element [16 positions][head_dim rounded up to 16]
//   Int8 only: float scale of K [16 positions], of V [16 positions]
//
// This header is what the ISA files see: no standard library, so that no inline
// function compiled for one instruction set can end up in place of another.
//
// Kernels neither allocate nor throw; pointers are aligned to kAlignment unless
// said otherwise. They may be called from many threads on disjoint outputs.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <cstddef>  // std::byte, which has no code

namespace rbln {

// Of program.fbs, whose generated header is full of inline functions; see
// kernels.cc for the check that the numbers agree.
enum class Format : int8_t;
enum class Epilogue : int8_t;
inline constexpr Format kFormatFloat32 = static_cast<Format>(0);
inline constexpr Format kFormatBFloat16 = static_cast<Format>(1);
inline constexpr Format kFormatInt8 = static_cast<Format>(2);
inline constexpr Format kFormatInt4 = static_cast<Format>(3);
inline constexpr int kFormats = 4;
inline constexpr Epilogue kStoreResult = static_cast<Epilogue>(0);
inline constexpr Epilogue kAddResult = static_cast<Epilogue>(1);
inline constexpr Epilogue kSiluGateResult = static_cast<Epilogue>(2);

// Inputs of a quantized matrix that share a scale.
inline constexpr int kGroup = 32;
// Inputs are padded to pairs of groups.
inline constexpr int kGroupPair = 2 * kGroup;
struct QuantizedGroup {
  float scale;
  int32_t offset;  // -128 times the sum of the values: what the offset of the
                   // weights adds, taken back
  int8_t values[kGroup];
};
// Bytes of a pair of groups of a panel: its scales, and all of it.
inline constexpr int kPairScaleBytes = 2 * 16 * 2;
inline constexpr int kInt8PairBytes = kPairScaleBytes + kGroupPair * 16;
inline constexpr int kInt4PairBytes = kPairScaleBytes + kGroupPair * 16 / 2;

// One register tile's worth of choices; any value gives the same bits.
struct MatmulTile {
  int rows;    // token rows of a register tile
  int panels;  // panels of a register tile
  int inputs;  // inputs of one cache block
};

// Of each of `panels` panels, `panel_bytes` apart, `bytes` from `at` on.
struct WeightBlock {
  const std::byte* at;
  uint64_t panel_bytes;
  int panels;
  uint64_t bytes;
};
// Weights that are computed with while others come: they and those fit the
// second-level cache.
inline constexpr int kMatmulBlockBytes = 128 * 1024;
// The panels and steps of a cache block, where so many are left: `step_inputs`
// inputs of a panel are `step_bytes`, and its steps are split into blocks much
// alike.
struct BlockShape {
  int panels;  // 4, 2 or 1
  int steps;
};
BlockShape MatmulBlockShape(const MatmulTile& tile, int64_t panels, int steps,
                            int step_inputs, int step_bytes);

struct MatmulArgs {
  const std::byte* weights;  // the packed matrix, all panels
  uint64_t panel_bytes;
  int inputs;
  const float* bias;   // by packed output column, or null
  const std::byte* x;  // (rows, inputs), as the weights, Int8 for Int4 too
  uint64_t x_row_bytes;
  int rows;
  std::byte* out;  // (rows, outputs), for SiluGate (rows, outputs / 2)
  uint64_t out_row_bytes;
  Format out_format;  // Float32 or BFloat16
  Epilogue epilogue;
  bool past_caches;  // store so; for Float32 that is only stored
  // The panels to compute, [begin, end); both even for SiluGate.
  int64_t panel_begin;
  int64_t panel_end;
  MatmulTile tile;
  float* scratch;  // rows * kMaxTilePanels * 16 floats, the thread's own
  // The first block of the thread's next matmul, which comes from memory while
  // this one ends; no panels for nothing. And whether this one's has come so.
  WeightBlock next;
  bool fetched;
};
inline constexpr int kMaxTilePanels = 4;

struct KvLayout {
  Format format;  // Float32, BFloat16 or Int8
  int head_dim;
  int num_kv_heads;
  int num_layers;
  int block_size;        // positions
  uint64_t group_bytes;  // 16 positions of one slice
  uint64_t slice_bytes;  // one layer, one KV head of a block
  uint64_t block_bytes;

  static KvLayout Make(Format format, int head_dim, int num_kv_heads,
                       int num_layers, int block_size);
};

struct RopeKvArgs {
  KvLayout kv;
  std::byte* cache;
  int layer;
  const int32_t* blocks;  // the row's sequence
  int32_t position;
  float* qkv;           // q heads, k heads, v heads of one row
  const float* rotary;  // cosines, sines: head_dim / 2 each
  const float* q_norm;  // head_dim weights, or null
  const float* k_norm;
  float epsilon;
  int num_heads;
};

struct AttentionArgs {
  KvLayout kv;
  const std::byte* cache;
  int layer;
  const int32_t* blocks;  // the rows' sequence
  int kv_head;
  int num_heads;
  // Consecutive rows of one sequence, ascending positions.
  int rows;
  const int32_t* positions;
  const std::byte* q;  // row 0; a row's heads are contiguous floats
  uint64_t q_row_bytes;
  std::byte* out;
  uint64_t out_row_bytes;
  Format out_format;
  float scale;
  int window;         // last positions attended to; 0 for all
  int partition_len;  // positions reduced on their own before being combined
  float* scratch;     // AttentionScratch() floats, the thread's own
  // The thread's next call, of the same layer, or null: its first keys come
  // from memory while this one ends. And whether this one's have come so.
  const AttentionArgs* next;
  bool fetched;
};
// Rows that one call may bring, and the floats of scratch it then needs.
int AttentionRows(int num_heads, int num_kv_heads);
int64_t AttentionScratch(int num_heads, int num_kv_heads, int head_dim);
// Floats of what one partition leaves.
int64_t AttentionPart(int num_heads, int num_kv_heads, int head_dim);

// Keys that are scored together; tiles begin at multiples of it.
inline constexpr int kKeyTile = 64;

struct KernelTable {
  const char* isa;  // "scalar", "avx2", "avxvnni", "avx512"

  // output rows = input rows x weights, with the epilogue; by weight format.
  void (*matmul[kFormats])(const MatmulArgs& args);

  // out = x / sqrt(mean(x^2) + epsilon) * weight, one row of `columns`.
  void (*rms_norm)(const float* x, const float* weight, int columns,
                   float epsilon, std::byte* out, uint64_t out_row_bytes,
                   Format out_format);

  // Row `token` of a packed matrix with `inputs` inputs, as float32; by weight
  // format.
  void (*embed[kFormats])(const std::byte* weights, int inputs, int64_t token,
                          float* out);

  // Pairs of groups [begin, end) of one row of `columns` floats, as an Int8
  // row: each group scaled so that its largest magnitude becomes 127.
  void (*quantize)(const float* x, int columns, int begin, int end,
                   std::byte* out);

  // One panel of a packed matrix, from 16 rows of `inputs` floats that lie
  // `inputs` apart. Every table gives the same bytes. Int8's scale makes the
  // largest magnitude of a group 127; Int4's gives the least squared error of a
  // search around what would make it 8.
  void (*pack_int8)(const float* rows, int inputs, std::byte* out);
  void (*pack_int4)(const float* rows, int inputs, std::byte* out);

  // One row: norms, rotates and stores k and v, rotates q in place. `heads`
  // [begin, end) counts KV heads; each comes with its q heads.
  void (*rope_kv)(const RopeKvArgs& args, int begin, int end);

  void (*attention)(const AttentionArgs& args);

  // The same bits in two steps, for when there are fewer KV heads than threads:
  // each partition on its own, then all together. attend_part leaves
  // AttentionPart() floats for the partition that begins at `partition`;
  // combine_parts puts `count` of them, `part_floats` apart and in order of
  // their partitions, into `args.out`.
  void (*attend_part)(const AttentionArgs& args, int partition, float* part);
  void (*combine_parts)(const AttentionArgs& args, float* parts,
                        int64_t part_floats, int count);

  // For measuring what the machine can do. Reads all of `bytes`, a multiple of
  // 4 KiB; the result only keeps the reading from being left out.
  float (*read_probe)(const std::byte* data, uint64_t bytes);
  // `rounds` rounds of multiply-adds, as matmuls of `format` do them, in
  // registers. Returns the operations done, two a multiply-add.
  int64_t (*peak_probe)(Format format, int64_t rounds);
};

}  // namespace rbln
