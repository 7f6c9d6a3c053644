#include "engine/trace.h"

#include <fmt/format.h>

#include <algorithm>

namespace rbln {
namespace {

constexpr size_t kBufferBytes = 64 << 10;
constexpr int kPrefillLane = 1;
constexpr int kFirstDecoderLane = 2;

}  // namespace

Trace::Trace(const std::string& path, const std::vector<int>& decoders,
             int prefill_rows)
    : file_(path), decoders_(decoders) {
  const auto lane = [&](int id, const std::string& name) {
    Append(fmt::format(
        R"({{"name":"thread_name","ph":"M","pid":1,"tid":{},"args":{{"name":"{}"}}}})",
        id, name));
    Append(fmt::format(
        R"({{"name":"thread_sort_index","ph":"M","pid":1,"tid":{},"args":{{"sort_index":{}}}}})",
        id, id));
  };
  Append(
      R"({"name":"process_name","ph":"M","pid":1,"args":{"name":"rbln-tool"}})");
  lane(kPrefillLane, fmt::format("prefill of {}", prefill_rows));
  for (size_t i = 0; i < decoders_.size(); ++i) {
    lane(kFirstDecoderLane + static_cast<int>(i),
         fmt::format("decoder_batch_{}", decoders_[i]));
  }
  Flush();
}

Trace::~Trace() {
  try {
    buffer_ += "\n]\n";
    Flush();
  } catch (const Error&) {
    // Readable without its end.
  }
}

void Trace::Step(const StepEvent& event) {
  const auto micros = [&](Clock::time_point time) {
    return std::chrono::duration<double, std::micro>(time - start_).count();
  };
  const auto decoder =
      std::find(decoders_.begin(), decoders_.end(), event.program_rows);
  const int lane =
      decoder == decoders_.end()
          ? kPrefillLane
          : kFirstDecoderLane + static_cast<int>(decoder - decoders_.begin());
  const int rows = event.decode_rows + event.prefill_rows;
  const double occupancy = 100.0 * rows / event.program_rows;
  const double begin = micros(event.begin);
  const double end = micros(event.end);
  Append(fmt::format(
      R"({{"name":"step","ph":"X","pid":1,"tid":{},"ts":{:.3f},"dur":{:.3f},"args":{{"decode_rows":{},"prefill_rows":{},"occupancy_percent":{:.1f}}}}})",
      lane, begin, end - begin, event.decode_rows, event.prefill_rows,
      occupancy));
  const auto counter = [&](const char* name, double at, double value) {
    Append(fmt::format(
        R"({{"name":"{}","ph":"C","pid":1,"ts":{:.3f},"args":{{"{}":{}}}}})",
        name, at, name, value));
  };
  counter("occupancy_percent", begin, occupancy);
  counter("running", end, event.running);
  counter("waiting", end, event.waiting);
  counter("free_blocks", end, event.free_blocks);
  counter("preemptions", end, static_cast<double>(event.preemptions));
}

void Trace::Append(std::string_view event) {
  buffer_ += first_ ? "[\n" : ",\n";
  first_ = false;
  buffer_ += event;
  if (buffer_.size() >= kBufferBytes) Flush();
}

void Trace::Flush() {
  file_.Write(buffer_);
  buffer_.clear();
}

}  // namespace rbln
