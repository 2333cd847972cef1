// Built in several ways for test_loader.cpp: as a library libcudart.so.12, as a library that needs it, as programs.
#ifdef FAKE_CUDART
int fake_runtime() { return 12; }
#elif defined(FAKE_MIDDLE)
int fake_runtime();
int fake_middle() { return fake_runtime(); }
#else
int fake_middle();
int fake_runtime();
int main() { return fake_middle() + fake_runtime() == 24 ? 0 : 1; }
#endif
