// The C++ face of a workload library, for servers that know no other: FoundationDB 7.1 and 7.3, and
// 7.4 without `useCAPI = true`.
//
// Everything a server passes here is turned into the C ABI (version 1) and handed to the same factory
// that a newer server calls directly, so there is one implementation behind both faces. The classes
// below are declared only for the order of their virtual functions, which is the whole contract; the
// server's objects are never created or destroyed here, and ours are destroyed through the
// std::shared_ptr that made them, because FDBWorkload has no virtual destructor.
//
// SHAKETABLE_FDB_API_VERSION selects the layout: up to 730 a workload begins with description() and a
// context has no delay(); from 740 on it is the other way round. (A server of 7.4.0 to 7.4.5 has no
// delay() either, and nothing in its objects says so: do not call sleep there.)

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

struct FDB_future;
struct FDB_database;

// ---- the C ABI, as shaketable-abi declares it ----

extern "C" {

struct StringPair {
    const char* key;
    const char* val;
};

struct CMetric {
    const char* key;
    const char* fmt;
    double val;
    bool avg;
};

struct CString_VT {
    void (*free)(const char*);
};
struct CString {
    const char* inner;
    const CString_VT* vt;
};

struct CMetrics_VT {
    void (*reserve)(void*, int);
    void (*push)(void*, CMetric);
};
struct CMetrics {
    void* inner;
    const CMetrics_VT* vt;
};

struct CPromise_VT {
    void (*free)(void*);
    void (*send)(void*, bool);
};
struct CPromise {
    void* inner;
    const CPromise_VT* vt;
};

struct CContext_VT {
    void (*trace)(void*, int, const char*, const StringPair*, int);
    uint64_t (*getProcessID)(void*);
    void (*setProcessID)(void*, uint64_t);
    double (*now)(void*);
    uint32_t (*rnd)(void*);
    CString (*getOption)(void*, const char*, const char*);
    int (*clientId)(void*);
    int (*clientCount)(void*);
    int64_t (*sharedRandomNumber)(void*);
    FDB_future* (*delay)(void*, double);
};
struct CContext {
    int api_version;
    void* inner;
    const CContext_VT* vt;
};

struct CWorkload_VT {
    void (*free)(void*);
    void (*setup)(void*, FDB_database*, CPromise);
    void (*start)(void*, FDB_database*, CPromise);
    void (*check)(void*, FDB_database*, CPromise);
    void (*getMetrics)(void*, CMetrics);
    double (*getCheckTimeout)(void*);
};
struct CWorkload {
    int api_version;
    void* inner;
    const CWorkload_VT* vt;
};

typedef CWorkload (*CFactory)(const char*, CContext);
}

static const int WORKLOAD_API_VERSION = 1;

// ---- the C++ ABI: only the order of virtual functions and the layout of values matter ----

enum class FDBSeverity { Debug, Info, Warn, WarnAlways, Error };

typedef std::vector<std::pair<std::string, std::string>> Details;

class FDBLogger {
public:
    virtual void trace(FDBSeverity severity, const std::string& name, const Details& details) = 0;
};

class FDBWorkloadContext : public FDBLogger {
public:
    virtual uint64_t getProcessID() const = 0;
    virtual void setProcessID(uint64_t processID) = 0;
    virtual double now() const = 0;
    virtual uint32_t rnd() const = 0;
    virtual bool getOption(const std::string& name, bool fallback) = 0;
    virtual long getOption(const std::string& name, long fallback) = 0;
    virtual unsigned long getOption(const std::string& name, unsigned long fallback) = 0;
    virtual double getOption(const std::string& name, double fallback) = 0;
    virtual std::string getOption(const std::string& name, std::string fallback) = 0;
    virtual int clientId() const = 0;
    virtual int clientCount() const = 0;
    virtual int64_t sharedRandomNumber() const = 0;
#if SHAKETABLE_FDB_API_VERSION >= 740
    virtual FDB_future* delay(double seconds) const = 0;
#endif
};

struct FDBPromise {
    virtual ~FDBPromise() = default;
    virtual void send(void* value) = 0;
};

template <class T>
class GenericPromise {
    std::shared_ptr<FDBPromise> shared;

public:
    void send(T value) { shared->send(&value); }
};

struct FDBPerfMetric {
    std::string name;
    double value;
    bool averaged;
    std::string format_code;
};

class FDBWorkload {
public:
#if SHAKETABLE_FDB_API_VERSION < 740
    virtual std::string description() const = 0;
#endif
    virtual bool init(FDBWorkloadContext* context) = 0;
    virtual void setup(FDB_database* database, GenericPromise<bool> done) = 0;
    virtual void start(FDB_database* database, GenericPromise<bool> done) = 0;
    virtual void check(FDB_database* database, GenericPromise<bool> done) = 0;
    virtual void getMetrics(std::vector<FDBPerfMetric>& out) const = 0;
    virtual double getCheckTimeout() = 0;
};

class FDBWorkloadFactory {
public:
    virtual std::shared_ptr<FDBWorkload> create(const std::string& name) = 0;
};

// ---- from C++ to C ----

namespace {

FDBWorkloadContext& context_of(void* inner) {
    return *static_cast<FDBWorkloadContext*>(inner);
}

void context_trace(void* inner, int severity, const char* name, const StringPair* details, int count) {
    Details copied;
    copied.reserve(count);
    for (int i = 0; i < count; ++i) copied.emplace_back(details[i].key, details[i].val);
    // A number that is no severity comes from a broken caller, which is an error in itself.
    bool known = severity >= 0 && severity <= static_cast<int>(FDBSeverity::Error);
    FDBSeverity mapped = known ? static_cast<FDBSeverity>(severity) : FDBSeverity::Error;
    context_of(inner).trace(mapped, name, copied);
}

void string_free(const char* text) {
    std::free(const_cast<char*>(text));
}

CString context_get_option(void* inner, const char* name, const char* fallback) {
    static const CString_VT table = { string_free };
    std::string value = context_of(inner).getOption(std::string(name), std::string(fallback));
    char* copy = static_cast<char*>(std::malloc(value.size() + 1));
    if (copy) std::memcpy(copy, value.c_str(), value.size() + 1);
    return CString{ copy, &table };
}

const CContext_VT context_table = {
    context_trace,
    [](void* inner) -> uint64_t { return context_of(inner).getProcessID(); },
    [](void* inner, uint64_t process) { context_of(inner).setProcessID(process); },
    [](void* inner) -> double { return context_of(inner).now(); },
    [](void* inner) -> uint32_t { return context_of(inner).rnd(); },
    context_get_option,
    [](void* inner) -> int { return context_of(inner).clientId(); },
    [](void* inner) -> int { return context_of(inner).clientCount(); },
    [](void* inner) -> int64_t { return context_of(inner).sharedRandomNumber(); },
#if SHAKETABLE_FDB_API_VERSION >= 740
    [](void* inner, double seconds) -> FDB_future* { return context_of(inner).delay(seconds); },
#else
    nullptr,
#endif
};

typedef GenericPromise<bool> Done;

const CPromise_VT promise_table = {
    [](void* inner) { delete static_cast<Done*>(inner); },
    [](void* inner, bool value) { static_cast<Done*>(inner)->send(value); },
};

CPromise promise_from(const Done& done) {
    return CPromise{ new Done(done), &promise_table };
}

std::vector<FDBPerfMetric>& metrics_of(void* inner) {
    return *static_cast<std::vector<FDBPerfMetric>*>(inner);
}

const CMetrics_VT metrics_table = {
    [](void* inner, int more) { metrics_of(inner).reserve(metrics_of(inner).size() + more); },
    [](void* inner, CMetric metric) {
        const char* format = metric.fmt ? metric.fmt : "%.3g";
        metrics_of(inner).push_back(FDBPerfMetric{ metric.key, metric.val, metric.avg, format });
    },
};

class Workload final : public FDBWorkload {
    std::string name;
    CFactory factory;
    CWorkload workload = {};

public:
    Workload(const std::string& name, CFactory factory) : name(name), factory(factory) {}
    Workload(const Workload&) = delete;
    ~Workload() {
        if (workload.vt) workload.vt->free(workload.inner);
    }

#if SHAKETABLE_FDB_API_VERSION < 740
    std::string description() const override { return name; }
#endif
    bool init(FDBWorkloadContext* context) override {
        workload = factory(name.c_str(), CContext{ WORKLOAD_API_VERSION, context, &context_table });
        return true;
    }
    void setup(FDB_database* database, Done done) override {
        workload.vt->setup(workload.inner, database, promise_from(done));
    }
    void start(FDB_database* database, Done done) override {
        workload.vt->start(workload.inner, database, promise_from(done));
    }
    void check(FDB_database* database, Done done) override {
        workload.vt->check(workload.inner, database, promise_from(done));
    }
    void getMetrics(std::vector<FDBPerfMetric>& out) const override {
        workload.vt->getMetrics(workload.inner, CMetrics{ &out, &metrics_table });
    }
    double getCheckTimeout() override { return workload.vt->getCheckTimeout(workload.inner); }
};

class Factory final : public FDBWorkloadFactory {
    CFactory factory;

public:
    explicit Factory(CFactory factory) : factory(factory) {}
    std::shared_ptr<FDBWorkload> create(const std::string& name) override {
        return std::make_shared<Workload>(name, factory);
    }
};

} // namespace

// A server asks for a factory with every workload it creates and never frees one: one is enough.
extern "C" FDBWorkloadFactory* shaketable_cpp_factory(FDBLogger*, CFactory factory) {
    static Factory only(factory);
    return &only;
}
