// A library for fdbserver 7.1 to 7.3: it has the factory of the C++ interface and no other.
extern "C" void *workloadFactory(void *) { return nullptr; }
