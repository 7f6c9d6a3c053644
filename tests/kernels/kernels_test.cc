// Every kernel of every instruction set against plain loops in double.
#include "kernels/kernels.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "artifact/program.h"

namespace rbln {
namespace {

// Memory aligned as the kernels want it.
template <typename T>
class Aligned {
 public:
  explicit Aligned(size_t count)
      : count_(count),
        data_(static_cast<T*>(std::aligned_alloc(
            kAlignment,
            AlignUp(std::max<size_t>(1, count) * sizeof(T), kAlignment)))) {
    std::memset(data_, 0, count * sizeof(T));
  }
  ~Aligned() { std::free(data_); }
  Aligned(const Aligned&) = delete;
  Aligned& operator=(const Aligned&) = delete;
  T* data() { return data_; }
  size_t size() const { return count_; }
  T& operator[](size_t i) { return data_[i]; }

 private:
  size_t count_;
  T* data_;
};

uint16_t Bf16Bits(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, 4);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}
float FromBf16(uint16_t x) {
  const uint32_t bits = static_cast<uint32_t>(x) << 16;
  float f;
  std::memcpy(&f, &bits, 4);
  return f;
}
float Round(float x, Format format) {
  return format == Format::Float32 ? x : FromBf16(Bf16Bits(x));
}

std::vector<float> Random(size_t count, std::mt19937& random, Format format,
                          float scale = 1.0f) {
  std::normal_distribution<float> normal(0.0f, scale);
  std::vector<float> values(count);
  for (float& v : values) v = Round(normal(random), format);
  return values;
}

// Writes `x` as a row of `format`.
void PutRow(std::byte* row, const float* x, int count, Format format) {
  for (int i = 0; i < count; ++i) {
    if (format == Format::Float32) {
      reinterpret_cast<float*>(row)[i] = x[i];
    } else {
      reinterpret_cast<uint16_t*>(row)[i] = Bf16Bits(x[i]);
    }
  }
}
float GetColumn(const std::byte* row, int column, Format format) {
  return format == Format::Float32
             ? reinterpret_cast<const float*>(row)[column]
             : FromBf16(reinterpret_cast<const uint16_t*>(row)[column]);
}

float FromHalf(uint16_t x) {
  const int exponent = x >> 10 & 31;
  const float fraction = (x & 1023) / 1024.0f;
  const float magnitude = exponent == 0
                              ? std::ldexp(fraction, -14)
                              : std::ldexp(1 + fraction, exponent - 15);
  return x & 0x8000 ? -magnitude : magnitude;
}

bool Quantized(Format format) {
  return format == Format::Int8 || format == Format::Int4;
}

// Where a weight of an Int8 or Int4 panel lies.
struct Quant {
  uint16_t* scale;
  uint8_t* byte;
  int shift;  // of an Int4 value in its byte
};
Quant QuantAt(std::byte* packed, int inputs, Format format, int n, int k) {
  std::byte* pair = packed + n / kPanel * PanelBytes(format, inputs) +
                    k / 64 * (format == Format::Int8 ? 1088 : 576);
  auto* scales = reinterpret_cast<uint16_t*>(pair);
  auto* bytes = reinterpret_cast<uint8_t*>(pair + 64);
  const int group = k % 64 / 32, i = k % 32, column = n % kPanel;
  uint16_t* scale = scales + group * 16 + column;
  if (format == Format::Int8) {
    return {scale, bytes + group * 512 + i / 4 * 64 + column * 4 + i % 4, 0};
  }
  return {scale, bytes + group * 256 + i / 8 * 64 + column * 4 + i % 4,
          i / 4 % 2 * 4};
}
float Dequantized(std::byte* packed, int inputs, Format format, int n, int k) {
  const Quant at = QuantAt(packed, inputs, format, n, k);
  const int value =
      format == Format::Int8 ? *at.byte - 128 : (*at.byte >> at.shift & 15) - 8;
  return FromHalf(*at.scale) * static_cast<float>(value);
}

// Random quantized weights in packed form; `w` becomes what they stand for.
void PackRandom(std::mt19937& random, int outputs, int inputs, Format format,
                std::byte* out, std::vector<float>* w) {
  // Padding as the layout wants it: values of zero.
  const int columns = static_cast<int>(Panels(outputs)) * kPanel;
  const int padded = static_cast<int>(AlignUp(inputs, 64));
  for (int n = 0; n < columns; ++n) {
    for (int k = 0; k < padded; ++k) {
      const Quant at = QuantAt(out, inputs, format, n, k);
      const bool real = n < outputs && k < inputs;
      // Some group scales are negative, some subnormal.
      if (k % 32 == 0) {
        *at.scale = static_cast<uint16_t>(
            real ? random() % 0x3c00 | (random() % 4 == 0) << 15 : 0);
      }
      if (format == Format::Int8) {
        *at.byte = static_cast<uint8_t>(real ? random() % 255 + 1 : 128);
      } else {
        const uint8_t value = real ? random() % 16 : 8;
        *at.byte = static_cast<uint8_t>((*at.byte & (0xf0 >> at.shift)) |
                                        value << at.shift);
      }
    }
  }
  for (int n = 0; n < outputs; ++n) {
    for (int k = 0; k < inputs; ++k) {
      (*w)[size_t(n) * inputs + k] = Dequantized(out, inputs, format, n, k);
    }
  }
}

// An Int8 row of `x`, by the plain rule; `x` becomes what it stands for.
void QuantizeRow(std::byte* row, float* x, int count) {
  auto* groups = reinterpret_cast<QuantizedGroup*>(row);
  for (int begin = 0; begin < count; begin += 32) {
    QuantizedGroup& group = groups[begin / 32];
    const int end = std::min(begin + 32, count);
    float largest = 0;
    for (int i = begin; i < end; ++i)
      largest = std::max(largest, std::abs(x[i]));
    int sum = 0;
    for (int i = begin; i < begin + 32; ++i) {
      const int q =
          i < end && largest > 0
              ? static_cast<int>(std::nearbyint(x[i] * (127.0f / largest)))
              : 0;
      group.values[i - begin] = static_cast<int8_t>(q);
      sum += q;
    }
    group.scale = largest / 127.0f;
    group.offset = -128 * sum;
    for (int i = begin; i < end; ++i) {
      x[i] = group.scale * group.values[i - begin];
    }
  }
}

// Packs (outputs, inputs) by the layout that table.h describes.
void Pack(const std::vector<float>& w, int outputs, int inputs, Format format,
          std::byte* out) {
  const uint64_t panel_bytes = PanelBytes(format, inputs);
  for (int n = 0; n < outputs; ++n) {
    std::byte* panel = out + n / kPanel * panel_bytes;
    for (int k = 0; k < inputs; ++k) {
      const float x = w[size_t(n) * inputs + k];
      if (format == Format::Float32) {
        reinterpret_cast<float*>(panel)[k * kPanel + n % kPanel] = x;
      } else {
        reinterpret_cast<uint16_t*>(
            panel)[(k / 2 * kPanel + n % kPanel) * 2 + k % 2] = Bf16Bits(x);
      }
    }
  }
}

struct MatmulCase {
  int outputs, inputs, rows;
  Format format;
  Epilogue epilogue;
  bool bias;
  Format out_format;
};

class MatmulFixture {
 public:
  MatmulFixture(const MatmulCase& c, unsigned seed)
      : c_(c),
        random_(seed),
        panels_(Panels(c.outputs)),
        columns_(c.epilogue == Epilogue::SiluGate ? c.outputs / 2 : c.outputs),
        w_(Random(size_t(c.outputs) * c.inputs, random_, c.format)),
        x_(Random(size_t(c.rows) * c.inputs, random_, c.format)),
        bias_(size_t(panels_) * kPanel),
        weights_(panels_ * PanelBytes(c.format, c.inputs)),
        row_bytes_(RowBytes(MatmulInput(c.format), c.inputs)),
        x_bytes_(c.rows * row_bytes_),
        before_(Random(size_t(c.rows) * columns_, random_, Format::Float32)) {
    if (Quantized(c.format)) {
      PackRandom(random_, c.outputs, c.inputs, c.format, weights_.data(), &w_);
    } else {
      Pack(w_, c.outputs, c.inputs, c.format, weights_.data());
    }
    for (int r = 0; r < c.rows; ++r) {
      std::byte* row = x_bytes_.data() + r * row_bytes_;
      float* x = &x_[size_t(r) * c.inputs];
      if (Quantized(c.format)) {
        QuantizeRow(row, x, c.inputs);
      } else {
        PutRow(row, x, c.inputs, c.format);
      }
    }
    if (c.bias) {
      const std::vector<float> bias =
          Random(c.outputs, random_, Format::Float32);
      std::copy(bias.begin(), bias.end(), bias_.data());
    }
  }

  // The rows' outputs, computed in parts of panels and rows.
  std::vector<float> Run(const KernelTable& table, MatmulTile tile,
                         int64_t panels_a_call, int rows_a_call) {
    const uint64_t out_row = RowBytes(c_.out_format, columns_);
    Aligned<std::byte> out(c_.rows * out_row);
    for (int r = 0; r < c_.rows; ++r) {
      PutRow(out.data() + r * out_row, &before_[size_t(r) * columns_],
             c_.epilogue == Epilogue::Add ? columns_ : 0, c_.out_format);
    }
    Aligned<float> scratch(size_t(c_.rows) * kMaxTilePanels * kPanel);
    for (int row = 0; row < c_.rows; row += rows_a_call) {
      for (int64_t panel = 0; panel < panels_; panel += panels_a_call) {
        MatmulArgs args{};
        args.weights = weights_.data();
        args.panel_bytes = PanelBytes(c_.format, c_.inputs);
        args.inputs = c_.inputs;
        args.bias = c_.bias ? bias_.data() : nullptr;
        args.x_row_bytes = row_bytes_;
        args.x = x_bytes_.data() + row * args.x_row_bytes;
        args.rows = std::min(rows_a_call, c_.rows - row);
        args.out_row_bytes = out_row;
        args.out = out.data() + row * out_row;
        args.out_format = c_.out_format;
        args.epilogue = c_.epilogue;
        args.past_caches = row > 0 && c_.epilogue == Epilogue::None &&
                           c_.out_format == Format::Float32;
        args.panel_begin = panel;
        args.panel_end = std::min(panel + panels_a_call, panels_);
        args.tile = tile;
        args.scratch = scratch.data();
        table.matmul[static_cast<int>(c_.format)](args);
      }
    }
    std::vector<float> result;
    for (int r = 0; r < c_.rows; ++r) {
      for (int n = 0; n < columns_; ++n) {
        result.push_back(GetColumn(out.data() + r * out_row, n, c_.out_format));
      }
    }
    return result;
  }

  // The answer, and how far from it float32 sums of this length may lie.
  void Expect(const std::vector<float>& got) const {
    for (int r = 0; r < c_.rows; ++r) {
      for (int n = 0; n < columns_; ++n) {
        double value, bound;
        if (c_.epilogue == Epilogue::SiluGate) {
          // Panels alternate: gate n lies in panel 2 (n / 16).
          const int gate = n / kPanel * 2 * kPanel + n % kPanel;
          double g, g_bound, u, u_bound;
          Dot(r, gate, &g, &g_bound);
          Dot(r, gate + kPanel, &u, &u_bound);
          const double silu = g / (1 + std::exp(-g));
          value = silu * u;
          // silu's slope is below 1.1.
          bound = 1.1 * g_bound * std::abs(u) + u_bound * std::abs(silu) +
                  4e-7 * std::abs(value);
        } else {
          Dot(r, n, &value, &bound);
          if (c_.epilogue == Epilogue::Add) {
            value += before_[size_t(r) * columns_ + n];
            bound += 1e-7 * std::abs(value);
          }
        }
        if (c_.out_format == Format::BFloat16) {
          bound += std::abs(value) / 256 + 1e-30;
        }
        REQUIRE(std::abs(got[size_t(r) * columns_ + n] - value) <=
                bound + 1e-30);
      }
    }
  }

 private:
  void Dot(int r, int n, double* value, double* bound) const {
    double sum = 0, magnitude = 0;
    for (int k = 0; k < c_.inputs; ++k) {
      const double product =
          double(x_[size_t(r) * c_.inputs + k]) * w_[size_t(n) * c_.inputs + k];
      sum += product;
      magnitude += std::abs(product);
    }
    if (c_.bias) {
      sum += const_cast<Aligned<float>&>(bias_)[n];
      magnitude += std::abs(const_cast<Aligned<float>&>(bias_)[n]);
    }
    *value = sum;
    // Each of K additions rounds to half a unit of at most the magnitude.
    *bound =
        magnitude * (c_.inputs + 2) * std::numeric_limits<float>::epsilon();
  }

  MatmulCase c_;
  std::mt19937 random_;
  int64_t panels_;
  int columns_;
  std::vector<float> w_, x_;
  Aligned<float> bias_;
  Aligned<std::byte> weights_;
  uint64_t row_bytes_;
  Aligned<std::byte> x_bytes_;
  std::vector<float> before_;
};

std::vector<const KernelTable*> UsableTables() {
  std::vector<const KernelTable*> tables;
  for (const KernelTable* table : KernelTables()) {
    if (Supported(*table)) {
      tables.push_back(table);
    } else {
      MESSAGE("skipped, this machine lacks it: ", table->isa);
    }
  }
  return tables;
}

TEST_CASE("matmul is right for every shape, format, epilogue and tile") {
  const MatmulCase cases[] = {
      {16, 1, 1, Format::Float32, Epilogue::None, false, Format::Float32},
      {1, 7, 3, Format::Float32, Epilogue::None, true, Format::Float32},
      {50, 33, 5, Format::Float32, Epilogue::Add, true, Format::Float32},
      {96, 172, 8, Format::Float32, Epilogue::SiluGate, true, Format::Float32},
      {130, 64, 29, Format::Float32, Epilogue::None, false, Format::Float32},
      {130, 64, 29, Format::Int8, Epilogue::None, true, Format::Float32},
      {16, 1, 1, Format::BFloat16, Epilogue::None, false, Format::Float32},
      {1, 7, 3, Format::BFloat16, Epilogue::None, true, Format::Float32},
      {50, 33, 5, Format::BFloat16, Epilogue::Add, true, Format::Float32},
      {96, 172, 8, Format::BFloat16, Epilogue::SiluGate, true,
       Format::BFloat16},
      {130, 64, 29, Format::BFloat16, Epilogue::None, false, Format::BFloat16},
      {64, 515, 128, Format::BFloat16, Epilogue::SiluGate, false,
       Format::BFloat16},
      {16, 1, 1, Format::Int8, Epilogue::None, false, Format::Float32},
      {1, 7, 3, Format::Int8, Epilogue::None, true, Format::Float32},
      {50, 97, 5, Format::Int8, Epilogue::Add, true, Format::Float32},
      {96, 172, 8, Format::Int8, Epilogue::SiluGate, true, Format::Float32},
      {130, 1100, 29, Format::Int8, Epilogue::None, false, Format::BFloat16},
      {16, 1, 1, Format::Int4, Epilogue::None, false, Format::Float32},
      {1, 7, 3, Format::Int4, Epilogue::None, true, Format::Float32},
      {50, 97, 5, Format::Int4, Epilogue::Add, true, Format::Float32},
      {96, 172, 8, Format::Int4, Epilogue::SiluGate, true, Format::Float32},
      {130, 1100, 29, Format::Int4, Epilogue::None, false, Format::BFloat16},
      // More inputs than a block of weights has room for.
      {64, 2100, 3, Format::Float32, Epilogue::SiluGate, true, Format::Float32},
      {50, 4200, 3, Format::Int8, Epilogue::Add, false, Format::Float32},
  };
  for (const KernelTable* table : UsableTables()) {
    CAPTURE(std::string(table->isa));
    unsigned seed = 0;
    for (const MatmulCase& c : cases) {
      CAPTURE(c.outputs);
      CAPTURE(c.inputs);
      CAPTURE(c.rows);
      MatmulFixture fixture(c, ++seed);
      const std::vector<float> whole = fixture.Run(
          *table, DefaultTile(table->isa, c.format, c.rows, c.inputs), 1 << 20,
          c.rows);
      fixture.Expect(whole);
      // The same bits for every tile, and every split of panels and rows.
      for (const MatmulTile tile :
           {MatmulTile{1, 2, 0}, MatmulTile{4, 4, 64}, MatmulTile{12, 2, 30},
            MatmulTile{c.rows, 1, 16}}) {
        for (const int rows : {1, 2, 7, 13, c.rows}) {
          for (const int64_t panels : {2, 4, 6}) {
            REQUIRE(fixture.Run(*table, tile, panels, rows) == whole);
          }
        }
      }
    }
  }
}

TEST_CASE("rms_norm is right and pads with zeros") {
  std::mt19937 random(1);
  for (const KernelTable* table : UsableTables()) {
    CAPTURE(std::string(table->isa));
    for (const int columns : {1, 15, 16, 60, 64, 2048}) {
      for (const Format format : {Format::Float32, Format::BFloat16}) {
        const std::vector<float> x =
            Random(columns, random, Format::Float32, 3.0f);
        const std::vector<float> w = Random(columns, random, Format::Float32);
        Aligned<float> in(AlignUp(columns, kPanel)), weight(in.size());
        std::fill_n(in.data(), in.size(), NAN);  // padding must not matter
        std::copy(x.begin(), x.end(), in.data());
        std::copy(w.begin(), w.end(), weight.data());
        const uint64_t bytes = RowBytes(format, columns);
        Aligned<std::byte> out(bytes);
        table->rms_norm(in.data(), weight.data(), columns, 1e-5f, out.data(),
                        bytes, format);
        double squares = 0;
        for (const float v : x) squares += double(v) * v;
        const double scale = 1 / std::sqrt(squares / columns + 1e-5);
        for (int i = 0; i < columns; ++i) {
          const double want = x[i] * scale * w[i];
          const double relative = format == Format::Float32 ? 1e-6 : 1.0 / 256;
          REQUIRE(std::abs(GetColumn(out.data(), i, format) - want) <=
                  std::abs(want) * relative + 1e-30);
        }
        for (uint64_t i = columns; i < AlignUp(columns, kPanel); ++i) {
          REQUIRE(GetColumn(out.data(), i, format) == 0.0f);
        }
      }
    }
  }
}

TEST_CASE("rows are quantized by the plain rule, whole or in parts") {
  std::mt19937 random(3);
  for (const KernelTable* table : UsableTables()) {
    CAPTURE(std::string(table->isa));
    for (const int columns : {1, 31, 32, 33, 64, 100, 500}) {
      CAPTURE(columns);
      std::vector<float> x = Random(columns, random, Format::Float32, 3.0f);
      if (columns > 64) std::fill_n(x.begin() + 32, 32, 0.0f);
      Aligned<float> in(AlignUp(columns, kPanel));
      std::fill_n(in.data(), in.size(), NAN);  // padding must not matter
      std::copy(x.begin(), x.end(), in.data());
      const uint64_t bytes = RowBytes(Format::Int8, columns);
      Aligned<std::byte> want(bytes), whole(bytes), parts(bytes);
      QuantizeRow(want.data(), x.data(), columns);
      const int pairs = (columns + 63) / 64;
      table->quantize(in.data(), columns, 0, pairs, whole.data());
      for (int pair = pairs - 1; pair >= 0; --pair) {
        table->quantize(in.data(), columns, pair, pair + 1, parts.data());
      }
      REQUIRE(std::memcmp(whole.data(), want.data(), bytes) == 0);
      REQUIRE(std::memcmp(parts.data(), want.data(), bytes) == 0);

      // A norm's row is quantized as its float32 row would be.
      Aligned<float> weight(in.size()), normed(in.size());
      const std::vector<float> w = Random(columns, random, Format::Float32);
      std::copy(w.begin(), w.end(), weight.data());
      table->rms_norm(in.data(), weight.data(), columns, 1e-5f,
                      reinterpret_cast<std::byte*>(normed.data()),
                      normed.size() * sizeof(float), Format::Float32);
      table->quantize(normed.data(), columns, 0, pairs, want.data());
      table->rms_norm(in.data(), weight.data(), columns, 1e-5f, whole.data(),
                      bytes, Format::Int8);
      REQUIRE(std::memcmp(whole.data(), want.data(),
                          2 * pairs * sizeof(QuantizedGroup)) == 0);
    }
  }
}

TEST_CASE("weights are packed close, and alike by every instruction set") {
  std::mt19937 random(4);
  for (const int inputs : {1, 31, 64, 200, 515}) {
    CAPTURE(inputs);
    std::vector<float> w =
        Random(size_t(kPanel) * inputs, random, Format::Float32, 0.02f);
    if (inputs > 100) {  // an outlier, a group of zeros, tiny values
      w[40] = 3.0f;
      std::fill_n(w.begin() + 2 * inputs, 32, 0.0f);
      for (int k = 0; k < 64; ++k) w[5 * inputs + k] *= 1e-5f;
    }
    for (const Format format : {Format::Int8, Format::Int4}) {
      CAPTURE(std::string(FormatName(format)));
      const uint64_t bytes = PanelBytes(format, inputs);
      std::vector<std::byte> first;
      for (const KernelTable* table : UsableTables()) {
        CAPTURE(std::string(table->isa));
        Aligned<std::byte> packed(bytes);
        (format == Format::Int8 ? table->pack_int8 : table->pack_int4)(
            w.data(), inputs, packed.data());
        const std::vector<std::byte> got(packed.data(), packed.data() + bytes);
        if (first.empty()) first = got;
        REQUIRE(got == first);
      }
      Aligned<std::byte> packed(bytes);
      std::copy(first.begin(), first.end(), packed.data());
      for (int n = 0; n < kPanel; ++n) {
        for (int begin = 0; begin < inputs; begin += 32) {
          const int end = std::min(begin + 32, inputs);
          float largest = 0;
          for (int k = begin; k < end; ++k) {
            const float x = w[size_t(n) * inputs + k];
            if (std::abs(x) > std::abs(largest)) largest = x;
          }
          double error = 0, plain = 0, squares = 0;
          for (int k = begin; k < end; ++k) {
            const float x = w[size_t(n) * inputs + k];
            squares += double(x) * x;
            const float got = Dequantized(packed.data(), inputs, format, n, k);
            error += (double(got) - x) * (double(got) - x);
            // The largest magnitude on -8, as the simplest 4-bit formats do.
            const float scale = largest / -8;
            const float q =
                scale == 0 ? 0.0f
                           : std::clamp(std::nearbyint(x / scale), -8.0f, 7.0f);
            plain += (double(scale) * q - x) * (double(scale) * q - x);
            if (format == Format::Int8) {
              // Half a step, and the rounding of the scale to float16: to 2^-11
              // of it, or by 2^-25 where it is subnormal.
              REQUIRE(std::abs(got - x) <=
                      std::abs(largest) * (0.5 / 127 + 1.0 / 2048) +
                          127 * std::ldexp(1.0, -25));
            }
          }
          if (format == Format::Int4) {
            // As above for the rounding of the scale.
            REQUIRE(error <= plain * 1.002 + squares * std::ldexp(1.0, -22) +
                                 (end - begin) * 64 * std::ldexp(1.0, -50));
          }
        }
      }
    }
  }
}

TEST_CASE("embedding reads a row of the packed matrix back") {
  std::mt19937 random(2);
  for (const KernelTable* table : UsableTables()) {
    for (const Format format : {Format::Int8, Format::Int4}) {
      const int vocabulary = 37, inputs = 100;
      std::vector<float> w(size_t(vocabulary) * inputs);
      Aligned<std::byte> packed(Panels(vocabulary) *
                                PanelBytes(format, inputs));
      PackRandom(random, vocabulary, inputs, format, packed.data(), &w);
      for (const int token : {0, 1, 15, 16, 36}) {
        std::vector<float> out(inputs);
        table->embed[static_cast<int>(format)](packed.data(), inputs, token,
                                               out.data());
        REQUIRE(out == std::vector<float>(w.begin() + token * inputs,
                                          w.begin() + (token + 1) * inputs));
      }
    }
    for (const Format format : {Format::Float32, Format::BFloat16}) {
      const int vocabulary = 37, inputs = 21;
      const std::vector<float> w =
          Random(size_t(vocabulary) * inputs, random, format);
      Aligned<std::byte> packed(Panels(vocabulary) *
                                PanelBytes(format, inputs));
      Pack(w, vocabulary, inputs, format, packed.data());
      for (const int token : {0, 1, 15, 16, 36}) {
        std::vector<float> out(inputs);
        table->embed[static_cast<int>(format)](packed.data(), inputs, token,
                                               out.data());
        REQUIRE(out == std::vector<float>(w.begin() + token * inputs,
                                          w.begin() + (token + 1) * inputs));
      }
    }
  }
}

// A sequence in a paged cache with blocks in random order, and its exact K, V.
class AttentionFixture {
 public:
  struct Shape {
    int num_heads, num_kv_heads, head_dim, block_size, length, window,
        partition_len;
    Format format;
    bool norms;
  };

  AttentionFixture(const KernelTable& table, const Shape& s, unsigned seed)
      : table_(table),
        s_(s),
        random_(seed),
        kv_(KvLayout::Make(s.format, s.head_dim, s.num_kv_heads, 2,
                           s.block_size)),
        num_blocks_((s.length + s.block_size - 1) / s.block_size + 3),
        cache_(num_blocks_ * kv_.block_bytes),
        q_columns_(s.num_heads * s.head_dim),
        kv_columns_(s.num_kv_heads * s.head_dim),
        qkv_row_(RowBytes(Format::Float32, q_columns_ + 2 * kv_columns_)),
        qkv_(s.length * qkv_row_) {
    // Unwritten positions hold NaN: they must not be looked at.
    std::memset(cache_.data(), 0xff, cache_.size());
    for (int i = 0; i < num_blocks_; ++i) blocks_.push_back(i);
    std::shuffle(blocks_.begin(), blocks_.end(), random_);
    raw_ = Random(size_t(s.length) * (q_columns_ + 2 * kv_columns_), random_,
                  Format::Float32);
    norm_ = Random(s.head_dim, random_, Format::Float32);
    for (int p = 0; p < s.length; ++p) {
      float* row = reinterpret_cast<float*>(qkv_.data() + p * qkv_row_);
      std::copy_n(&raw_[size_t(p) * (q_columns_ + 2 * kv_columns_)],
                  q_columns_ + 2 * kv_columns_, row);
      std::vector<float> rotary(s.head_dim);
      for (int i = 0; i < s.head_dim / 2; ++i) {
        const float angle = p / std::pow(100.0f, 2.0f * i / s.head_dim);
        rotary[i] = std::cos(angle);
        rotary[s.head_dim / 2 + i] = std::sin(angle);
      }
      rotary_.push_back(rotary);
      RopeKvArgs args{};
      args.kv = kv_;
      args.cache = cache_.data();
      args.layer = 1;
      args.blocks = blocks_.data();
      args.position = p;
      args.qkv = row;
      args.rotary = rotary.data();
      args.q_norm = args.k_norm = s.norms ? norm_.data() : nullptr;
      args.epsilon = 1e-6f;
      args.num_heads = s.num_heads;
      table.rope_kv(args, 0, s.num_kv_heads);
    }
  }

  // Attention of rows [begin, end), `rows` at a call.
  // With `parts`, each partition on its own, last first, and then together.
  std::vector<float> Run(int begin, int end, int rows, bool parts = false) {
    const uint64_t out_row = RowBytes(Format::Float32, q_columns_);
    Aligned<std::byte> out((end - begin) * out_row);
    Aligned<float> scratch(
        AttentionScratch(s_.num_heads, s_.num_kv_heads, s_.head_dim));
    for (int row = begin; row < end; row += rows) {
      std::vector<int32_t> positions;
      for (int p = row; p < std::min(row + rows, end); ++p) {
        positions.push_back(p);
      }
      for (int head = 0; head < s_.num_kv_heads; ++head) {
        AttentionArgs args{};
        args.kv = kv_;
        args.cache = cache_.data();
        args.layer = 1;
        args.blocks = blocks_.data();
        args.kv_head = head;
        args.num_heads = s_.num_heads;
        args.rows = static_cast<int>(positions.size());
        args.positions = positions.data();
        args.q = qkv_.data() + row * qkv_row_;
        args.q_row_bytes = qkv_row_;
        args.out = out.data() + (row - begin) * out_row;
        args.out_row_bytes = out_row;
        args.out_format = Format::Float32;
        args.scale = 1.0f / std::sqrt(float(s_.head_dim));
        args.window = s_.window;
        args.partition_len = s_.partition_len;
        args.scratch = scratch.data();
        if (!parts) {
          AttentionArgs next = args;
          next.kv_head = head + 1;
          args.next = next.kv_head < s_.num_kv_heads ? &next : nullptr;
          args.fetched = head > 0;
          table_.attention(args);
          continue;
        }
        const int64_t floats =
            AttentionPart(s_.num_heads, s_.num_kv_heads, s_.head_dim);
        const int from = std::max(0, s_.window == 0 ? 0 : row + 1 - s_.window) /
                         s_.partition_len;
        const int count = positions.back() / s_.partition_len + 1 - from;
        Aligned<float> left(count * floats);
        for (int i = count - 1; i >= 0; --i) {
          table_.attend_part(args, (from + i) * s_.partition_len,
                             left.data() + i * floats);
        }
        table_.combine_parts(args, left.data(), floats, count);
      }
    }
    std::vector<float> result;
    for (int r = 0; r < end - begin; ++r) {
      for (int i = 0; i < q_columns_; ++i) {
        result.push_back(
            GetColumn(out.data() + r * out_row, i, Format::Float32));
      }
    }
    return result;
  }

  void Expect(const std::vector<float>& got, int begin, int end) const {
    const int group = s_.num_heads / s_.num_kv_heads;
    const double element = s_.format == Format::Float32    ? 1e-6
                           : s_.format == Format::BFloat16 ? 1.0 / 256
                                                           : 1.0 / 127;
    for (int p = begin; p < end; ++p) {
      for (int head = 0; head < s_.num_heads; ++head) {
        const std::vector<double> q = Head(p, head);
        const int first = s_.window == 0 ? 0 : std::max(0, p + 1 - s_.window);
        std::vector<double> scores;
        double largest = -1e300;
        for (int key = first; key <= p; ++key) {
          const std::vector<double> k = Head(key, s_.num_heads + head / group);
          double score = 0;
          for (int i = 0; i < s_.head_dim; ++i) score += q[i] * k[i];
          scores.push_back(score / std::sqrt(double(s_.head_dim)));
          largest = std::max(largest, scores.back());
        }
        double sum = 0;
        for (double& score : scores) sum += score = std::exp(score - largest);
        for (int i = 0; i < s_.head_dim; ++i) {
          double want = 0, magnitude = 0;
          for (int key = first; key <= p; ++key) {
            const float v =
                raw_[size_t(key) * (q_columns_ + 2 * kv_columns_) + q_columns_ +
                     kv_columns_ + head / group * s_.head_dim + i];
            want += scores[key - first] / sum * v;
            magnitude += scores[key - first] / sum * std::abs(v);
          }
          // Keys and values are rounded to the cache's format; a score moves by
          // about |q||k| of that, which the softmax passes on. An int8 value is
          // rounded to a part of its head's largest, here about 4.
          const double bound =
              element * (magnitude * 8 * std::sqrt(double(s_.head_dim)) + 2) +
              1e-6;
          REQUIRE(
              std::abs(
                  got[size_t(p - begin) * q_columns_ + head * s_.head_dim + i] -
                  want) <= bound);
        }
      }
    }
  }

 private:
  // A head of q or k, normed and rotated, in double. Heads of k follow q's.
  std::vector<double> Head(int position, int head) const {
    std::vector<double> x(s_.head_dim);
    double squares = 0;
    for (int i = 0; i < s_.head_dim; ++i) {
      x[i] = raw_[size_t(position) * (q_columns_ + 2 * kv_columns_) +
                  head * s_.head_dim + i];
      squares += x[i] * x[i];
    }
    if (s_.norms) {
      for (int i = 0; i < s_.head_dim; ++i) {
        x[i] *= norm_[i] / std::sqrt(squares / s_.head_dim + 1e-6);
      }
    }
    const std::vector<float>& rotary = rotary_[position];
    const int half = s_.head_dim / 2;
    std::vector<double> y(s_.head_dim);
    for (int i = 0; i < half; ++i) {
      y[i] = x[i] * rotary[i] - x[i + half] * rotary[half + i];
      y[i + half] = x[i + half] * rotary[i] + x[i] * rotary[half + i];
    }
    return y;
  }

  const KernelTable& table_;
  Shape s_;
  std::mt19937 random_;
  KvLayout kv_;
  int num_blocks_;
  Aligned<std::byte> cache_;
  int q_columns_, kv_columns_;
  uint64_t qkv_row_;
  Aligned<std::byte> qkv_;
  std::vector<int32_t> blocks_;
  std::vector<float> raw_, norm_;
  std::vector<std::vector<float>> rotary_;
};

TEST_CASE("attention is exact softmax for every window, partition and block") {
  const AttentionFixture::Shape shapes[] = {
      {1, 1, 2, 16, 3, 0, 1 << 20, Format::Float32, false},
      {4, 4, 8, 16, 70, 0, 1 << 20, Format::Float32, false},
      {8, 2, 10, 32, 150, 0, 64, Format::Float32, true},
      {6, 2, 64, 200, 200, 0, 1 << 20, Format::Float32, false},
      {4, 1, 80, 64, 140, 33, 64, Format::Float32, false},
      {4, 2, 16, 48, 131, 8, 32, Format::Float32, false},
      {7, 1, 128, 64, 130, 0, 128, Format::BFloat16, true},
      {8, 4, 8, 16, 100, 20, 1 << 20, Format::BFloat16, false},
      {7, 1, 128, 64, 130, 0, 128, Format::Int8, true},
      {8, 4, 10, 16, 100, 20, 1 << 20, Format::Int8, false},
      {4, 1, 64, 64, 140, 33, 64, Format::Int8, false},
      {4, 2, 42, 32, 150, 0, 64, Format::Int8, false},
  };
  for (const KernelTable* table : UsableTables()) {
    CAPTURE(std::string(table->isa));
    unsigned seed = 10;
    for (const AttentionFixture::Shape& shape : shapes) {
      CAPTURE(shape.head_dim);
      CAPTURE(shape.window);
      CAPTURE(shape.partition_len);
      AttentionFixture fixture(*table, shape, ++seed);
      const std::vector<float> one = fixture.Run(0, shape.length, 1);
      fixture.Expect(one, 0, shape.length);
      // The same bits however many rows share a call.
      const int most = AttentionRows(shape.num_heads, shape.num_kv_heads);
      for (const int rows : {2, 3, 5, most}) {
        if (rows <= most) {
          REQUIRE(fixture.Run(0, shape.length, rows) == one);
          REQUIRE(fixture.Run(0, shape.length, rows, true) == one);
        }
      }
      // What an int8 cache rounds hides how whole numbers are summed: but they
      // are the same for all.
      if (shape.format == Format::Int8) {
        AttentionFixture plain(*KernelTables().back(), shape, seed);
        const std::vector<float> want = plain.Run(0, shape.length, 1);
        double difference = 0, magnitude = 0;
        for (size_t i = 0; i < want.size(); ++i) {
          difference += std::pow(double{one[i]} - double{want[i]}, 2);
          magnitude += std::pow(double{want[i]}, 2);
        }
        CHECK(difference <= 1e-6 * magnitude);
      }
    }
  }
}

TEST_CASE("an instruction set is found by its name, and only by that") {
  for (const KernelTable* table : KernelTables()) {
    CHECK(FindKernels(table->isa) == table);
  }
  CHECK(FindKernels("avx") == nullptr);
  CHECK(Supported(*KernelTables().back()));
}

}  // namespace
}  // namespace rbln
