// Plays a server that speaks the C++ ABI. -DLAYOUT=730 is that of FoundationDB 7.1 to 7.3, -DLAYOUT=740
// that of 7.4.6 and later. Writes down what the library does, in the words of host_v1.
//
// usage: host_cpp LIBRARY WORKLOAD [KEY=VALUE]...

#include "fake_fdb.h"

#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

enum class FDBSeverity { Debug, Info, Warn, WarnAlways, Error };
using Details = std::vector<std::pair<std::string, std::string>>;

struct FDBLogger {
    virtual void trace(FDBSeverity, const std::string&, const Details&) = 0;
};

struct FDBWorkloadContext : FDBLogger {
    virtual uint64_t getProcessID() const = 0;
    virtual void setProcessID(uint64_t) = 0;
    virtual double now() const = 0;
    virtual uint32_t rnd() const = 0;
    virtual bool getOption(const std::string&, bool) = 0;
    virtual long getOption(const std::string&, long) = 0;
    virtual unsigned long getOption(const std::string&, unsigned long) = 0;
    virtual double getOption(const std::string&, double) = 0;
    virtual std::string getOption(const std::string&, std::string) = 0;
    virtual int clientId() const = 0;
    virtual int clientCount() const = 0;
    virtual int64_t sharedRandomNumber() const = 0;
#if LAYOUT >= 740
    virtual FDBFuture* delay(double) const = 0;
#endif
};

struct FDBPromise {
    virtual ~FDBPromise() = default;
    virtual void send(void*) = 0;
};

template <class T>
struct GenericPromise {
    std::shared_ptr<FDBPromise> shared;
};

struct FDBPerfMetric {
    std::string name;
    double value;
    bool averaged;
    std::string format_code;
};

struct FDBWorkload {
#if LAYOUT < 740
    virtual std::string description() const = 0;
#endif
    virtual bool init(FDBWorkloadContext*) = 0;
    virtual void setup(FDBDatabase*, GenericPromise<bool>) = 0;
    virtual void start(FDBDatabase*, GenericPromise<bool>) = 0;
    virtual void check(FDBDatabase*, GenericPromise<bool>) = 0;
    virtual void getMetrics(std::vector<FDBPerfMetric>&) const = 0;
    virtual double getCheckTimeout() = 0;
};

struct FDBWorkloadFactory {
    virtual std::shared_ptr<FDBWorkload> create(const std::string&) = 0;
};

struct Logger final : FDBLogger {
    void trace(FDBSeverity, const std::string& name, const Details&) override {
        std::printf("logger trace %s\n", name.c_str());
    }
};

struct Context final : FDBWorkloadContext {
    std::map<std::string, std::string> options;
    uint64_t process = 100;

    void trace(FDBSeverity severity, const std::string& name, const Details& details) override {
        static const char* names[] = { "debug", "info", "warn", "warn-always", "error" };
        std::printf("client 0 trace %s %s", names[static_cast<int>(severity)], name.c_str());
        for (const auto& detail : details) std::printf(" | %s=%s", detail.first.c_str(), detail.second.c_str());
        std::printf("\n");
    }
    uint64_t getProcessID() const override { return process; }
    void setProcessID(uint64_t id) override { process = id; }
    double now() const override { return fake_now(); }
    uint32_t rnd() const override { return 4; }
    bool getOption(const std::string&, bool fallback) override { return wrong(fallback); }
    long getOption(const std::string&, long fallback) override { return wrong(fallback); }
    unsigned long getOption(const std::string&, unsigned long fallback) override { return wrong(fallback); }
    double getOption(const std::string&, double fallback) override { return wrong(fallback); }
    std::string getOption(const std::string& name, std::string fallback) override {
        auto found = options.find(name);
        return found == options.end() ? fallback : std::exchange(found->second, "");
    }
    int clientId() const override { return 0; }
    int clientCount() const override { return 1; }
    int64_t sharedRandomNumber() const override { return 4711; }
#if LAYOUT >= 740
    FDBFuture* delay(double seconds) const override {
        std::printf("client 0 delay %g\n", seconds);
        return fake_delay(seconds);
    }
#endif

private:
    template <class T>
    T wrong(T fallback) {
        std::printf("BUG: the wrong overload of getOption\n");
        return fallback;
    }
};

static int pending;

struct Promise final : FDBPromise {
    const char* phase;
    bool sent = false;
    explicit Promise(const char* phase) : phase(phase) { ++pending; }
    ~Promise() override {
        if (!sent) {
            std::printf("client 0 %s -> broken promise\n", phase);
            --pending;
        }
    }
    void send(void* value) override {
        sent = true;
        --pending;
        std::printf("client 0 %s -> %s\n", phase, *static_cast<bool*>(value) ? "true" : "false");
    }
};

// One life of a workload; with this seed, if there is one.
static int live(int argc, char** argv, const char* seed) {
    void* library = dlopen(argv[1], RTLD_LAZY | RTLD_LOCAL);
    if (!library) {
        std::fprintf(stderr, "%s\n", dlerror());
        return 2;
    }
    auto factory = reinterpret_cast<FDBWorkloadFactory* (*)(FDBLogger*)>(dlsym(library, "workloadFactory"));
    Context context;
    for (int i = 3; i < argc; ++i) {
        std::string option = argv[i];
        size_t equals = option.find('=');
        context.options[option.substr(0, equals)] = option.substr(equals + 1);
    }
    if (seed) context.options["seed"] = seed;
    Logger logger;
    std::shared_ptr<FDBWorkload> workload = factory(&logger)->create(argv[2]);
#if LAYOUT < 740
    std::printf("description %s\n", workload->description().c_str());
#endif
    workload->init(&context);
    FDBDatabase database = { 1 };
    auto run = [&](const char* phase, void (FDBWorkload::*function)(FDBDatabase*, GenericPromise<bool>)) {
        std::printf("client 0 %s called\n", phase);
        (workload.get()->*function)(&database, GenericPromise<bool>{ std::make_shared<Promise>(phase) });
        while (pending > 0)
            if (!fake_step()) {
                std::printf("deadlock in %s\n", phase);
                break;
            }
    };
    run("setup", &FDBWorkload::setup);
    run("start", &FDBWorkload::start);
    run("check", &FDBWorkload::check);
    std::printf("client 0 check timeout %g\n", workload->getCheckTimeout());
    std::vector<FDBPerfMetric> metrics;
    workload->getMetrics(metrics);
    for (const auto& metric : metrics)
        std::printf("client 0 metric %s %s %s %g\n", metric.averaged ? "avg" : "sum", metric.name.c_str(),
                    metric.format_code.c_str(), metric.value);
    workload.reset();
    std::printf("end\n");
    return 0;
}

// With `--seeds N` instead of options, N lives with the seeds from 0 on.
int main(int argc, char** argv) {
    std::setvbuf(stdout, nullptr, _IOLBF, 0);
    if (argc != 5 || std::string(argv[3]) != "--seeds") return live(argc, argv, nullptr);
    for (int seed = 0; seed < std::stoi(argv[4]); ++seed)
        if (int code = live(3, argv, std::to_string(seed).c_str())) return code;
    return 0;
}
