// What is said to a person, on standard error. One line of progress may stand
// there, on a terminal; whatever comes after takes it away first. Any thread.
#pragma once

#include <string_view>

namespace rbln {

// Writes text as it is. What cannot be written is dropped: that nobody listens
// must not end the work.
void Say(std::string_view text);

// Puts `line` in the place of the last one. For a terminal only.
void ShowStatus(std::string_view line);
// Takes it away, where there is one. For those who write to the terminal by
// another way.
void ClearStatus();

}  // namespace rbln
