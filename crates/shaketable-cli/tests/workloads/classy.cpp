// A workload in C++ behind the C interface, as the author of a layer in C++ would write it: classes,
// exceptions, the clocks and containers of the standard library.
#include <chrono>
#include <cstdint>
#include <fstream>
#include <map>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <unordered_map>

namespace {

struct Pair { const char *key, *val; };
struct StringTable { void (*free)(const char *); };
struct String { const char *inner; StringTable *vt; };
struct PromiseTable { void (*free)(void *); void (*send)(void *, bool); };
struct RawPromise { void *inner; PromiseTable *vt; };
struct RawMetric { const char *key, *fmt; double val; bool avg; };
struct MetricsTable { void (*reserve)(void *, int); void (*push)(void *, RawMetric); };
struct RawMetrics { void *inner; MetricsTable *vt; };
struct ContextTable {
    void (*trace)(void *, int, const char *, const Pair *, int);
    uint64_t (*getProcessID)(void *);
    void (*setProcessID)(void *, uint64_t);
    double (*now)(void *);
    uint32_t (*rnd)(void *);
    String (*getOption)(void *, const char *, const char *);
    int (*clientId)(void *);
    int (*clientCount)(void *);
    int64_t (*sharedRandomNumber)(void *);
    void *(*delay)(void *, double);
};
struct RawContext { int api_version; void *inner; ContextTable *vt; };
struct WorkloadTable {
    void (*free)(void *);
    void (*setup)(void *, void *, RawPromise);
    void (*start)(void *, void *, RawPromise);
    void (*check)(void *, void *, RawPromise);
    void (*getMetrics)(void *, RawMetrics);
    double (*getCheckTimeout)(void *);
};
struct RawWorkload { int api_version; void *inner; WorkloadTable *vt; };

// Made before anybody calls the factory.
const std::map<std::string, int> made_when_loaded = {{"answer", 42}};

class Promise {
public:
    explicit Promise(RawPromise raw) : raw(raw) {}
    ~Promise() { raw.vt->free(raw.inner); }
    void send(bool value) { raw.vt->send(raw.inner, value); }

private:
    RawPromise raw;
};

class Workload {
public:
    explicit Workload(RawContext context) : context(context), what(option("what", "nothing")) {}

    void start(Promise done) {
        if (what == "caught") {
            try {
                throw std::runtime_error("caught where it was thrown");
            } catch (const std::exception &error) {
                trace(1, "Caught", "Error", error.what());
            }
        }
        if (what == "thrown") throw std::runtime_error("nobody catches this");
        if (what == "thread") std::thread([] {}).join();
        if (what == "file") std::ofstream("notes.txt") << "x";
        if (what == "ask") {
            std::unordered_map<std::string, int> order = {{"a", 1}, {"b", 2}, {"c", 3}};
            auto ticks = [](auto clock) { return std::to_string(clock.time_since_epoch().count()); };
            trace(1, "Asked", "Answer",
                  ticks(std::chrono::system_clock::now()) + " " + ticks(std::chrono::steady_clock::now()) + " " + order.begin()->first);
        }
        done.send(made_when_loaded.at("answer") == 42);
    }

private:
    std::string option(const char *name, const char *fallback) {
        String text = context.vt->getOption(context.inner, name, fallback);
        std::string copy(text.inner);
        text.vt->free(text.inner);
        return copy;
    }
    void trace(int severity, const char *name, const char *key, const std::string &value) {
        Pair pair = {key, value.c_str()};
        context.vt->trace(context.inner, severity, name, &pair, 1);
    }

    RawContext context;
    std::string what;
};

void pass(void *, void *, RawPromise done) { Promise(done).send(true); }
WorkloadTable table = {
    [](void *self) { delete static_cast<Workload *>(self); },
    pass,
    [](void *self, void *, RawPromise done) { static_cast<Workload *>(self)->start(Promise(done)); },
    pass,
    [](void *, RawMetrics out) { out.vt->push(out.inner, {"answer", nullptr, 42, false}); },
    [](void *) { return 60.0; },
};

} // namespace

extern "C" RawWorkload workloadCFactory(const char *, RawContext context) { return {1, new Workload(context), &table}; }
