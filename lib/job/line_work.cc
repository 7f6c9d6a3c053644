#include "job/line_work.h"

#include <fmt/core.h>

#include "job/answer.h"

namespace rbln {

void LineWork::Start(const InputLine& input) {
  PromptLine line =
      input.too_long
          ? BadPromptLine(input.index, input.number,
                          fmt::format("longer than {} bytes", max_line_bytes_))
          : ParsePromptLine(input.text, input.index, input.number, context_);
  std::vector<Request> requests;
  if (!line.error) {
    try {
      for (std::vector<TokenId>& prompt : line.prompts) {
        Request request;
        request.prompt = std::move(prompt);
        request.params = line.params.sampling;
        // Prompts of one line differ by their place in it.
        request.seed = line.seed + requests.size();
        engine_.Check(request);
        requests.push_back(std::move(request));
      }
    } catch (const Error& error) {
      line.error = fmt::format("line {}: {}", line.number, error.what());
    }
  }
  if (line.error) return Write(line, {});
  // The engine has them now.
  line.prompts.clear();
  const auto work = work_.emplace(work_.end());
  work->line = std::move(line);
  work->missing = requests.size();
  work->results.resize(requests.size());
  for (size_t i = 0; i < requests.size(); ++i) {
    requests[i].id = next_request_++;
    requests_[requests[i].id] = {work, i};
    engine_.Add(std::move(requests[i]));
  }
}

bool LineWork::Step(std::vector<Answer>& answers) {
  std::vector<Finished> finished;
  const bool worked = engine_.Step(finished) || !answered_.empty();
  for (Finished& one : finished) Take(std::move(one));
  for (Answer& answer : answered_) answers.push_back(std::move(answer));
  answered_.clear();
  return worked;
}

void LineWork::Take(Finished finished) {
  const auto request = requests_.find(finished.id);
  const auto [work, place] = request->second;
  requests_.erase(request);
  work->results[place] = std::move(finished);
  if (--work->missing > 0) return;
  for (const Finished& result : work->results) {
    if (result.error.empty() || work->line.error) continue;
    work->line.error =
        fmt::format("line {}: {}", work->line.number, result.error);
  }
  Write(work->line, work->results);
  work_.erase(work);
}

void LineWork::Write(const PromptLine& line,
                     const std::vector<Finished>& results) {
  answered_.push_back({line.index, line.error.has_value(),
                       FormatAnswer(line, results, *context_.tokenizer)});
}

}  // namespace rbln
