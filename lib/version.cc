// The shared library's own version, for programs that load it by hand.
namespace rbln {

extern const char kVersion[];
const char kVersion[] = RBLN_VERSION;

}  // namespace rbln
