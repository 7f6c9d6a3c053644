// Several processes that answer the lines of one job: one reads and writes, the
// others, each with the whole model, answer what it hands them.
#pragma once

#include <optional>
#include <vector>

#include "engine/engine.h"
#include "job/line_work.h"
#include "job/output.h"

namespace rbln {

// The others, as the one that reads sees them. One thread.
class Replicas {
 public:
  virtual ~Replicas() = default;

  virtual int count() const = 0;
  // Lines given to one and not answered yet.
  virtual int64_t in_work(int replica) const = 0;
  virtual void Give(int replica, const InputLine& line) = 0;
  // Appends the answers that have come. A replica that says nothing for long
  // ends the job, with a message that names it.
  virtual void Take(std::vector<Answer>& answers) = 0;
  // Ends them, and adds what they did to `stats`.
  virtual void Finish(EngineStats* stats) = 0;
};

// The one that reads, as another sees it. One thread.
class Coordinator {
 public:
  virtual ~Coordinator() = default;

  // The next line, where one has come. With `wait`, waits a little for it.
  virtual std::optional<InputLine> Next(bool wait) = 0;
  // Nothing more will come, and what is in work is not wanted any more.
  virtual bool ended() const = 0;
  virtual void Put(const Answer& answer) = 0;
  virtual void Finish(const EngineStats& stats) = 0;
};

}  // namespace rbln
