// A libcuda.so.1 for the tests: answers what the variable FAKE_CUDA says, "init=100 context=46 cc=86 crash=1".
#include <cstdlib>
#include <cstring>

namespace {
int told(const char* name, int otherwise) {
  const char* text = std::getenv("FAKE_CUDA");
  const size_t length = std::strlen(name);
  for (const char* at = text; at && (at = std::strstr(at, name)); at += length)
    if ((at == text || at[-1] == ' ') && at[length] == '=') return std::atoi(at + length + 1);
  return otherwise;
}
}  // namespace

extern "C" {
int cuDriverGetVersion(int* version) {
  *version = told("version", 13000);
  return told("version_result", 0);
}
int cuInit(unsigned) {
  if (told("crash", 0)) std::abort();
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  return visible && !*visible ? 100 : told("init", 0);
}
int cuDeviceGetCount(int* count) {
  *count = told("count", 1);
  return 0;
}
int cuDeviceGet(int* device, int number) {
  *device = number;
  return 0;
}
int cuDeviceGetName(char* name, int length, int) {
  std::strncpy(name, "Fake GPU", static_cast<size_t>(length));
  return 0;
}
int cuDeviceGetAttribute(int* value, int which, int) {
  const int cc = told("cc", 86);
  *value = which == 75 ? cc / 10 : which == 76 ? cc % 10 : which == 20 ? told("mode", 0) : 1;
  return 0;
}
int cuDevicePrimaryCtxRetain(void**, int) { return told("context", 0); }
int cuDevicePrimaryCtxRelease_v2(int) { return 0; }
}
