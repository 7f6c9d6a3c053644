#include "artifact/program.h"

#include <fmt/core.h>

#include <algorithm>

#include "artifact/manifest.h"
#include "artifact/sharding.h"
#include "base/file.h"

namespace rbln {
namespace {

// A program of a very deep and wide model has some thousands of operations.
constexpr size_t kMaxItems = 1 << 20;
constexpr int kMaxDimension = 1 << 26;
// Of anything held in memory; sums of a few still fit 64 bits.
constexpr uint64_t kMaxBytes = uint64_t{1} << 50;

// Bytes that the strings and lists of a verified file take once unpacked. In
// the file they may be shared, so that a small file could unpack to terabytes.
uint64_t UnpackedBytes(const Program& program) {
  uint64_t bytes = 0;
  const auto count = [&bytes](const auto* list, uint64_t element) {
    if (list != nullptr) bytes += list->size() * element;
  };
  count(program.isa(), 1);
  if (program.values() != nullptr) {
    for (const auto* value : *program.values()) count(value->name(), 1);
  }
  if (program.weights() != nullptr) {
    for (const auto* weight : *program.weights()) count(weight->name(), 1);
  }
  if (program.ops() == nullptr) return bytes;
  for (const auto* op : *program.ops()) {
    count(op->name(), 1);
    count(op->kernel(), 1);
    count(op->inputs(), sizeof(int32_t));
    if (op->measured() == nullptr) continue;
    for (const auto* tile : *op->measured()) count(tile->kernel(), 1);
  }
  return bytes;
}

// Checks one parsed program; every complaint names the file.
class Checker {
 public:
  Checker(const ProgramT& program, const std::string& name)
      : program_(program), name_(name) {}

  void Check() const {
    Require(program_.format_version == kFormatVersion,
            "format version {}, this tool reads {}; compile again with this "
            "version",
            program_.format_version, kFormatVersion);
    Require(program_.values.size() < kMaxItems &&
                program_.weights.size() < kMaxItems &&
                program_.ops.size() < kMaxItems,
            "too many items");
    for (const int dimension :
         {program_.rows, program_.ranks, program_.num_heads,
          program_.num_kv_heads, program_.head_dim, program_.num_layers,
          program_.vocab_size, program_.kvcache_block_size,
          program_.kvcache_partition_len}) {
      Require(dimension >= 1 && dimension <= kMaxDimension,
              "a size of {} is out of range", dimension);
    }
    Require(program_.head_dim <= kMaxHeadDim, "heads of {} are out of range",
            program_.head_dim);
    CheckText(program_.isa);
    Require(program_.num_heads % program_.num_kv_heads == 0,
            "{} heads do not divide into {} KV heads", program_.num_heads,
            program_.num_kv_heads);
    // Sizes of rows and of the KV cache are products of these.
    const int64_t q_columns = int64_t{program_.num_heads} * program_.head_dim;
    Require(q_columns <= kMaxDimension, "{} heads of {} are out of range",
            program_.num_heads, program_.head_dim);
    Require(
        16.0 * program_.num_layers * q_columns * program_.kvcache_block_size <=
            static_cast<double>(kMaxBytes),
        "a KV cache block is out of range");
    Require(program_.arena_bytes <= kMaxBytes, "an arena of {} bytes",
            program_.arena_bytes);
    Require(program_.rank >= 0 && program_.rank < program_.ranks,
            "rank {} of {}", program_.rank, program_.ranks);
    // Collectives rely on it.
    Require(program_.ranks <= Panels(program_.vocab_size),
            "{} ranks of a vocabulary of {}", program_.ranks,
            program_.vocab_size);
    CheckEnum(program_.kv_format, "KV format");
    Require(program_.kv_format != Format::Int4, "the KV cache is int4");
    for (const auto& value : program_.values) CheckValue(*value);
    for (const auto& weight : program_.weights) CheckWeight(*weight);
    for (const auto& op : program_.ops) CheckOp(*op);
    const ValueT& logits = Value(program_.logits, "program", "logits");
    Require(logits.row_kind == RowKind::Logits &&
                logits.format == Format::Float32 &&
                logits.columns >= program_.vocab_size,
            "the logits value '{}' has the wrong shape", logits.name);
  }

 private:
  template <typename... Args>
  void Require(bool condition, fmt::format_string<Args...> format,
               Args&&... args) const {
    if (condition) return;
    throw ModelError("{}: corrupt program: {}", name_,
                     fmt::format(format, std::forward<Args>(args)...));
  }

  template <typename Enum>
  void CheckEnum(Enum value, const char* what) const {
    Require(value >= Enum::MIN && value <= Enum::MAX, "{} {} is unknown", what,
            static_cast<int>(value));
  }

  // Names are printed, and written as JSON.
  void CheckText(const std::string& text) const {
    Require(std::all_of(text.begin(), text.end(),
                        [](char c) { return c >= ' ' && c <= '~'; }),
            "a name is not printable ASCII");
  }

  void CheckValue(const ValueT& value) const {
    CheckText(value.name);
    CheckEnum(value.format, "format");
    Require(value.format != Format::Int4, "value '{}' is int4", value.name);
    CheckEnum(value.row_kind, "row kind");
    Require(value.rows == program_.rows && value.columns >= 1 &&
                value.columns <= kMaxDimension,
            "value '{}' has {} rows of {}", value.name, value.rows,
            value.columns);
    Require(value.row_bytes == RowBytes(value.format, value.columns),
            "value '{}' has rows of {} bytes", value.name, value.row_bytes);
    const uint64_t bytes = value.row_bytes * static_cast<uint64_t>(value.rows);
    Require(value.offset % kAlignment == 0 &&
                value.offset <= program_.arena_bytes &&
                bytes <= program_.arena_bytes - value.offset,
            "value '{}' does not lie in the arena", value.name);
  }

  void CheckWeight(const WeightT& weight) const {
    CheckText(weight.name);
    CheckEnum(weight.format, "format");
    Require(weight.outputs >= 1 && weight.outputs <= kMaxDimension &&
                weight.inputs >= 0 && weight.inputs <= kMaxDimension,
            "weight '{}' is {} by {}", weight.name, weight.outputs,
            weight.inputs);
    const bool quantized =
        weight.format == Format::Int8 || weight.format == Format::Int4;
    Require(weight.group_size == (quantized ? kGroupSize : 0) &&
                (weight.inputs > 0 || weight.format == Format::Float32),
            "weight '{}' has group size {}", weight.name, weight.group_size);
    const uint64_t bytes =
        weight.inputs == 0
            ? AlignUp(uint64_t{sizeof(float)} * weight.outputs, kAlignment)
            : Panels(weight.outputs) * PanelBytes(weight.format, weight.inputs);
    Require(weight.bytes == bytes, "weight '{}' has {} bytes, not {}",
            weight.name, weight.bytes, bytes);
  }

  const ValueT& Value(int index, const std::string& op,
                      const char* role) const {
    Require(index >= 0 && static_cast<size_t>(index) < program_.values.size(),
            "'{}' has no {}", op, role);
    return *program_.values[index];
  }
  const WeightT& Weight(int index, const std::string& op) const {
    Require(index >= 0 && static_cast<size_t>(index) < program_.weights.size(),
            "'{}' has no weight", op);
    return *program_.weights[index];
  }
  const ValueT& Input(const OpT& op, size_t index) const {
    Require(index < op.inputs.size(), "'{}' lacks an input", op.name);
    return Value(op.inputs[index], op.name, "input");
  }
  // A weight that is a vector of at least `size`.
  void CheckVector(const OpT& op, int index, int size) const {
    const WeightT& weight = Weight(index, op.name);
    Require(weight.inputs == 0 && weight.outputs >= size,
            "'{}' has a weight of the wrong shape", op.name);
  }

  void CheckOp(const OpT& op) const {
    CheckText(op.name);
    CheckText(op.kernel);
    for (const auto& tile : op.measured) CheckText(tile->kernel);
    CheckEnum(op.kind, "operation");
    CheckEnum(op.epilogue, "epilogue");
    // Also those that the operation has no use for.
    for (const int input : op.inputs) Value(input, op.name, "input");
    for (const int weight : {op.weight, op.bias}) {
      if (weight >= 0) Weight(weight, op.name);
    }
    const ValueT& output = Value(op.output, op.name, "output");
    const int q_columns = program_.num_heads * program_.head_dim;
    const int kv_columns = program_.num_kv_heads * program_.head_dim;
    const bool layered =
        op.kind == OpKind::RopeKv || op.kind == OpKind::Attention;
    Require(!layered || (op.layer >= 0 && op.layer < program_.num_layers),
            "'{}' is of layer {}", op.name, op.layer);
    Require(op.window >= 0, "'{}' has a window of {}", op.name, op.window);
    bool good = true;
    switch (op.kind) {
      case OpKind::Embed: {
        const WeightT& weight = Weight(op.weight, op.name);
        good = weight.inputs == output.columns && op.first_token >= 0 &&
               (program_.ranks > 1 || weight.outputs >= program_.vocab_size) &&
               output.format == Format::Float32;
        break;
      }
      case OpKind::Rotary:
        CheckVector(op, op.weight, program_.head_dim / 2);
        good = output.columns == program_.head_dim &&
               output.format == Format::Float32;
        break;
      case OpKind::RmsNorm: {
        const ValueT& input = Input(op, 0);
        CheckVector(op, op.weight, input.columns);
        good = input.format == Format::Float32 &&
               input.columns == output.columns &&
               input.row_kind == RowKind::Tokens && op.inputs[0] != op.output;
        break;
      }
      case OpKind::Matmul: {
        const ValueT& input = Input(op, 0);
        const WeightT& weight = Weight(op.weight, op.name);
        // Of alternating panels, gate and up are padded each.
        const int outputs =
            op.epilogue == Epilogue::SiluGate
                ? static_cast<int>(2 * AlignUp(output.columns, kPanel))
                : output.columns;
        // A residual is added to in float32; integers come of quantizing only.
        good = weight.inputs == input.columns && weight.outputs == outputs &&
               input.format == MatmulInput(weight.format) &&
               output.format != Format::Int8 &&
               (op.epilogue != Epilogue::Add ||
                output.format == Format::Float32) &&
               input.row_kind == output.row_kind && op.inputs[0] != op.output &&
               op.tile_rows >= 0 && op.tile_panels >= 0 && op.tile_inputs >= 0;
        if (op.bias >= 0) CheckVector(op, op.bias, weight.outputs);
        break;
      }
      case OpKind::RopeKv: {
        const ValueT& rotary = Input(op, 1);
        good = Input(op, 0).columns == q_columns + 2 * kv_columns &&
               Input(op, 0).format == Format::Float32 &&
               rotary.columns == program_.head_dim &&
               rotary.format == Format::Float32 && op.output == op.inputs[0] &&
               program_.head_dim % 2 == 0 && (op.weight < 0) == (op.bias < 0);
        if (op.weight >= 0) {
          CheckVector(op, op.weight, program_.head_dim);
          CheckVector(op, op.bias, program_.head_dim);
        }
        break;
      }
      case OpKind::Attention:
        good = Input(op, 0).columns >= q_columns &&
               Input(op, 0).format == Format::Float32 &&
               output.columns == q_columns && output.format != Format::Int8 &&
               op.inputs[0] != op.output;
        break;
      case OpKind::Quantize:
        good = Input(op, 0).format == Format::Float32 &&
               output.format == Format::Int8 &&
               Input(op, 0).columns == output.columns &&
               Input(op, 0).row_kind == output.row_kind;
        break;
      case OpKind::AllReduce:
        good = program_.ranks > 1 && Input(op, 0).format == Format::Float32 &&
               output.format == Format::Float32 &&
               Input(op, 0).columns == output.columns &&
               Input(op, 0).row_kind == output.row_kind &&
               op.inputs[0] != op.output && op.epilogue != Epilogue::SiluGate;
        break;
      case OpKind::Gather: {
        const ShardRange tokens =
            VocabShard(program_.vocab_size, program_.rank, program_.ranks);
        good = program_.ranks > 1 && Input(op, 0).format == Format::Float32 &&
               output.format == Format::Float32 &&
               Input(op, 0).columns == tokens.size() &&
               output.columns == program_.vocab_size &&
               Input(op, 0).row_kind == output.row_kind &&
               op.inputs[0] != op.output;
        break;
      }
    }
    Require(good, "'{}' ({}) has operands of the wrong shape", op.name,
            EnumNameOpKind(op.kind));
  }

  const ProgramT& program_;
  const std::string& name_;
};

}  // namespace

Format MatmulInput(Format weights) {
  return weights == Format::Int4 ? Format::Int8 : weights;
}

std::string ProgramFileName(int rows, int rank, int ranks) {
  return (rows == 0 ? std::string("prefill")
                    : fmt::format("decoder_batch_{}", rows)) +
         (ranks == 1 ? "" : fmt::format(".rank{}", rank)) + ".rbln";
}

const char* FormatName(Format format) {
  switch (format) {
    case Format::Float32:
      return "float32";
    case Format::BFloat16:
      return "bfloat16";
    case Format::Int8:
      return "int8";
    case Format::Int4:
      return "int4";
  }
  return "?";
}

std::string SerializeProgram(const ProgramT& program) {
  flatbuffers::FlatBufferBuilder builder;
  FinishProgramBuffer(builder, Program::Pack(builder, &program));
  return {reinterpret_cast<const char*>(builder.GetBufferPointer()),
          builder.GetSize()};
}

ProgramT ParseProgram(std::span<const std::byte> bytes,
                      const std::string& name) {
  const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
  flatbuffers::Verifier verifier(data, bytes.size());
  if (!VerifyProgramBuffer(verifier)) {
    throw ModelError("{}: not a program, or damaged", name);
  }
  if (UnpackedBytes(*GetProgram(data)) > bytes.size()) {
    throw ModelError("{}: corrupt program: parts of it overlap", name);
  }
  ProgramT program;
  GetProgram(data)->UnPackTo(&program);
  Checker(program, name).Check();
  return program;
}

ProgramT ReadProgram(const std::string& path) {
  const MappedFile file(path, ErrorKind::kModel);
  return ParseProgram(file.bytes(), path);
}

}  // namespace rbln
