// Quantities as a person reads them.
#pragma once

#include <cstdint>
#include <string>

namespace rbln {

// "812 B", "24.0 KiB", "3.8 MiB", "12.0 GiB": powers of 1024, everywhere.
std::string FormatBytes(uint64_t bytes);

}  // namespace rbln
